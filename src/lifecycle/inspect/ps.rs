//! The ps inspector: for systems without procfs (macOS, BSD), and on Linux as a second opinion.
//!
//! ps(1) is asked with fixed columns in the C locale and UTC; its `lstart` has a resolution of one
//! second, so a start counts as settled only two seconds later (`etime`).

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::facts::{Facts, Snapshot, Start, Unreadable};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::spawn::{Spec, run};

/// Runs ps(1).
#[derive(Debug)]
pub struct Ps;

const COLUMNS: &str = "pid=,ppid=,pgid=,sess=,state=,rss=,time=,etime=,lstart=,comm=";
const DEADLINE: Duration = Duration::from_secs(2);

impl Ps {
    #[expect(clippy::unused_self, reason = "the shape of an inspector")]
    pub(super) fn scan(&self) -> io::Result<Snapshot> {
        let text = ask(&["-A", "-ww", "-o", COLUMNS])?;
        let own = text.lines().filter_map(parse_row);
        Ok(Snapshot::new(own, Vec::new(), true))
    }

    #[expect(clippy::unused_self, reason = "the shape of an inspector")]
    pub(super) fn facts(&self, pid: Pid) -> Result<Option<Facts>, Unreadable> {
        let unreadable = |reason: String| Unreadable { pid, reason };
        let text = ask(&["-ww", "-o", COLUMNS, "-p", &pid.to_string()]).map_err(|e| unreadable(e.to_string()))?;
        match text.lines().find(|line| !line.trim().is_empty()) {
            None => Ok(None),
            Some(line) => parse_row(line).map(Some).ok_or_else(|| unreadable("the row of ps makes no sense".into())),
        }
    }

    /// Returns the words of the command line: ps does not tell where one argument ends.
    #[expect(clippy::unused_self, reason = "the shape of an inspector")]
    pub(super) fn argv(&self, pid: Pid) -> Vec<Vec<u8>> {
        let text = ask(&["-ww", "-o", "args=", "-p", &pid.to_string()]).unwrap_or_default();
        text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
    }
}

impl Ps {
    /// Returns the words of all command lines.
    #[expect(clippy::unused_self, reason = "the shape of an inspector")]
    pub(super) fn argv_of_all(&self) -> HashMap<Pid, Vec<Vec<u8>>> {
        let text = ask(&["-A", "-ww", "-o", "pid=,args="]).unwrap_or_default();
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let pid = Pid::new(words.next()?.parse().ok()?)?;
            Some((pid, words.map(|word| word.as_bytes().to_vec()).collect()))
        };
        text.lines().filter_map(row).collect()
    }
}

fn ask(arguments: &[&str]) -> io::Result<String> {
    let mut spec = Spec::new(std::iter::once("ps").chain(arguments.iter().copied()));
    spec.env = vec![("LC_ALL".into(), "C".into()), ("TZ".into(), "UTC".into())];
    let output = run(&spec, None, DEADLINE)?;
    // ps exits with 1 where no process matched; it says nothing then.
    if !output.status.success() && !output.stderr.is_empty() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses one row: eight columns, five words of `lstart`, and the name, which may hold spaces.
fn parse_row(line: &str) -> Option<Facts> {
    let mut words = line.split_whitespace();
    let process = Pid::new(words.next()?.parse().ok()?)?;
    let parent = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    // BSD prints the address of its session structure here, which is no session id.
    let sid = words.next()?.parse().unwrap_or(0);
    let state = words.next()?.chars().next()?;
    let rss_kib: u64 = words.next()?.parse().ok()?;
    let cpu_s = seconds(words.next()?)?;
    let age_s = seconds(words.next()?)?;
    let lstart = words.by_ref().take(5).collect::<Vec<_>>();
    let comm = words.collect::<Vec<_>>().join(" ").into_bytes();
    (lstart.len() == 5).then(|| Facts {
        pid: process,
        ppid: parent,
        pgid: group,
        sid,
        start: Start::Lstart(lstart.join(" ")),
        state,
        threads: 1,
        comm,
        cpu_ticks: Some(cpu_s * rustix::param::clock_ticks_per_second()),
        rss_bytes: Some(rss_kib * 1024),
        settled: age_s >= 2,
    })
}

/// Parses `[[dd-]hh:]mm:ss[.cc]`.
fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let clock = clock.split('.').next()?;
    let mut total = 0_u64;
    for part in clock.split(':') {
        total = total.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_parse() {
        let row = " 42  7  8  9 S  1024 00:00:03 02:01 Sun Nov 29 19:41:02 2026 my prog";
        let facts = parse_row(row).expect("parses");
        assert_eq!((facts.ppid, facts.pgid, facts.sid, facts.state), (7, 8, 9, 'S'));
        assert_eq!(facts.start, Start::Lstart("Sun Nov 29 19:41:02 2026".into()));
        assert_eq!((facts.comm.as_slice(), facts.rss_bytes, facts.settled), (&b"my prog"[..], Some(1 << 20), true));
        for bad in ["", "x", "0 1 1 1 S 1 0:00 0:01 Sun Nov 29 19:41:02 2026 a", "42 7 8 9 S 1 0:00 0:01 Sun Nov"] {
            assert_eq!(parse_row(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_parse() {
        for (text, expected) in [
            ("00:03", Some(3)),
            ("01:00:00", Some(3600)),
            ("2-00:00:01", Some(172_801)),
            ("0:00.53", Some(0)),
            ("x", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    fn the_real_ps_knows_us() {
        let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        let facts = Ps.facts(me).unwrap().unwrap();
        assert_eq!(facts.ppid, i32::try_from(std::os::unix::process::parent_id()).unwrap());
        assert!(Ps.scan().unwrap().of(me).is_some_and(|row| row.start == facts.start));
        assert_eq!(Ps.facts(Pid::new(i32::MAX).unwrap()), Ok(None));
    }
}
