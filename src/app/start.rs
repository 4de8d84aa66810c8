//! From arguments to a running face: directories, configuration, inspector, tmux server, runtime.

mod doctor;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use clap::CommandFactory;
use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::args::{Action, Args, Trust};
use super::cockpit::Bridge;
use super::config::{self, Config, Inputs};
use super::configure::configure;
use super::error::{AppError, ErrorKind, Exit};
use super::paths::Paths;
use super::runtime::{Runtime, Setup};
use super::tui::job::{self, Link};
use super::tui::keymap;
use super::tui::{self, Cockpit, Memory, Notifier, OnStuck, Options, Outcome, Theme, UiEvent, Wishes};
use super::{COCKPIT, LOG_WRITER, NVML, batch, cli, plain, schema};
use crate::lifecycle::inspect::{Inspector, own_program};
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::regular;
use crate::lifecycle::store::{private_dir, replace};
use crate::lifecycle::warden;
use crate::text;
use crate::tmux::{Server, SocketRef};

/// Runs the program with these arguments (the first is its name) and returns its exit status.
pub fn run(mut arguments: Vec<OsString>) -> u8 {
    survive_limits();
    // The stages of a launch come before anything else is set up: they are small and must not fail.
    if let Some(status) = warden::dispatch(arguments.get(1..).unwrap_or_default()) {
        return status;
    }
    if arguments.get(1).is_some_and(|first| first == LOG_WRITER) {
        return write_log(arguments.get(2));
    }
    if arguments.get(1).is_some_and(|first| first == warden::NOTICE) {
        return super::notice::run(&arguments[2..]);
    }
    if arguments.get(1).is_some_and(|first| first == NVML) {
        return super::nvml::run();
    }
    hear_signals();
    keep_children();
    let Ok(link) = take_link(&mut arguments) else { return Exit::Usage.code() };
    // Without a word there is nothing to read: the screen is started at once.
    if arguments.len() <= 1 && link.is_none() {
        return screen_parent(arguments);
    }
    let for_screen = arguments.clone();
    let args = match Args::read(arguments) {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            // It repeats what was typed, which need not be fit for a terminal.
            let text: Vec<_> = error.to_string().lines().map(|line| text::escape(line).into_owned()).collect();
            writeln!(std::io::stderr(), "{}", text.join("\n")).ok();
            return Exit::Usage.code();
        }
        Err(error) => {
            error.print().ok();
            return Exit::Ok.code();
        }
    };
    let shows = args.action.is_none() && args.batch.is_none() && !args.plain;
    if shows && link.is_none() {
        return screen_parent(for_screen);
    }
    match face(&args, link) {
        Ok(exit) => exit.code(),
        Err(error) => {
            cli::complain(&error, args.action.as_ref().is_some_and(Action::wants_json));
            error.exit().code()
        }
    }
}

/// Takes the link to the parent from standard input where we are the screen itself.
fn take_link(arguments: &mut Vec<OsString>) -> std::io::Result<Option<Link>> {
    if arguments.get(1).is_none_or(|first| first != COCKPIT) {
        return Ok(None);
    }
    arguments.remove(1);
    Link::from_stdin().map(Some)
}

/// Starts the screen as a child, so that it can be suspended while its sessions run on.
fn screen_parent(arguments: Vec<OsString>) -> u8 {
    let term = std::env::var("TERM").unwrap_or_default();
    if tui::is_dumb(&term) {
        let message = format!("the terminal (TERM={term}) can only print lines: take `cookbook-tui --plain`");
        cli::complain(&AppError::new(ErrorKind::Usage, message), false);
        return Exit::Usage.code();
    }
    let started = own_program().and_then(|program| {
        let rest = arguments.into_iter().skip(1);
        job::parent([program.into_os_string(), COCKPIT.into()].into_iter().chain(rest))
    });
    match started {
        Ok(status) => status,
        Err(error) => {
            cli::complain(&AppError::new(ErrorKind::Usage, error.to_string()), false);
            Exit::Usage.code()
        }
    }
}

fn face(args: &Args, link: Option<Link>) -> Result<Exit, AppError> {
    match &args.action {
        // The schema is JSON either way.
        Some(Action::Schema(_)) => {
            cli::say(&format!("{:#}\n", schema::schema()));
            return Ok(Exit::Ok);
        }
        Some(Action::Completions(of)) => {
            let mut script = Vec::new();
            clap_complete::generate(of.shell, &mut Args::command(), "cookbook-tui", &mut script);
            return Ok(page(&script, of.output.json));
        }
        Some(Action::Man(output)) => {
            let mut manual = Vec::new();
            let rendered = clap_mangen::Man::new(Args::command()).render(&mut manual);
            rendered.map_err(|error| AppError::new(ErrorKind::Io, error.to_string()))?;
            return Ok(page(&manual, output.json));
        }
        Some(Action::Doctor(output)) => return Ok(doctor::run(args, output.json)),
        Some(_) | None => {}
    }
    let no_place = |error| AppError::new(ErrorKind::State, format!("failed to find the directories: {error}"));
    let paths = Paths::find(args.state_dir.as_deref()).map_err(no_place)?;
    private_dir(&paths.runtime_dir).map_err(|error| {
        let message =
            format!("failed to find the directories: {error}; set XDG_RUNTIME_DIR to a directory of your own");
        AppError::new(ErrorKind::State, message)
    })?;
    private_dir(&paths.state_dir).map_err(|error| {
        AppError::new(
            ErrorKind::State,
            format!("failed to use the state directory: {error}; choose another with --state-dir"),
        )
    })?;
    log_to(&paths.state_dir, args.log_level);
    if let Some(Action::Trust(trust)) = &args.action {
        return self::trust(&paths, &inputs(args, &paths), trust);
    }
    if let Some(Action::Notify(notify)) = &args.action {
        // Before any configuration is read: a fault in there is none of an agent's hooks.
        return super::notify::run(&paths.state_dir, notify, args.inspector);
    }
    let input = match &args.batch {
        Some(path) => Some(open_batch(path)?),
        None => None,
    };
    let inputs = inputs(args, &paths);
    let config = configure(&inputs, None).map_err(|error| AppError::new(ErrorKind::Config, error.to_string()))?;
    if let Some(Action::Keys(output)) = &args.action {
        let (keys, escape) = (&config.ui.keys, config.ui.escape);
        if output.json {
            cli::say_json(&keymap::table_value(keys, escape));
        } else {
            cli::say(&keymap::table_text(keys, escape));
        }
        return Ok(Exit::Ok);
    }
    let inspector = Inspector::open(args.inspector).map_err(|error| {
        AppError::new(
            ErrorKind::Usage,
            format!("the inspector does not work on this host: {error}; choose another with --inspector"),
        )
    })?;
    let (server, tmux_config) = server(args, &paths, &config)?;
    tmux_config.as_deref().map_or(Ok(()), write_tmux_config)?;
    let state_dir = paths.state_dir.clone();
    let runtime = Runtime::new(Setup { paths, config, inputs, inspector, server, attended: args.batch.is_none() })?;
    let launches = match &args.action {
        Some(Action::Restart(restart)) => !restart.dry_run,
        action => matches!(action, None | Some(Action::Launch(_))),
    };
    // Before anything of this run exists: what earlier runs left is settled, and said.
    let ended = if launches { runtime.settle_earlier() } else { Vec::new() };
    let exit = match (&args.action, input) {
        (Some(action), _) => {
            for line in &ended {
                cli::note(line);
            }
            if matches!(action, Action::Launch(_)) {
                runtime.watch();
            }
            Ok(cli::run(&runtime, action, &signals(&runtime)))
        }
        (None, Some(input)) => {
            runtime.watch();
            Ok(batch::run(&runtime, input, args.fail_fast, &signals(&runtime)))
        }
        (None, None) if args.plain => Ok(speak(&runtime, ended)),
        (None, None) => show(&runtime, args, &state_dir, link, ended),
    };
    runtime.leave();
    exit
}

/// Prints a text that needs nothing of this host.
fn page(text: &[u8], as_json: bool) -> Exit {
    let text = String::from_utf8_lossy(text);
    if as_json {
        cli::say_json(&serde_json::json!({ "text": text }));
    } else {
        cli::say(&text);
    }
    Exit::Ok
}

/// Opens the plain mode.
fn speak(runtime: &Runtime, ended: Vec<String>) -> Exit {
    runtime.watch();
    let interrupted = signals(runtime);
    let mut notes: Vec<String> = runtime.notes().into_iter().chain(ended).collect();
    notes.extend(runtime.tmux_note());
    plain::run(runtime, std::io::stdin(), &notes, interrupted)
}

/// What the screen remembers, in the state directory.
const REMEMBERED: &str = "screen.json";
/// Longer than any that we write.
const REMEMBERED_MAX: u64 = 64 << 10;

/// Reads what the screen remembers; nothing where there is none.
fn recall(path: &Path) -> Result<Memory, String> {
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Memory::default()),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(REMEMBERED_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Memory::read(&bytes)
}

/// Opens the screen. What its end leaves behind is said once the terminal is a person's again.
fn show(
    runtime: &Runtime,
    args: &Args,
    state_dir: &Path,
    link: Option<Link>,
    ended: Vec<String>,
) -> Result<Exit, AppError> {
    let ui = runtime.ui();
    let wishes = Wishes { theme: ui.theme, colours: ui.colours, glyphs: ui.glyphs, no_color: args.no_color };
    let variable = |name: &str| std::env::var(name).ok();
    let has_notify_send = config::find_program("notify-send", std::env::var_os("PATH").as_deref()).is_some();
    let theme = Theme::resolve(&wishes, variable);
    let notifier = Notifier::resolve(ui.notify, variable, has_notify_send);
    // The console of Linux knows no titles, and prints what it does not know.
    let title = ui.title && !matches!(variable("TERM").as_deref(), None | Some("" | "dumb" | "linux"));
    let (sender, events) = channel();
    let bridge_notes = sender.clone();
    let bridge = Bridge::new(runtime.clone(), sender.clone());
    for note in runtime.notes().into_iter().chain(ended) {
        sender.send(UiEvent::Note(note)).ok();
    }
    let stuck = runtime.clone();
    let on_stuck: OnStuck = Arc::new(move |outcome| {
        unseen(&stuck, outcome);
        let clean = stuck.close().iter().all(Receipt::is_clean);
        let exit = if clean { Exit::Failed } else { Exit::NotClean };
        #[expect(clippy::exit, reason = "the loop of the screen is stuck: nothing else ends the program")]
        std::process::exit(exit.code().into());
    });
    let keys = ui.keys.clone();
    let remembered = state_dir.join(REMEMBERED);
    let memory = recall(&remembered).unwrap_or_else(|problem| {
        let note = format!("{} was ignored: {problem}", remembered.display());
        bridge_notes.send(UiEvent::Note(note)).ok();
        Memory::default()
    });
    let (escape, on_stuck) = (ui.escape, Some(on_stuck));
    let options = Options { theme, keys, escape, mouse: true, title, notifier, memory, link, on_stuck };
    let outcome = tui::run(&bridge, events, sender, options)
        .map_err(|error| AppError::new(ErrorKind::Io, format!("the screen ended: {error}")));
    if let Ok(outcome) = outcome {
        unseen(runtime, outcome);
    }
    // Its view of tmux lets go before the program ends, or tmux would keep the client.
    bridge.select(None);
    let receipts = runtime.close();
    bridge.settle();
    // Whoever was to end is not kept waiting for a disk.
    if let Some(memory) = bridge.remembered() {
        // A layout that cannot be written is no reason to complain.
        replace(&remembered, &memory.bytes()).ok();
    }
    let mut exit = outcome.map(|_| Exit::Ok)?;
    for receipt in receipts.iter().filter(|receipt| !receipt.is_clean()) {
        exit = exit.or(Exit::NotClean);
        cli::say(&super::report::receipt(receipt));
    }
    Ok(exit)
}

/// Has the next start tell what ends with a screen that nobody has left.
fn unseen(runtime: &Runtime, outcome: Outcome) {
    match outcome {
        Outcome::Quit => {}
        Outcome::Hangup => runtime.set_unseen_end("the terminal of its screen went away"),
        Outcome::Terminate => runtime.set_unseen_end("its screen was asked to end"),
    }
}

fn open_batch(path: &Path) -> Result<Box<dyn Read + Send>, AppError> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            Err(AppError::new(ErrorKind::Usage, format!("failed to open the batch {}: {error}", path.display())))
        }
    }
}

fn inputs(args: &Args, paths: &Paths) -> Inputs {
    Inputs {
        explicit: args.config.clone(),
        config_home: paths.config_home.clone(),
        cwd: std::env::current_dir().unwrap_or_default(),
        state_dir: paths.state_dir.clone(),
        path: std::env::var_os("PATH"),
        home: paths.home.clone(),
    }
}

/// The directory's own configuration is acted on only once a person has said so.
fn trust(paths: &Paths, inputs: &Inputs, asked: &Trust) -> Result<Exit, AppError> {
    let nearest = || inputs.cwd.ancestors().map(|dir| dir.join("cookbook.toml")).find(|file| file.exists());
    let Some(file) = asked.file.clone().or_else(nearest) else {
        let message = "there is no cookbook.toml in this directory or above; name the file to trust";
        return Err(AppError::new(ErrorKind::NotFound, message));
    };
    // What cannot be used would keep every command in that directory from running.
    let check = |path: &Path, content: &[u8]| config::check_directory(inputs, path, content);
    let trusted = config::trust::trust(&file, &paths.state_dir, check)
        .map_err(|error| AppError::new(ErrorKind::Config, format!("{} was not trusted: {error}", file.display())))?;
    let path = trusted.path.display().to_string();
    if asked.output.json {
        cli::say_json(&serde_json::json!({ "path": path, "sha256": trusted.sha256 }));
    } else {
        cli::say(&format!("{} is trusted as it is now\n", text::escape(&path)));
    }
    Ok(Exit::Ok)
}

/// Returns our tmux server, and where the configuration goes that it is started with.
fn server(args: &Args, paths: &Paths, config: &Config) -> Result<(Server, Option<PathBuf>), AppError> {
    let derived = || {
        // Two state directories must not share sessions.
        let digest = config::trust::fingerprint(paths.state_dir.as_os_str().as_bytes());
        format!("cookbook-{}", &digest[..8])
    };
    let name = match &args.tmux_socket {
        Some(name) => name.clone(),
        None if paths.own_state && config.tmux.socket == "cookbook" => derived(),
        None => config.tmux.socket.clone(),
    };
    let socket: SocketRef =
        name.parse().map_err(|error| AppError::new(ErrorKind::Usage, format!("--tmux-socket: {error}")))?;
    // The user's own server is never given a configuration of ours.
    let conf = (name != "default").then(|| paths.state_dir.join("tmux.conf"));
    Ok((Server::new(socket, conf.clone(), std::env::vars_os()), conf))
}

fn write_tmux_config(path: &Path) -> Result<(), AppError> {
    let text = crate::tmux::CONFIG.as_bytes();
    if regular::read(path).ok().as_deref() == Some(text) {
        return Ok(());
    }
    let failed = |error| AppError::new(ErrorKind::State, format!("failed to write {}: {error}", path.display()));
    replace(path, text).map_err(failed)
}

/// Some supervisors start their children with a blocked mask; every thread would inherit it from this one.
fn hear_signals() {
    let mut ours = SigSet::empty();
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGCHLD] {
        ours.add(signal);
    }
    ours.thread_unblock().ok();
}

/// Where a file may not grow (`RLIMIT_FSIZE`), writing to it is an error like a full disk, and not our end. A caught signal is
/// the default again in whoever we start (signal(7)).
fn survive_limits() {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()).ok();
}

/// An inherited `SIG_IGN` of CHLD would reap our children behind our back.
fn keep_children() {
    signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default()).ok();
}

/// Says when somebody wants us to end, and by which signal: whoever waits for a session ends at once, a stop that is under way is
/// finished.
fn signals(runtime: &Runtime) -> Receiver<&'static str> {
    let (sender, receiver) = channel();
    let runtime = runtime.clone();
    if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) {
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let name = match signal {
                    SIGHUP => {
                        runtime.set_unseen_end("its manager was ended by HUP: its terminal went away");
                        "HUP"
                    }
                    SIGTERM => {
                        runtime.set_unseen_end("its manager was ended by TERM");
                        "TERM"
                    }
                    _ => "INT",
                };
                // Said first: who is kept waiting by nothing any more asks why.
                let heard = sender.send(name);
                runtime.interrupt();
                if heard.is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

fn log_to(state_dir: &Path, level: tracing::Level) {
    let Ok(file) = regular::append(&state_dir.join("cookbook-tui.log")) else { return };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        // A disk that refuses costs the log, and no line on a screen.
        .log_internal_errors(false)
        .with_writer(std::sync::Mutex::new(file));
    subscriber.try_init().ok();
}

/// Appends standard input to a session's log until it ends.
fn write_log(path: Option<&OsString>) -> u8 {
    let found = path.map(Path::new).filter(|path| path.exists());
    let Some(Ok(mut log)) = found.map(crate::pty::Log::open) else { return Exit::Failed.code() };
    let mut buffer = vec![0; 64 << 10];
    let mut input = std::io::stdin().lock();
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Exit::Ok.code(),
            Ok(length) => log.append(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Exit::Failed.code(),
        }
    }
}
