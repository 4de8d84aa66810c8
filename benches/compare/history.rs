//! What the history of a session takes.

use crate::figures::Amount;
use crate::frames::{open, quit, start_session};
use crate::place::Place;
use crate::report::{Report, figure};
use crate::rest::{MIB, manager, private};

/// Wide enough for lines of 200 columns beside the list.
const WIDE: (u16, u16) = (60, 260);
const LINES: usize = 10_000;

pub(crate) fn history(report: &mut Report) {
    let sessions = report.rounds(4, 1);
    let place = Place::new();
    let script = format!(
        "awk 'BEGIN {{ for (i = 0; i < {LINES}; i++) printf \"%0200d\\n\", i }}'; printf 'it is %s now\\n' over; exec sleep 600\n"
    );
    let line = format!("sh {}", place.write("fill", &script));
    let cockpit = open(&place, WIDE);
    start_session(&cockpit, "exec sleep 600");
    cockpit.wait("the dialog's end", |screen| !screen.contents().contains("Start"));
    cockpit.settle(std::time::Duration::from_millis(300));
    let before = private(manager(&cockpit));
    for _ in 0..sessions {
        start_session(&cockpit, &line);
        cockpit.wait("the dialog's end", |screen| !screen.contents().contains("Start"));
        cockpit.wait_for("it is over now");
        cockpit.settle(std::time::Duration::from_millis(300));
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of sessions")]
    let each = (private(manager(&cockpit)) - before) / sessions as f64;
    let what = format!("{LINES} lines x 200 columns of history, private memory of the manager for each");
    report.put(figure(&what, Amount::Bytes(each)).at_most(Amount::Bytes(12.0 * MIB)).told());
    quit(cockpit);
}
