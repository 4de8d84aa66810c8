//! A manager that is nobody, on a host that hides the processes of others (proc(5), `hidepid=2`): what it may see it
//! ends, and what it cannot see it does not take for gone.

use std::os::unix::fs::{PermissionsExt, chown};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{Batch, Host, World, eventually, is_root, pids, process_state, python, rows, skip};

in_both! { a_tree_of_its_own a_descendant_that_cannot_be_seen }

/// Nobody else has these.
const UID: u32 = 64_985;
const GID: u32 = 64_984;

/// Since Linux 5.8 the option belongs to the mount, before it belonged to everybody in the pid namespace.
fn mounts_have_their_own_options() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(8))
}

/// Returns a world of nobody's, and what every program of that one begins with.
fn nobodys() -> Option<(World, Vec<String>)> {
    if !is_root() || !mounts_have_their_own_options() {
        skip("needs root, and Linux 5.8");
        return None;
    }
    let world = World::new();
    // Reading a file of root's is enough for an interpreter; the binary may be where only root can read.
    std::fs::copy(env!("CARGO_BIN_EXE_cookbook-tui"), world.path("cookbook-tui")).unwrap();
    for name in ["", "run", "tmux", "home", "ledger"] {
        chown(world.path(name), Some(UID), Some(GID)).unwrap();
    }
    let hide = "mount -t proc -o hidepid=2 proc /proc || exit 77; exec \"$@\"";
    let mut argv: Vec<String> = ["unshare", "-m", "sh", "-c", hide, "sh", "setpriv"].map(str::to_owned).into();
    argv.extend(["--reuid", &UID.to_string(), "--regid", &GID.to_string(), "--clear-groups"].map(str::to_owned));
    if world.command(&[&argv[..], &["true".to_owned()]].concat()).status().unwrap().code() != Some(0) {
        skip("nothing may be mounted here");
        return None;
    }
    Some((world, argv))
}

fn manager(world: &World, prefix: &[String]) -> Batch {
    let mut argv = prefix.to_vec();
    argv.push(world.path("cookbook-tui").to_str().unwrap().to_owned());
    argv.extend(world.binary().into_iter().skip(1));
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    Batch::start(world.command(&argv))
}

fn launch(batch: &mut Batch, host: Host, script: &str) -> Value {
    let command = ["bash", script];
    let launch = json!({ "cmd": "launch", "command": command, "kind": "serve", "host": host.name(), "grace_s": 0.5 });
    batch.ok(launch)["session"].take()
}

fn a_tree_of_its_own(host: Host) {
    let Some((world, prefix)) = nobodys() else { return };
    // The same command line, of a user who cannot be seen.
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let mut batch = manager(&world, &prefix);
    let daemon = world.shell("trap '' TERM HUP; log daemon; (leaf deep) & wait");
    let script =
        world.shell(&format!("log root; (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &); (leaf child) & wait"));
    let session = launch(&mut batch, host, &script);
    let roles = ["root", "daemon", "deep", "child"];
    world.ledger.await_roles(&roles);
    let members = roles.map(|role| i64::from(world.ledger.of(role).pid)).into();
    eventually("everybody in the tree", || {
        let tree = batch.ok(json!({ "cmd": "tree", "session": session }));
        let owned = rows(&tree, "processes").filter(|row| row["verdict"] == "owned");
        owned.filter_map(|row| row["pid"].as_i64()).collect::<std::collections::BTreeSet<_>>() == members
    });
    let row = batch.ok(json!({ "cmd": "list" }))["sessions"][0].take();
    assert_eq!((&row["phase"], &row["verdict"]), (&json!("running"), &json!("owned")), "{row:#}");
    let receipt = batch.ok(json!({ "cmd": "stop", "session": session }));
    assert!(world.ledger.alive().is_empty(), "{:?}\n{receipt:#}", world.ledger.alive());
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_eq!(receipt["containment"], json!(["tree", "warden"]), "{receipt:#}");
    assert!(pids(&receipt, "signals").is_subset(&members), "{receipt:#}");
    bystanders.assert_untouched();
    assert!(world.tether(session.as_str().unwrap()).is_none());
    assert_eq!(batch.finish().code(), Some(0));
    eventually("the end of fronts and wardens", || world.stages().is_empty());
}

/// A child became root: from then on there is no trace of it in procfs.
fn a_descendant_that_cannot_be_seen(host: Host) {
    let Some((world, prefix)) = nobodys() else { return };
    let mut batch = manager(&world, &prefix);
    let elevated = world.path("elevated");
    std::fs::copy(python(), &elevated).unwrap();
    chown(&elevated, Some(0), Some(GID)).unwrap();
    std::fs::set_permissions(&elevated, std::fs::Permissions::from_mode(0o4750)).unwrap();
    let root = world.python("deaf()\nos.setuid(0)\nlog('elevated')\ntime.sleep(120)");
    let script = world.shell(&format!("log root; {} -I {root} & (leaf child) & wait", elevated.display()));
    let session = launch(&mut batch, host, &script);
    world.ledger.await_roles(&["root", "child", "elevated"]);
    let hidden = world.ledger.of("elevated").pid;
    let receipt = batch.ok(json!({ "cmd": "stop", "session": session }));
    assert!(world.ledger.is_alive("elevated") && process_state(hidden).is_some());
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"), "{receipt:#}");
    assert_ne!(receipt["dead"], json!(true), "somebody lives who cannot be seen\n{receipt:#}");
    let named: Vec<i64> = pids_of(&receipt, "survivors").chain(pids_of(&receipt, "unverified")).collect();
    assert!(named.contains(&i64::from(hidden)), "{hidden} is not named\n{receipt:#}");
    assert!(!pids(&receipt, "signals").contains(&i64::from(hidden)), "{receipt:#}");
    let tether = world.tether(session.as_str().unwrap()).expect("what is left stays recorded");
    assert!(tether["last"]["reason"].as_str().unwrap().contains(&hidden.to_string()), "{}", tether["last"]);
    // Somebody who may ends it.
    world.ledger.signal("elevated", Signal::KILL);
    eventually("the end of the elevated one", || !world.ledger.is_alive("elevated"));
    let receipt = batch.ok(json!({ "cmd": "stop", "session": session }));
    assert_eq!(receipt["dead"], json!(true), "{receipt:#}");
    assert_eq!(batch.finish().code(), Some(3), "the first stop was not clean");
    eventually("the end of fronts and wardens", || world.stages().is_empty());
}

fn pids_of<'a>(receipt: &'a Value, list: &str) -> impl Iterator<Item = i64> + 'a {
    receipt[list].as_array().into_iter().flatten().filter_map(Value::as_i64)
}
