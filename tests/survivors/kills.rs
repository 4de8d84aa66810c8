//! The manager is killed at random moments of launches, stops and sweeps, again and again.
//!
//! `STORM_ROUNDS` says how often; a person runs a thousand.

use std::time::Duration;

use serde_json::json;

use crate::support::{Batch, World, settle};

const ROUNDS: u32 = 50;

/// A xorshift: the same moments in every run.
struct Moments(u64);

impl Moments {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn killed_at_any_moment_everybody_is_accounted_for() {
    let rounds = std::env::var("STORM_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut moments = Moments(0x9e37_79b9_7f4a_7c15);
    let mut left = rounds;
    while left > 0 {
        // The ledger holds a descriptor for everybody who ever lived.
        let now = left.min(ROUNDS);
        storm(rounds - left, now, &mut moments);
        left -= now;
    }
}

fn storm(first: u32, rounds: u32, moments: &mut Moments) {
    let world = World::new();
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let plain = world.shell("log root; (leaf child) & wait");
    let deaf = world.shell("trap '' TERM HUP; log deaf; (trap - TERM HUP; leaf child) & wait; wait");
    for round in first..first + rounds {
        let mut batch: Batch = world.batch();
        for (host, script) in [("pty", &plain), ("tmux", &deaf)] {
            let command = json!(["bash", script]);
            batch.send(json!({ "cmd": "launch", "command": command, "kind": "serve", "host": host, "grace_s": 0.1 }));
            if moments.below(2) == 0 {
                batch.send(json!({ "cmd": "stop", "session": "$last" }));
            }
        }
        batch.send(json!({ "cmd": "sweep" }));
        std::thread::sleep(Duration::from_micros(moments.below(450_000)));
        batch.kill();
        world.end_server_later();
        settle(&world, &mut bystanders, &format!("round {round}"));
    }
    let ran = world.ledger.entries().len();
    assert!(ran > rounds as usize, "hardly anything ran in {rounds} rounds: {ran} processes");
}
