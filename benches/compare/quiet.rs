//! As many quiet programs in what others use, each held by one terminal that shows it.

use serde_json::json;

use crate::frames::leave_mprocs;
use crate::peers::Peers;
use crate::place::Place;
use crate::terminal::{Size, Terminal};

/// What runs beside the cockpit, and rests as it does.
#[derive(Default)]
pub(crate) struct Quiet {
    tmux: Option<(Place, Terminal)>,
    mprocs: Option<(Place, Terminal)>,
    count: usize,
}

impl Quiet {
    /// Starts `count` quiet programs in each that is there.
    pub(crate) fn start(peers: &Peers, size: Size, count: usize) -> Self {
        let tmux = peers.has("tmux").then(|| {
            let place = Place::new();
            place.ask_tmux(&["new-session", "-d", "-s", "full", "sleep 600"]);
            for _ in 1..count {
                place.ask_tmux(&["new-window", "-d", "sleep 600"]);
            }
            let terminal = place.tmux(size, &["attach", "-t", "full"]);
            terminal.wait_for("[full]");
            (place, terminal)
        });
        let mprocs = peers.program("mprocs").map(|program| {
            let place = Place::new();
            let procs: serde_json::Map<String, serde_json::Value> =
                (0..count).map(|number| (format!("p{number}"), json!({ "cmd": ["sleep", "600"] }))).collect();
            let config = place.write("mprocs.json", &json!({ "procs": procs }).to_string());
            let mut command = Terminal::command(program.to_str().unwrap());
            command.args(["--config", &config]);
            place.settle(&mut command);
            let terminal = Terminal::start(command, size);
            terminal.wait_for("UP");
            (place, terminal)
        });
        Self { tmux, mprocs, count }
    }

    /// Returns whose processor and memory is looked at: the manager, and what shows it.
    pub(crate) fn pids(&self) -> Vec<(&'static str, Vec<u32>)> {
        let tmux = self.tmux.as_ref();
        let tmux = tmux.map(|(place, client)| ("attached tmux", vec![place.tmux_server(), client.pid()]));
        let mprocs = self.mprocs.as_ref().map(|(_, terminal)| ("mprocs", vec![terminal.pid()]));
        tmux.into_iter().chain(mprocs).collect()
    }

    /// Ends all of it.
    pub(crate) fn end(self) {
        if let Some((place, terminal)) = self.tmux {
            place.ask_tmux(&["kill-server"]);
            drop(terminal);
        }
        if let Some((_place, terminal)) = self.mprocs {
            leave_mprocs(terminal, self.count);
        }
    }
}
