//! Writes a recipe into the text of a configuration file; comments, order and layout of the rest stay.
//!
//! Pure: from a text to a text. Whoever calls it has parsed the text, and parses what comes out before it is used.

use std::collections::BTreeSet;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::recipe::{Escapees, Ready, Recipe, Restart, Stop};
use crate::app::contract::CommandLine;

/// Puts a recipe into a text: in the place of `before`, the recipe of its name that the text has, else at the end of
/// the recipes. Of the one that is replaced only those keys change whose meaning does.
///
/// # Errors
/// When the text could not be kept as it is, in words.
pub fn put(text: &str, recipe: &Recipe, before: Option<&Recipe>) -> Result<String, String> {
    // The editor writes LF alone, ends the last line, and leaves a byte order mark out.
    let crlf = text.contains("\r\n");
    let (mark, text) = text.strip_prefix('\u{feff}').map_or(("", text), |text| ("\u{feff}", text));
    let mut plain = text.replace("\r\n", "\n");
    if !plain.is_empty() && !plain.ends_with('\n') {
        plain.push('\n');
    }
    let mut document: DocumentMut = plain.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let is_kept = !crlf || {
        let again = plain.replace('\n', "\r\n");
        again.strip_prefix(text).is_some_and(|end| matches!(end, "" | "\r\n"))
    };
    if document.to_string() != plain || !is_kept {
        return Err("it could not be kept as it is (is it written with mixed line ends?)".into());
    }
    let all = document.entry("recipe").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    match before {
        Some(before) => {
            let table = find(all, &recipe.name).ok_or("its recipe of that name was not found again")?;
            change(table, recipe, before);
        }
        None => match all {
            Item::ArrayOfTables(tables) => {
                let mut table = Table::new();
                fill(&mut table, recipe);
                if !plain.trim().is_empty() {
                    table.decor_mut().set_prefix("\n");
                }
                tables.push(table);
                keep_comments_above(&mut document);
            }
            Item::Value(Value::Array(tables)) => {
                let mut table = InlineTable::new();
                fill(&mut table, recipe);
                tables.push(table);
            }
            Item::None | Item::Value(_) | Item::Table(_) => return Err("its `recipe` is no list of tables".into()),
        },
    }
    let after = document.to_string();
    Ok(format!("{mark}{}", if crlf { after.replace('\n', "\r\n") } else { after }))
}

/// Has what stands at the end of a text, as a comment on what is above it, stay above a recipe that was put there.
fn keep_comments_above(document: &mut DocumentMut) {
    let comments = document.trailing().as_str().unwrap_or_default().to_owned();
    let whole = document.to_string();
    let body = whole.strip_suffix(comments.as_str()).unwrap_or(&whole);
    let at = body.rfind("[[recipe]]").unwrap_or(0);
    // Where a table of another kind comes last, they are about that.
    if comments.is_empty() || body[at..].lines().skip(1).any(|line| line.starts_with('[')) {
        return;
    }
    let last = document.get_mut("recipe").and_then(Item::as_array_of_tables_mut).and_then(|all| {
        let last = all.len().checked_sub(1)?;
        all.get_mut(last)
    });
    if let Some(table) = last {
        table.decor_mut().set_prefix(format!("{comments}\n"));
        document.set_trailing("");
    }
}

fn find<'a>(all: &'a mut Item, name: &str) -> Option<&'a mut dyn TableLike> {
    let is_it = |table: &dyn TableLike| table.get("name").and_then(Item::as_str) == Some(name);
    match all {
        Item::ArrayOfTables(tables) => {
            let table = tables.iter_mut().find(|table| is_it(*table))?;
            Some(table)
        }
        Item::Value(Value::Array(tables)) => {
            let mut tables = tables.iter_mut().filter_map(Value::as_inline_table_mut);
            let table = tables.find(|table| is_it(*table))?;
            Some(table)
        }
        Item::None | Item::Value(_) | Item::Table(_) => None,
    }
}

fn fill(table: &mut dyn TableLike, recipe: &Recipe) {
    set(table, "name", Some(recipe.name.as_str().into()));
    for (key, value) in values(recipe) {
        set(table, key, value);
    }
    let env: InlineTable = recipe.env.iter().collect();
    set(table, "env", Some(env).filter(|env| !env.is_empty()).map(Value::from));
}

fn change(table: &mut dyn TableLike, recipe: &Recipe, before: &Recipe) {
    for ((key, now), (_, then)) in values(recipe).into_iter().zip(values(before)) {
        if now.as_ref().map(Value::to_string) != then.as_ref().map(Value::to_string) {
            set(table, key, now);
        }
    }
    let names: BTreeSet<&String> = recipe.env.keys().chain(before.env.keys()).collect();
    if recipe.env == before.env {
        return;
    }
    if recipe.env.is_empty() {
        table.remove("env");
        return;
    }
    if table.get("env").is_none() {
        set(table, "env", Some(InlineTable::new().into()));
    }
    let Some(env) = table.get_mut("env").and_then(Item::as_table_like_mut) else { return };
    for name in names {
        let now = recipe.env.get(name);
        if now != before.env.get(name) {
            set(env, name, now.map(Value::from));
        }
    }
}

/// Sets a key, or takes it out; what stands around its value stays.
fn set(table: &mut dyn TableLike, key: &str, value: Option<Value>) {
    let Some(mut value) = value else {
        table.remove(key);
        return;
    };
    match table.get_mut(key) {
        Some(item) => {
            if let Some(old) = item.as_value() {
                *value.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

/// Returns every key but the name and the environment, in the order of the documentation; `None` where it is left out.
fn values(recipe: &Recipe) -> Vec<(&'static str, Option<Value>)> {
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| Value::from(&*path.to_string_lossy()));
    let needs = Some(&recipe.needs).filter(|needs| !needs.is_empty());
    let escapees = (recipe.escapees != Escapees::usual(recipe.kind)).then(|| match recipe.escapees {
        Escapees::Sweep => "sweep".into(),
        Escapees::Report => "report".into(),
    });
    vec![
        ("kind", Some(recipe.kind.name().into())),
        ("host", recipe.host.map(|host| host.name().into())),
        ("command", Some(command(&recipe.command))),
        ("cwd", path(&recipe.cwd)),
        ("gpus", recipe.gpus.as_deref().map(Value::from)),
        ("venv", path(&recipe.venv)),
        ("needs", needs.map(|needs| Value::Array(needs.iter().collect()))),
        ("exclusive", recipe.exclusive.as_deref().map(Value::from)),
        ("ready", recipe.ready.as_ref().map(ready)),
        ("stop", Some(stop(&recipe.stop)).filter(|stop| !stop.is_empty()).map(Value::from)),
        ("ceiling_s", recipe.ceiling_s.map(Value::from)),
        ("restart", (recipe.restart == Restart::OnFailure).then(|| "on-failure".into())),
        ("escapees", escapees),
        ("autostart", recipe.autostart.then(|| true.into())),
    ]
}

fn command(command: &CommandLine) -> Value {
    match command {
        CommandLine::Line(line) => line.as_str().into(),
        CommandLine::Argv(argv) => Value::Array(argv.iter().collect::<Array>()),
    }
}

fn ready(ready: &Ready) -> Value {
    let mut table = InlineTable::new();
    match ready {
        Ready::Http(url) => table.insert("http", url.as_str().into()),
        Ready::Log(pattern) => table.insert("log", pattern.regex().as_str().into()),
        Ready::Tcp(port) => table.insert("tcp", i64::from(*port).into()),
    };
    table.into()
}

fn stop(stop: &Stop) -> InlineTable {
    let mut table = InlineTable::new();
    let keys = stop.keys.as_ref().map(|keys| Value::Array(keys.iter().collect()));
    for (key, value) in [
        ("signal", stop.signal.as_deref().map(Value::from)),
        ("grace_s", stop.grace_s.map(Value::from)),
        ("command", stop.command.as_ref().map(command)),
        ("keys", keys),
    ] {
        if let Some(value) = value {
            table.insert(key, value);
        }
    }
    table
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
