//! A manager dies before and after every write, sync, rename, removal, spawn and signal, twice at each; a warden
//! at every one of a restart.

use serde_json::json;

use crate::support::{Batch, Host, Launch, World, eventually, settle};

fn dying(world: &World, point: &str, hit: u32) -> Batch {
    let mut argv = world.binary();
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut command = world.command(&argv);
    command.env("COOKBOOK_TUI_FAILPOINT", format!("{point}:{hit}")).stderr(std::process::Stdio::null());
    Batch::start(command)
}

fn script(world: &World) -> String {
    world.shell("log root; (leaf child) & (setsid bash -c 'exec sleep \"$0\"' \"$NAP\" &) ; wait")
}

/// It dies while it launches one session in a PTY and one in tmux.
fn while_launching(point: &str) {
    for hit in [1, 2] {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        // What is written once for all of a state directory is there.
        world.run(&["ls"]);
        let script = script(&world);
        let mut batch = dying(&world, point, hit);
        for host in ["pty", "tmux"] {
            batch.send(json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": host }));
        }
        batch.assert_dies(point);
        world.end_server_later();
        settle(&world, &mut bystanders, &format!("{point}, {hit}, launching"));
    }
}

/// It dies while it stops two sessions that another one had launched.
fn while_stopping(point: &str) {
    for hit in [1, 2] {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let script = script(&world);
        let mut first = world.batch();
        let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 0.3, argv: &["bash", &script] };
        let sessions = [world.launch(&mut first, &launch), world.launch(&mut first, &launch)];
        world.ledger.await_roles(&["root", "child", "root", "child"]);
        first.kill();
        let mut batch = dying(&world, point, hit);
        for session in &sessions {
            batch.send(json!({ "cmd": "stop", "session": session.id }));
        }
        batch.assert_dies(point);
        settle(&world, &mut bystanders, &format!("{point}, {hit}, stopping"));
    }
}

/// A warden dies while it starts a failed workload again: nothing runs that is in no record.
fn while_restarting(point: &str) {
    // The trampoline of the launch was its first spawn; a restart writes four times at most.
    let hits = if point.ends_with("spawn") { 2..=2 } else { 1..=4 };
    for hit in hits {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let script = world.shell("log run; until [ -e $FX/fail ]; do sleep 0.02; done; rm $FX/fail; exit 3");
        world.recipes(&format!(
            "[[recipe]]\nname = \"r\"\nkind = \"serve\"\ncommand = [\"bash\", \"{script}\"]\nrestart = \"on-failure\"\n"
        ));
        let mut argv = world.binary();
        argv.extend(["--batch".to_owned(), "-".to_owned()]);
        let mut command = world.command(&argv);
        command.env("COOKBOOK_TUI_WARDEN_FAILPOINT", format!("{point}:{hit}")).stderr(std::process::Stdio::null());
        let mut batch = Batch::start(command);
        let session = world.launch_recipe(&mut batch, "r", Host::Pty);
        world.ledger.await_roles(&["run"]);
        std::fs::write(world.path("fail"), "").unwrap();
        let what = format!("{point}, {hit}, restarting");
        assert!(session.supervisors[0].ends_within(crate::support::PATIENCE), "{what}: never reached");
        // Whoever waited at the gate has left with it.
        eventually(&what, || world.stages().is_empty());
        let recorded = world.tether(&session.id).unwrap_or_else(|| panic!("{what}: the record is lost"));
        for entry in world.ledger.alive() {
            assert_eq!(recorded["workload"]["pid"], entry.pid, "{what}: it runs in no record: {entry:?}");
        }
        let receipt = batch.stop(&session.id);
        assert_eq!(receipt["dead"], true, "{what}: {receipt:#}");
        assert!(world.ledger.alive().is_empty(), "{what}");
        bystanders.assert_untouched();
    }
}

macro_rules! points {
    ($($name:ident: $($act:ident)*;)*) => {
        $(mod $name {
            #[test]
            fn before() {
                $(super::$act(concat!("before-", stringify!($name)));)*
            }

            #[test]
            fn after() {
                $(super::$act(concat!("after-", stringify!($name)));)*
            }
        })*
    };
}

points! {
    write: while_launching while_stopping while_restarting;
    fsync: while_launching while_stopping while_restarting;
    rename: while_launching while_stopping while_restarting;
    dirsync: while_launching while_stopping while_restarting;
    spawn: while_launching while_stopping while_restarting;
    unlink: while_stopping;
    append: while_stopping;
    signal: while_stopping;
}
