//! The manager dies before and after every write, sync, rename, removal, spawn and signal, twice at each.

use serde_json::json;

use crate::support::{Batch, Host, Launch, World, settle};

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
    write: while_launching while_stopping;
    fsync: while_launching while_stopping;
    rename: while_launching while_stopping;
    dirsync: while_launching while_stopping;
    spawn: while_launching while_stopping;
    unlink: while_stopping;
    append: while_stopping;
    signal: while_stopping;
}
