//! Records and wardens of other versions of the program: everybody sees them, and nobody ends them for it.

use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use crate::support::{Batch, Entry, World, rows};

/// As versions before and after this one write a record.
const RECORDS: [&str; 2] = [include_str!("records/protocol-0.json"), include_str!("records/protocol-9.json")];

const SESSION: &str = "serve-00000a1d";

/// Whatever it hears ends it, unlike a warden of ours.
const WARDEN: &str = "
ctypes.CDLL(None).prctl(36, 1)
log('warden')
forked(leaf, 'workload')
os.wait()
";

/// Starts a warden of another version with its workload, in tmux, and puts its record in place.
fn stand_in(world: &World, record: &str) -> Value {
    assert_eq!(world.run(&["ls"]).0, 0);
    let line = format!("exec {} -I {}", crate::support::python(), world.python(WARDEN));
    assert!(world.tmux(&["-f", "/dev/null", "new-session", "-d", &line]).status.success());
    let server = world.server();
    world.ledger.await_roles(&["warden", "workload"]);
    let mut text = record.replace("SOCKET", world.socket_path().to_str().unwrap());
    let named =
        [("SERVER", &server.entry), ("WARDEN", &world.ledger.of("warden")), ("WORKLOAD", &world.ledger.of("workload"))];
    for (name, Entry { pid, .. }) in &named {
        text = text.replace(&format!("\"{name}\""), &pid.to_string());
    }
    for (name, entry) in &named {
        text = text.replace(&format!("TOKEN_OF_{name}"), &entry.token());
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let inode = |name: &str| std::fs::metadata(format!("/proc/self/ns/{name}")).unwrap().ino().to_string();
    let text =
        text.replace("BOOT", boot.trim()).replace("\"PIDNS\"", &inode("pid")).replace("\"TIMENS\"", &inode("time"));
    std::fs::write(world.path(&format!("state/sessions/{SESSION}.json")), &text).unwrap();
    world.end_later(server);
    serde_json::from_str(&text).unwrap()
}

fn assert_alive(world: &World, after: &str) {
    for role in ["warden", "workload"] {
        assert!(world.ledger.is_alive(role), "{after} ended the {role}");
    }
}

#[test]
fn they_are_shown_and_left_alone() {
    for record in RECORDS {
        let world = World::new();
        let record = stand_in(&world, record);
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let said = format!("its warden speaks protocol {}", record["protocol"]);
        let says = |value: &Value| value.as_str().is_some_and(|text| text.contains(&said));

        let (_, listed) = world.run(&["ls"]);
        let row = rows(&listed, "sessions").find(|row| row["session"] == SESSION).unwrap();
        assert_eq!((&row["phase"], &row["verdict"]), (&json!("running"), &json!("owned")), "{row:#}");
        assert!(says(&row["detail"]), "{row:#}");
        let (_, doctor) = world.run(&["doctor"]);
        let check = rows(&doctor, "checks").find(|check| check["name"] == "wardens").unwrap();
        assert!(check["state"] == "warn" && says(&check["detail"]), "{check}");
        let (_, orphans) = world.run(&["orphans"]);
        let row = rows(&orphans, "orphans").find(|row| row["session"] == SESSION).unwrap();
        assert!(says(&row["reason"]), "{row:#}");
        let (_, tree) = world.run(&["tree", SESSION]);
        let warden = i64::from(world.ledger.of("warden").pid);
        assert!(rows(&tree, "supervisors").any(|row| row["pid"] == warden), "{tree:#}");
        assert_alive(&world, "looking");

        // Everything that ends sessions without being told which, and everything that speaks to wardens.
        let (code, reaped) = world.run(&["orphans", "--reap"]);
        assert_eq!((code, &reaped["swept"]), (0, &json!([])), "{reaped:#}");
        assert_alive(&world, "a reaping");
        world.run(&["sweep"]);
        assert_alive(&world, "a sweep");
        let (code, extended) = world.run(&["extend", SESSION, "7200"]);
        assert_eq!(code, 0, "{extended:#}");
        assert_alive(&world, "an extension");
        assert_eq!(Batch::finish(world.batch()).code(), Some(0));
        assert_alive(&world, "a manager that came and went");

        // A person's word is another matter.
        let (code, receipt) = world.run(&["stop", SESSION]);
        assert_eq!((code, &receipt["dead"]), (0, &json!(true)), "{receipt:#}");
        world.ledger.await_empty();
        bystanders.assert_untouched();
    }
}
