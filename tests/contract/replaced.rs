//! The file of the program is replaced or removed while it runs, as an update does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::client::Batch;
use crate::rig::Rig;

fn check_both_hosts(rig: &Rig, batch: &mut Batch, name: &str) {
    for host in ["pty", "tmux"] {
        let ledger = rig.ledger(&format!("{name}-{host}"));
        let command = ledger.noted(&["sleep", &rig.nap()]);
        let session = batch.launch(json!({"command": command, "host": host, "kind": "serve"}));
        let workload = ledger.one();
        workload.assert_alive();
        let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
        assert_eq!(receipt["dead"], true, "{host}: {receipt:#}");
        assert!(!workload.is_alive(), "{host}: {receipt:#}");
        assert_eq!(receipt["containment"], json!(["tree", "warden"]), "{host}: {receipt:#}");
    }
}

#[test]
fn a_program_that_was_replaced_launches_and_stops() {
    let rig = Rig::new();
    let copy = rig.work().join("cookbook-tui");
    fs::copy(env!("CARGO_BIN_EXE_cookbook-tui"), &copy).unwrap();
    // In place of the binary that the rig names.
    let script = format!("shift; exec '{}' \"$@\"", copy.display());
    let mut batch = rig.batch_with(&["sh", "-c", &script, "sh"], &[]);
    check_both_hosts(&rig, &mut batch, "before");
    let other = rig.work().join("next");
    fs::write(&other, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&other, &copy).unwrap();
    check_both_hosts(&rig, &mut batch, "replaced");
    fs::remove_file(&copy).unwrap();
    check_both_hosts(&rig, &mut batch, "removed");
    assert_eq!(batch.finish(), Some(0));
}
