//! Turns the text of one configuration file into one layer of the configuration.
//!
//! Called by `load` for each file. Pure: paths are made absolute by what it is told, and nothing
//! is looked up. Every key of design section 8 is read here and nowhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::chord::Chord;
use super::colour::{Colours, NoColour, Role};
use super::error::ConfigError;
use super::keys::{KeyLine, keys};
use super::model::{Glyphs, Machine, Notify, Theme};
use super::pattern::{PATTERN, pattern};
use super::recipe::{Escapees, Pattern, Ready, Recipe, Restart, Source, Stop};
use super::section::{Item, Section, Text, line_ends};
use crate::app::contract::{CommandLine, HostKind, Kind};
use crate::app::phase::Clue;
use crate::text;
use crate::tmux::keys::Key;

const ROOT: &[&str] = &["recipe", "machine", "pattern", "tmux", "cookbook", "containment", "ui", "theme", "keys"];
const RECIPE: &[&str] = &[
    "name",
    "kind",
    "host",
    "command",
    "cwd",
    "env",
    "gpus",
    "venv",
    "needs",
    "exclusive",
    "ready",
    "stop",
    "ceiling_s",
    "restart",
    "escapees",
    "autostart",
];
const READY: &[&str] = &["http", "log", "tcp"];
const STOP: &[&str] = &["signal", "grace_s", "command", "keys"];
const MACHINE: &[&str] = &["name", "ssh"];
const TMUX: &[&str] = &["socket"];
const CONTAINMENT: &[&str] = &["cgroup"];
const COOKBOOK: &[&str] = &["data_dir", "socket"];
const NOTIFY: &[&str] = &["none", "terminal", "osc9", "osc99", "osc777", "desktop"];
const UI: &[&str] = &["theme", "glyphs", "escape", "notify", "title"];
const THEMES: &[&str] = &["auto", "dark", "light", "mono", "high-contrast"];

const KINDS: &[&str] = &["serve", "agent", "shell", "download"];
/// Signals that programs take as a request to end.
const SIGNALS: &[&str] = &["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "KILL"];

/// Where a file stands and what its relative paths mean.
pub(super) struct Origin<'a> {
    /// The file, as messages name it.
    pub path: &'a Path,
    /// Absolute directory of the file.
    pub dir: &'a Path,
    /// What `~` stands for.
    pub home: Option<&'a Path>,
    /// Which layer it makes.
    pub source: Source,
}

/// What one file says; `None` where it is silent.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub recipes: Vec<Recipe>,
    pub machines: Vec<Machine>,
    pub patterns: Vec<Clue>,
    pub tmux_socket: Option<String>,
    pub cookbook_data_dir: Option<PathBuf>,
    pub cookbook_socket: Option<String>,
    pub theme: Option<Theme>,
    pub colours: Colours,
    pub keys: Vec<KeyLine>,
    pub glyphs: Option<Glyphs>,
    pub cgroup: Option<bool>,
    pub escape: Option<Chord>,
    pub notify: Option<Notify>,
    pub title: Option<bool>,
}

/// Reads a file's text.
pub(super) fn parse(content: &str, origin: &Origin<'_>) -> Result<Layer, ConfigError> {
    let line_ends = line_ends(content);
    let text = Text { path: origin.path, content, line_ends: &line_ends };
    let table = text.parse()?;
    let root = Section::root(text, &table, ROOT)?;
    let mut layer = Layer::default();
    if let Some(item) = root.get("recipe") {
        layer.recipes = named(&item.sections(RECIPE)?, |section, name| recipe(section, name, origin))?;
    }
    if let Some(item) = root.get("machine") {
        layer.machines = named(&item.sections(MACHINE)?, machine)?;
    }
    if let Some(item) = root.get("pattern") {
        let shipped = origin.source == Source::BuiltIn;
        layer.patterns = named(&item.sections(PATTERN)?, |section, name| pattern(section, name, shipped))?;
    }
    if let Some(section) = root.parse("tmux", |item| item.section(TMUX))? {
        layer.tmux_socket = section.parse("socket", socket)?;
    }
    if let Some(section) = root.parse("cookbook", |item| item.section(COOKBOOK))? {
        layer.cookbook_data_dir = section.parse("data_dir", |item| path(item, origin))?;
        layer.cookbook_socket = section.parse("socket", socket)?;
    }
    if let Some(section) = root.parse("containment", |item| item.section(CONTAINMENT))? {
        layer.cgroup = section.parse("cgroup", Item::bool)?;
    }
    if let Some(section) = root.parse("ui", |item| item.section(UI))? {
        let themes = [Theme::Auto, Theme::Dark, Theme::Light, Theme::Mono, Theme::HighContrast];
        layer.theme = section.parse("theme", |item| item.choice(THEMES, &themes))?;
        let glyphs = [Glyphs::Auto, Glyphs::Ascii, Glyphs::Unicode];
        layer.glyphs = section.parse("glyphs", |item| item.choice(&["auto", "ascii", "unicode"], &glyphs))?;
        let ways = [Notify::None, Notify::Terminal, Notify::Osc9, Notify::Osc99, Notify::Osc777, Notify::Desktop];
        layer.notify = section.parse("notify", |item| item.choice(NOTIFY, &ways))?;
        layer.title = section.parse("title", Item::bool)?;
        layer.escape = section.parse("escape", chord)?;
    }
    if let Some(item) = root.get("keys") {
        layer.keys = keys(&item, origin.path)?;
    }
    if let Some(section) = root.parse("theme", |item| item.section(Role::NAMES))? {
        for (colour, name) in layer.colours.iter_mut().zip(Role::NAMES) {
            *colour = section.parse(name, |item| {
                item.word()?.parse().map_err(|expected: NoColour| item.expected(&expected.to_string()))
            })?;
        }
    }
    Ok(layer)
}

/// Reads sections that have a name each, none twice.
fn named<T>(
    sections: &[Section<'_>],
    read: impl Fn(&Section<'_>, String) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let mut lines = BTreeMap::new();
    let mut all = Vec::with_capacity(sections.len());
    for section in sections {
        let item = section.require("name")?;
        let expected = "a name of 1 to 64 visible characters that does not begin with `-` or `$`";
        let name = item.checked(expected, is_name)?;
        if let Some(first) = lines.insert(name.to_owned(), item.line) {
            return Err(item.duplicate(name, first));
        }
        all.push(read(section, name.to_owned())?);
    }
    Ok(all)
}

fn recipe(section: &Section<'_>, name: String, origin: &Origin<'_>) -> Result<Recipe, ConfigError> {
    let kind = section.parse("kind", |item| item.choice(KINDS, &Kind::ALL))?.unwrap_or(Kind::Shell);
    let hosts = [HostKind::Pty, HostKind::Tmux];
    let escapees = [Escapees::Sweep, Escapees::Report];
    Ok(Recipe {
        kind,
        host: section.parse("host", |item| item.choice(&["pty", "tmux"], &hosts))?,
        command: command(&section.require("command")?)?,
        cwd: section.parse("cwd", |item| path(item, origin))?,
        env: section.parse("env", env)?.unwrap_or_default(),
        gpus: section.parse("gpus", |item| Ok(item.checked("device numbers such as `0,1`", are_gpus)?.to_owned()))?,
        venv: section.parse("venv", |item| path(item, origin))?,
        needs: section.parse("needs", |item| needs(item, &name))?.unwrap_or_default(),
        exclusive: section.parse("exclusive", |item| Ok(item.filled()?.to_owned()))?,
        ready: section.parse("ready", ready)?,
        stop: section.parse("stop", stop)?.unwrap_or_default(),
        ceiling_s: section.parse("ceiling_s", |item| item.seconds(false))?,
        restart: section
            .parse("restart", |item| item.choice(&["no", "on-failure"], &[Restart::No, Restart::OnFailure]))?
            .unwrap_or_default(),
        escapees: section
            .parse("escapees", |item| item.choice(&["sweep", "report"], &escapees))?
            .unwrap_or(Escapees::usual(kind)),
        autostart: section.parse("autostart", Item::bool)?.unwrap_or_default(),
        source: origin.source,
        program_found: false,
        refused: None,
        name,
    })
}

fn machine(section: &Section<'_>, name: String) -> Result<Machine, ConfigError> {
    if name == "local" {
        return Err(section.require("name")?.expected("another name: `local` is this computer"));
    }
    let expected = "a destination for ssh, without blanks, whose user and host do not begin with `-`";
    let ssh = section.require("ssh")?.checked(expected, is_destination)?.to_owned();
    Ok(Machine { name, ssh })
}

fn command(item: &Item<'_>) -> Result<CommandLine, ConfigError> {
    if item.is_string() {
        return Ok(CommandLine::Line(item.filled()?.to_owned()));
    }
    let argv = strings(item, "a string for sh -c or a list of strings")?;
    match argv.first() {
        Some(program) if !program.is_empty() => Ok(CommandLine::Argv(argv)),
        Some(_) | None => Err(item.expected("a list that begins with a program")),
    }
}

fn strings(item: &Item<'_>, expected: &str) -> Result<Vec<String>, ConfigError> {
    item.list(expected)?.iter().map(|item| Ok(item.string()?.to_owned())).collect()
}

fn env(item: &Item<'_>) -> Result<BTreeMap<String, String>, ConfigError> {
    let variable = |item: Item<'_>| {
        if item.key.is_empty() || item.key.contains(['=', '\0']) {
            return Err(item.bad_key("the name of a variable, without `=`"));
        }
        Ok((item.key.clone(), item.string()?.to_owned()))
    };
    item.free_section()?.items().into_iter().map(variable).collect()
}

fn needs(item: &Item<'_>, own: &str) -> Result<Vec<String>, ConfigError> {
    let need =
        |item: &Item<'_>| Ok(item.checked("the name of another recipe", |name| is_name(name) && name != own)?.into());
    item.list("a list of recipe names")?.iter().map(need).collect()
}

fn ready(item: &Item<'_>) -> Result<Ready, ConfigError> {
    let section = item.section(READY)?;
    let is_url = |url: &str| is_http(url);
    let http = section.parse("http", |item| item.checked("a URL such as `http://127.0.0.1:8080/health`", is_url))?;
    let log = section.parse("log", |item| {
        Pattern::parse(item.filled()?).map_err(|why| item.expected(&format!("a regular expression ({why})")))
    })?;
    match (http, log, section.parse("tcp", Item::port)?) {
        (Some(url), None, None) => Ok(Ready::Http(url.to_owned())),
        (None, Some(pattern), None) => Ok(Ready::Log(pattern)),
        (None, None, Some(port)) => Ok(Ready::Tcp(port)),
        _ => Err(item.expected("a table with exactly one of http, log, tcp")),
    }
}

fn stop(item: &Item<'_>) -> Result<Stop, ConfigError> {
    let section = item.section(STOP)?;
    let keys = |item: &Item<'_>| {
        let keys = item.list("a list of keys such as `C-c`")?;
        let key = |item: &Item<'_>| {
            let key = item.filled()?;
            key.parse::<Key>()
                .map_err(|_| item.expected("a key by its name, such as Enter, Escape, Up, F1, C-c or M-x"))?;
            Ok(key.to_owned())
        };
        let keys: Result<Vec<_>, _> = keys.iter().map(key).collect();
        keys.and_then(
            |keys| if keys.is_empty() { Err(item.expected("a list of keys such as `C-c`")) } else { Ok(keys) },
        )
    };
    Ok(Stop {
        signal: section.parse("signal", |item| item.choice(SIGNALS, SIGNALS))?.map(str::to_owned),
        grace_s: section.parse("grace_s", |item| item.seconds(true))?,
        command: section.parse("command", command)?,
        keys: section.parse("keys", keys)?,
    })
}

fn socket(item: &Item<'_>) -> Result<String, ConfigError> {
    let is_socket = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !name.is_empty() && name.chars().all(is_plain) && !name.starts_with(['-', '.'])
    };
    let expected = "a name of letters, digits, `_`, `-` and `.` that does not begin with `-` or `.`";
    Ok(item.checked(expected, is_socket)?.to_owned())
}

fn chord(item: &Item<'_>) -> Result<Chord, ConfigError> {
    let text = item.string()?;
    text.parse().map_err(|expected: super::chord::NoChord| item.expected(&expected.to_string()))
}

/// Reads a path: relative to the file, `~` is the home directory.
fn path(item: &Item<'_>, origin: &Origin<'_>) -> Result<PathBuf, ConfigError> {
    let text = item.filled()?;
    let path = match (text.strip_prefix('~'), origin.home) {
        (None, _) => origin.dir.join(text),
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        (Some(rest), None) if rest.is_empty() || rest.starts_with('/') => {
            return Err(item.expected("a path without `~` while HOME is not set"));
        }
        (Some(_), _) => return Err(item.expected("a path; of home directories only one's own, `~/...`, is known")),
    };
    // Takes `.` out and leaves `..`, which a symbolic link can make mean something else.
    Ok(path.components().collect())
}

/// Tells whether a recipe can have this name.
pub fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=64).contains(&length) && name.trim() == name && !name.starts_with(['-', '$']) && text::escape(name) == name
}

/// Tells whether these are device numbers such as `0,1`.
pub fn are_gpus(gpus: &str) -> bool {
    gpus.split(',').all(|gpu| !gpu.is_empty() && gpu.bytes().all(|b| b.is_ascii_digit()))
}

fn is_destination(ssh: &str) -> bool {
    let is_plain = !ssh.contains(|c: char| c.is_whitespace() || c.is_control()) && text::escape(ssh) == ssh;
    is_plain && ssh.trim_start_matches("ssh://").split('@').all(|part| !part.is_empty() && !part.starts_with('-'))
}

fn is_http(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty() && !url.contains(char::is_whitespace) && text::escape(url) == url && port.is_none_or(is_port)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
