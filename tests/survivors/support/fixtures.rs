//! The words that fixtures are written in.

/// For sh and bash: `log ROLE` writes the line of the shell that runs it, without a fork; `leaf ROLE` also
/// becomes a sleep; `marked FILE` writes down every signal that the shell gets from then on.
pub(super) const SHELL: &str = r#"
log() {
  role=$1
  read -r s < /proc/self/stat
  pid=${s%% *}
  s=${s##*) }
  set -- $s
  echo "$pid ${20} $role" >> "$LEDGER"
}
leaf() { log "$1"; exec sleep "$NAP"; }
marked() { for sig in HUP INT QUIT TERM USR1 USR2 CONT; do trap "echo $sig >> $1" $sig; done; }
"#;

/// The same for Python.
pub(super) const PYTHON: &str = r"
import ctypes, mmap, os, signal, socket, sys, threading, time

def log(role):
    stat = open('/proc/self/stat').read()
    ticks = stat.rpartition(')')[2].split()[19]
    with open(LEDGER, 'ab', 0) as ledger:
        ledger.write(f'{stat.split()[0]} {ticks} {role}\n'.encode())

def leaf(role):
    log(role)
    os.execvp('sleep', ['sleep', NAP])

def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

def forked(run, *arguments):
    if os.fork() == 0:
        run(*arguments)
        os._exit(0)
";
