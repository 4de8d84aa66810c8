//! A model server that somebody started by hand is shown, and left alone whatever is pressed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use super::Terminal;

struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

const SERVER: &str = "#!/usr/bin/env python3
import http.server, sys
http.server.HTTPServer(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1])), http.server.SimpleHTTPRequestHandler).serve_forever()
";

#[test]
fn a_server_that_is_not_ours_is_shown_and_left_alone() {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    let program = terminal.folder.path().join("llama-server");
    fs::write(&program, SERVER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut command = Command::new(&program);
    command.args(["--port", &port.to_string(), "--api-key", "canary-of-a-secret"]);
    let mut stranger = Stranger(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let (pid, port_shown) = (stranger.0.id().to_string(), format!(":{port}"));
    // It comes while the screen is idle, once it listens.
    let row = |text: &str| text.lines().any(|line| line.contains("llama-server") && line.contains(&port_shown));
    terminal.await_that("the group", |text| text.contains("Not ours") && row(text));
    terminal.key("j");
    let met = |text: &str| text.lines().any(|line| line.contains("pid") && line.contains(&pid));
    for _ in 0..8 {
        // Other servers of this computer may be there, too.
        std::thread::sleep(std::time::Duration::from_millis(300));
        if met(&terminal.text()) {
            break;
        }
        terminal.key("j");
    }
    terminal.await_that("what is known of it", |text| {
        met(text) && text.contains("never typed into or") && !text.contains("canary")
    });
    for key in ["x", "X", "r", "S", "Enter", "Space"] {
        terminal.key("w");
        terminal.await_text("Not ours: llama-server");
        terminal.key("Escape");
        terminal.await_that("the panes", |text| !text.contains("Not ours: llama-server"));
        terminal.key(key);
        terminal.await_text(&format!("llama-server {pid} is not ours"));
    }
    assert!(stranger.0.try_wait().unwrap().is_none() && TcpStream::connect(("127.0.0.1", port)).is_ok(), "it lives");
    drop(stranger);
    terminal.await_that("its end", |text| !text.contains(&port_shown));
    terminal.key("q");
    terminal.await_text("prompt>");
}
