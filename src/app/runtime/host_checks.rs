//! The lines of `doctor` about the host: login sessions, cgroups, clocks, namespaces, space.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::doctor::{fail, ok, warn};
use crate::app::command::Check;
use crate::lifecycle::clock::boottime;
use crate::lifecycle::door::{self, Door};
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::spawn::{Spec, run};
use crate::lifecycle::store::{own_dir, try_write};

/// Less room than this is too little to write a record.
const SPACE_LEAST: u64 = 1 << 20;
/// Less room than this is soon too little.
const SPACE_LOW: u64 = 64 << 20;
/// Less inodes than this are soon too few.
const INODES_LOW: u64 = 1000;

/// What logind does when a person logs out; `None` where nobody can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Logind {
    kills: Option<bool>,
    lingers: Option<bool>,
    /// We are below the user manager and not in a login session.
    in_user_manager: bool,
}

/// Looks whether sessions in tmux outlive a logout (logind.conf(5)).
pub(super) fn logind(inspector: &Inspector) -> Check {
    if !Path::new("/run/systemd/system").is_dir() {
        return ok("logout", "no systemd: nothing ends sessions in tmux at a logout");
    }
    let uid = rustix::process::getuid().as_raw();
    let asked = |arguments: &[&str]| ask(arguments).and_then(|text| yes_or_no(&text));
    let user = std::env::var("USER").unwrap_or_default();
    let configured = configured_kill(&configuration(), &user);
    let facts = Logind {
        kills: configured.or_else(|| asked(&["show-user", "--property=KillUserProcesses", "--value"])),
        lingers: asked(&["show-user", &uid.to_string(), "--property=Linger", "--value"])
            .or_else(|| Path::new("/var/lib/systemd/linger").join(&user).exists().then_some(true)),
        in_user_manager: inspector.cgroup2().is_some_and(|path| path.to_string_lossy().contains("/user@")),
    };
    judge_logind(facts)
}

fn judge_logind(facts: Logind) -> Check {
    let linger = match facts.lingers {
        Some(true) => "lingering",
        Some(false) => "no lingering",
        None => "lingering unknown",
    };
    match (facts.kills, facts.lingers) {
        (Some(true), _) if !facts.in_user_manager => warn(
            "logout",
            format!("KillUserProcesses=yes, {linger}: a logout ends sessions in tmux"),
            "KillUserProcesses=no in /etc/systemd/logind.conf, or start tmux by `systemd-run --user --scope` after `loginctl enable-linger`",
        ),
        (_, Some(false)) if facts.in_user_manager => warn(
            "logout",
            "no lingering: the user manager, and sessions in tmux with it, end with the last logout",
            "loginctl enable-linger",
        ),
        (None, _) => warn(
            "logout",
            format!("nobody says whether KillUserProcesses is set, {linger}"),
            "look at `loginctl show-user` and logind.conf(5)",
        ),
        (Some(kills), _) => ok("logout", format!("KillUserProcesses={}, {linger}", if kills { "yes" } else { "no" })),
    }
}

/// Reads the settings in the order of logind.conf(5): the main file, then the drop-ins by name.
fn configuration() -> String {
    let mut drop_ins: Vec<_> =
        ["/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"]
            .into_iter()
            .filter_map(|dir| std::fs::read_dir(dir).ok())
            .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
            .collect();
    drop_ins.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    let files = std::iter::once("/etc/systemd/logind.conf".into()).chain(drop_ins);
    files.filter_map(|path| std::fs::read_to_string(path).ok()).collect::<Vec<_>>().join("\n")
}

/// Returns whether a configuration has the processes of a user killed; `None` where it does not say, because the
/// default was chosen when logind was built.
fn configured_kill(configuration: &str, user: &str) -> Option<bool> {
    let mut kill = None;
    let (mut only, mut excluded) = (Vec::new(), vec!["root"]);
    for line in configuration.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        match key.trim() {
            "KillUserProcesses" => kill = yes_or_no(value),
            "KillOnlyUsers" => only = value.split_whitespace().collect(),
            "KillExcludeUsers" => excluded = value.split_whitespace().collect(),
            _ => {}
        }
    }
    kill.map(|kill| kill && !excluded.contains(&user) && (only.is_empty() || only.contains(&user)))
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" | "y" | "t" => Some(true),
        "no" | "false" | "off" | "0" | "n" | "f" => Some(false),
        _ => None,
    }
}

fn ask(arguments: &[&str]) -> Option<String> {
    let spec = Spec::new(std::iter::once("loginctl").chain(arguments.iter().copied()));
    let output = run(&spec, None, Duration::from_secs(2)).ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// Looks whether leaves of our own could be made in the cgroup that we are in (cgroups(7), "delegation").
pub(super) fn cgroup(inspector: &Inspector) -> Check {
    const WAY_OUT: &str = "start it by `systemd-run --user --scope -p Delegate=yes`";
    let Some(path) = inspector.cgroup2() else {
        return warn(
            "cgroup",
            "no cgroup v2 is mounted: containment rests on trees and wardens",
            "mount the v2 hierarchy",
        );
    };
    let shown = path.display();
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    if !path.is_dir() {
        return warn("cgroup", format!("our cgroup {shown} cannot be seen from here"), WAY_OUT);
    }
    if !writable(&path) || !writable(&path.join("cgroup.procs")) {
        return warn(
            "cgroup",
            format!("{shown} is not delegated to us: containment rests on trees and wardens"),
            WAY_OUT,
        );
    }
    // The root of the hierarchy has neither file (cgroups(7)); what is below it tells.
    let below = std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = below.filter(|path| path.is_dir()).find(|path| path.join("cgroup.procs").exists());
    let has = |name: &str| {
        let is_there = |path: &Path| path.join(name).exists();
        match below.as_deref().map(is_there) {
            _ if is_there(&path) => format!("with {name}"),
            Some(true) => format!("with {name}"),
            Some(false) => format!("without {name}"),
            None => format!("nobody can tell whether with {name}"),
        }
    };
    ok("cgroup", format!("{shown} is delegated to us, {}, {}", has("cgroup.kill"), has("cgroup.freeze")))
}

/// Says on which clock and in which namespaces identities and ceilings are read.
pub(super) fn clock(inspector: &Inspector) -> Check {
    const NAME: &str = "clock and namespace";
    let inode = |name: &str| inspector.namespace(name).map_or_else(|| "unknown".into(), |inode| inode.to_string());
    let boot = inspector.boot_id().unwrap_or("unknown");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    #[expect(clippy::cast_precision_loss, reason = "an uptime in seconds")]
    let asleep = (boottime() - now.tv_sec as f64).max(0.0);
    let facts = format!(
        "boot {boot}, {:.0} s since then, {asleep:.0} s of them asleep; pid namespace {}, time namespace {}",
        boottime(),
        inode("pid"),
        inode("time")
    );
    if inspector.shows_our_pids() == Some(false) {
        return fail(
            NAME,
            format!("procfs shows another pid namespace than ours; {facts}"),
            "mount procfs in this namespace",
        );
    }
    match inspector.boottime_offset_s() {
        Some(0) | None => ok(NAME, facts),
        Some(offset) => warn(
            NAME,
            format!("the clock of this time namespace is {offset} s off the host's; {facts}"),
            "records of another time namespace are shown and left alone: use one state directory for each",
        ),
    }
}

/// One of the two directories that we write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Records and logs: files.
    State,
    /// Gates and doors: sockets.
    Runtime,
}

impl Place {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::State => "state directory",
            Self::Runtime => "runtime directory",
        }
    }

    /// Returns the line of a directory that cannot be used, for this reason.
    pub(crate) fn unusable(self, error: &io::Error) -> Check {
        let other = match self {
            Self::State => "choose another with --state-dir",
            Self::Runtime => "set XDG_RUNTIME_DIR to a directory of your own",
        };
        let kind = error.kind();
        let way_out = if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            format!("make room, or {other}")
        } else if kind == io::ErrorKind::ReadOnlyFilesystem {
            format!("have it mounted for writing, or {other}")
        } else {
            other.into()
        };
        fail(self.name(), error.to_string(), way_out)
    }

    const fn kept(self) -> &'static str {
        match self {
            Self::State => "files",
            Self::Runtime => "sockets",
        }
    }

    /// Makes one of what we keep there, and removes it.
    fn try_out(self, path: &Path) -> io::Result<()> {
        match self {
            Self::State => try_write(path),
            Self::Runtime => Door::open(door::place(path, 'g')).map(drop),
        }
    }
}

/// Looks at owner, mode and room of a directory that we write to, and whether it takes what we keep there.
pub(crate) fn directory(place: Place, path: &Path) -> Check {
    use std::os::unix::fs::MetadataExt;
    let (name, shown) = (place.name(), path.display());
    let metadata = match own_dir(path) {
        Ok(metadata) => metadata,
        Err(error) => return place.unusable(&error),
    };
    let mode = metadata.mode() & 0o777;
    if mode != 0o700 {
        return fail(name, format!("{shown} has mode {mode:o}"), format!("chmod 700 {shown}"));
    }
    if let Err(error) = place.try_out(path) {
        let named = io::Error::new(error.kind(), format!("{shown} takes no {}: {error}", place.kept()));
        return place.unusable(&named);
    }
    match rustix::fs::statvfs(path) {
        Ok(fs) => {
            let bytes = fs.f_bavail.saturating_mul(fs.f_frsize);
            // Some filesystems count no inodes.
            let inodes = (fs.f_files > 0).then_some(fs.f_favail);
            judge_room(name, &shown.to_string(), bytes, inodes)
        }
        Err(error) => warn(name, format!("{shown}: its room cannot be read: {error}"), "look at df(1)"),
    }
}

fn judge_room(name: &str, shown: &str, bytes: u64, inodes: Option<u64>) -> Check {
    let mib = bytes >> 20;
    if bytes < SPACE_LEAST || inodes == Some(0) {
        let left = inodes.map(|inodes| format!(" and {inodes} inodes")).unwrap_or_default();
        return fail(name, format!("{shown} has {bytes} bytes{left} left"), "make room: records could not be written");
    }
    if bytes < SPACE_LOW || inodes.is_some_and(|inodes| inodes < INODES_LOW) {
        let left = inodes.map(|inodes| format!(" and {inodes} inodes")).unwrap_or_default();
        return warn(name, format!("{shown} has {mib} MiB{left} left"), "make room before records cannot be written");
    }
    ok(name, format!("{shown}, {mib} MiB free"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::command::CheckState::{self, Fail, Ok as Fine, Warn};

    #[test]
    fn a_logout_is_judged_by_what_is_known() {
        let check = |kills, lingers, in_user_manager, expected: CheckState| {
            let check = judge_logind(Logind { kills, lingers, in_user_manager });
            assert_eq!(check.state, expected, "{check:?}");
            assert_eq!(check.way_out.is_none(), expected == Fine, "{check:?}");
        };
        check(Some(false), Some(false), false, Fine);
        check(Some(false), None, false, Fine);
        check(Some(true), Some(true), false, Warn);
        check(Some(true), Some(false), false, Warn);
        check(Some(true), Some(true), true, Fine);
        check(Some(true), Some(false), true, Warn);
        check(Some(false), Some(false), true, Warn);
        check(None, None, false, Warn);
    }

    #[test]
    fn the_last_setting_counts_and_some_users_are_spared() {
        let check = |text, user, expected| assert_eq!(configured_kill(text, user), expected, "{text:?}");
        check("", "me", None);
        check("#KillUserProcesses=yes\n", "me", None);
        check("[Login]\nKillUserProcesses = yes\n", "me", Some(true));
        check("KillUserProcesses=yes\nKillUserProcesses=no\n", "me", Some(false));
        check("KillUserProcesses=yes\n", "root", Some(false));
        check("KillUserProcesses=yes\nKillExcludeUsers=root me\n", "me", Some(false));
        check("KillUserProcesses=yes\nKillOnlyUsers=you\n", "me", Some(false));
        check("KillUserProcesses=maybe\n", "me", None);
    }

    #[test]
    fn room_runs_out_by_bytes_and_by_inodes() {
        let check = |bytes, inodes, expected| assert_eq!(judge_room("x", "/x", bytes, inodes).state, expected);
        check(1 << 30, Some(1 << 20), Fine);
        check(1 << 30, None, Fine);
        check(1 << 30, Some(0), Fail);
        check(1 << 30, Some(9), Warn);
        check(8 << 20, None, Warn);
        check(4096, None, Fail);
        check(0, Some(1 << 20), Fail);
    }
}
