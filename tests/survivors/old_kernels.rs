//! Kernels without pidfds, and hosts with a filter on them: seccomp(2) answers `ENOSYS` or `EPERM`. Nobody survives
//! there either and no bystander is touched; the receipt and `doctor` name the fallback.
//!
//! The filter holds for the manager and for everything that comes of it. The tests stand outside, and hold pidfds.

use crate::matrix::{
    Case, background_child, birth_on_term, daemon, deaf_parent_and_child, own_session, plain_child, stopped_child,
};
use crate::support::{Filter, Host, World, rows};

/// Linux before 5.1 has none of these, and before 5.3 no `pidfd_open`.
const NOT_THERE: Filter = Filter { errno: 38, calls: "pidfd_open,pidfd_send_signal,clone3" };
/// A container runtime that does not know them.
const FORBIDDEN: Filter = Filter { errno: 1, calls: "pidfd_open,pidfd_send_signal" };
/// Processes can be held, and not signalled.
const NO_SIGNALS: Filter = Filter { errno: 38, calls: "pidfd_send_signal" };
/// The answer looks as if each of them was another user's.
const FORBIDDEN_SIGNALS: Filter = Filter { errno: 1, calls: "pidfd_send_signal" };

/// Runs shapes of the matrix behind a filter, in a PTY and in tmux.
macro_rules! behind {
    ($($name:ident: $filter:ident, $($shape:ident)*;)*) => {
        $(mod $name {
            $(mod $shape {
                use crate::matrix::Case;
                use crate::support::Host;

                #[test]
                fn in_a_pty() {
                    super::super::$shape(Case { host: Host::Pty, manager_dies: false, filter: Some(super::super::$filter) });
                }

                #[test]
                fn in_tmux() {
                    super::super::$shape(Case { host: Host::Tmux, manager_dies: false, filter: Some(super::super::$filter) });
                }
            })*
        })*
    };
}

behind! {
    not_there: NOT_THERE,
        plain_child background_child deaf_parent_and_child own_session daemon stopped_child birth_on_term;
    forbidden: FORBIDDEN,
        plain_child background_child deaf_parent_and_child own_session daemon stopped_child birth_on_term;
    no_signals: NO_SIGNALS, deaf_parent_and_child stopped_child;
    forbidden_signals: FORBIDDEN_SIGNALS, deaf_parent_and_child stopped_child;
}

/// The warden finishes what a manager began that died over it.
#[test]
fn a_manager_that_dies() {
    for host in [Host::Pty, Host::Tmux] {
        deaf_parent_and_child(Case { host, manager_dies: true, filter: Some(NOT_THERE) });
    }
}

#[test]
fn doctor_names_the_fallback() {
    for filter in [None, Some(NOT_THERE), Some(FORBIDDEN), Some(NO_SIGNALS), Some(FORBIDDEN_SIGNALS)] {
        let (_, answer) = World::behind(filter).run(&["doctor"]);
        let check = rows(&answer, "checks").find(|check| check["name"] == "pidfd").unwrap();
        let told = check["detail"].as_str().unwrap().contains("immediately before kill(2)");
        assert_eq!(told, filter.is_some(), "{filter:?}: {check}");
        assert_eq!(
            check["state"] == "warn",
            filter.is_some() || !check["detail"].as_str().unwrap().contains("with pidfs")
        );
    }
}
