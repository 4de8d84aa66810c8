//! `w` tells why a process is what it is, as the kernel has it.

use std::fs;

use super::Terminal;

fn check(cols: u16, rows: u16) {
    let terminal = Terminal::new(cols, rows);
    terminal.start();
    let _shell = terminal.start_shell();
    let pid = terminal.workloads()[0].as_raw_nonzero().get();
    // The tree is there once the process has been looked at.
    let until = std::time::Instant::now() + super::PATIENCE;
    while !terminal.text().contains("start token") && !terminal.text().contains(&format!("Why: {pid}")) {
        assert!(std::time::Instant::now() < until, "{}", terminal.text());
        terminal.key("w");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    terminal.await_text("● owned");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let (group, session, ticks) = (fields[2], fields[3], fields[19]);
    for wanted in [
        "same pid, same start".to_owned(),
        "signalled, after".to_owned(),
        format!(":{ticks}"),
        format!("group {group}"),
        session.to_owned(),
        "cgroup".to_owned(),
        "cookbook-warden".to_owned(),
    ] {
        // What a small screen has no room for is below.
        let mut pages = 0;
        while !terminal.text().contains(&wanted) {
            assert!(pages < 12, "no {wanted:?}\n{}", terminal.text());
            terminal.key("j");
            std::thread::sleep(std::time::Duration::from_millis(100));
            pages += 1;
        }
    }
    terminal.key("Escape");
    terminal.await_that("the panes", |text| !text.contains(&format!("Why: {pid}")));
    terminal.key("q");
    terminal.await_text("These sessions end");
    terminal.confirm("These sessions end");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn a_process_is_explained_at_140x40() {
    check(140, 40);
}

#[test]
fn a_process_is_explained_at_60x15() {
    check(60, 15);
}
