//! Numbers events and hands them to whoever subscribed. A slow subscriber loses events and is told how
//! many; it never delays anybody.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::app::event::Event;

/// An event with its number and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    /// Counts from 1 in this run.
    pub seq: u64,
    /// Milliseconds since the start of this run.
    pub t_ms: u64,
    /// What happened.
    pub event: Event,
}

impl Numbered {
    /// Returns the event line of the batch.
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(&self.event).unwrap_or_default();
        value["seq"] = self.seq.into();
        value["t_ms"] = self.t_ms.into();
        value
    }
}

struct Subscriber {
    sender: SyncSender<Numbered>,
    missed: u64,
}

/// The distributor.
pub struct Hub {
    start: Instant,
    inner: Mutex<(u64, Vec<Subscriber>)>,
}

/// Events that may wait for one subscriber.
const BACKLOG: usize = 4096;

impl Default for Hub {
    fn default() -> Self {
        Self { start: Instant::now(), inner: Mutex::default() }
    }
}

impl Hub {
    /// Returns a receiver of all events from now on.
    pub fn subscribe(&self) -> Receiver<Numbered> {
        let (sender, receiver) = sync_channel(BACKLOG);
        self.lock().1.push(Subscriber { sender, missed: 0 });
        receiver
    }

    /// Hands an event to all subscribers.
    pub fn publish(&self, event: &Event) {
        let mut inner = self.lock();
        let t_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        inner.0 += 1;
        let seq = inner.0;
        inner.1.retain_mut(|subscriber| {
            if subscriber.missed > 0 {
                let lagged = Numbered { seq, t_ms, event: Event::Lagged { missed: subscriber.missed } };
                match subscriber.sender.try_send(lagged) {
                    Ok(()) => subscriber.missed = 0,
                    Err(TrySendError::Full(_)) => {}
                    Err(TrySendError::Disconnected(_)) => return false,
                }
            }
            match subscriber.sender.try_send(Numbered { seq, t_ms, event: event.clone() }) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    subscriber.missed += 1;
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
    }

    /// Ends all subscriptions; what was published before still arrives.
    pub fn close(&self) {
        self.lock().1.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Vec<Subscriber>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn event() -> Event {
        Event::Attention { session: "serve-00000000".into(), reason: "x".into(), state: None }
    }

    #[test]
    fn a_slow_subscriber_is_told_what_it_missed() {
        let hub = Hub::default();
        let slow = hub.subscribe();
        for _ in 0..BACKLOG + 3 {
            hub.publish(&event());
        }
        assert_eq!(slow.try_iter().count(), BACKLOG);
        hub.publish(&event());
        let next: Vec<_> = slow.try_iter().collect();
        assert_eq!(next[0].event, Event::Lagged { missed: 3 });
        assert_eq!(next[1].event, event());
    }

    #[test]
    fn lines_carry_number_time_and_session() {
        let hub = Hub::default();
        let all = hub.subscribe();
        hub.publish(&event());
        let value = all.recv().unwrap().to_value();
        assert_eq!((value["event"].as_str(), value["seq"].as_u64()), (Some("attention"), Some(1)));
        assert_eq!(value["session"], "serve-00000000");
        assert!(value["t_ms"].is_u64());
    }
}
