//! Reads TOML tables with spans, so that every complaint names its line.
//!
//! Called by `parse` only. A [`Section`] refuses unknown keys when it is made; an [`Item`] turns
//! one value into one type or into an error. It knows nothing of recipes.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Problem, shown};

/// The longest duration that is accepted, in seconds: a hundred years.
const LONGEST_S: f64 = 100.0 * 365.25 * 86_400.0;

/// The text of a file with its name.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    /// The file, as messages name it.
    pub path: &'a Path,
    /// What is in it.
    pub content: &'a str,
    /// Where its lines end: [`line_ends`].
    pub line_ends: &'a [usize],
}

/// Returns where the lines of a text end. Every item of a file has a line: they are not counted anew for each.
pub(super) fn line_ends(content: &str) -> Vec<usize> {
    content.match_indices('\n').map(|(at, _)| at).collect()
}

impl<'a> Text<'a> {
    /// Returns the root table of the file.
    pub(super) fn parse(self) -> Result<DeTable<'a>, ConfigError> {
        DeTable::parse(self.content).map(Spanned::into_inner).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(self.line(at), Problem::Syntax { message: error.message().replace('\n', ", ") })
        })
    }

    pub(super) fn error(self, line: usize, problem: Problem) -> ConfigError {
        ConfigError::At { path: self.path.to_owned(), line, problem: Box::new(problem) }
    }

    fn line(self, at: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end < at)
    }
}

/// A table all of whose keys are known.
pub(super) struct Section<'a> {
    text: Text<'a>,
    title: String,
    line: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// Returns the root of a file as a section.
    pub(super) fn root(
        text: Text<'a>,
        table: &'a DeTable<'a>,
        known: &'static [&'static str],
    ) -> Result<Self, ConfigError> {
        Self { text, title: "the file".into(), line: 1, table }.checked(known)
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        let (key, value) = self.table.get_key_value(key)?;
        let line = self.text.line(key.span().start);
        Some(Item {
            text: self.text,
            section: self.title.clone(),
            key: key.get_ref().to_string(),
            line,
            value: value.get_ref(),
        })
    }

    /// Returns all values, in the order of the file; for tables whose keys are free.
    pub(super) fn items(&self) -> Vec<Item<'a>> {
        let mut keys: Vec<_> = self.table.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        keys.into_iter().filter_map(|key| self.get(key.get_ref())).collect()
    }

    /// Returns the value of a key that must be there.
    pub(super) fn require(&self, key: &str) -> Result<Item<'a>, ConfigError> {
        let problem = || Problem::MissingKey { key: key.into(), section: self.title.clone() };
        self.get(key).ok_or_else(|| self.text.error(self.line, problem()))
    }

    /// Returns the parsed value of a key, if the key is there.
    pub(super) fn parse<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&Item<'a>) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.get(key).as_ref().map(parse).transpose()
    }

    fn checked(self, known: &'static [&'static str]) -> Result<Self, ConfigError> {
        match self.items().into_iter().find(|item| !known.contains(&item.key.as_str())) {
            None => Ok(self),
            Some(Item { key, line, .. }) => {
                Err(self.text.error(line, Problem::UnknownKey { key, section: self.title, known }))
            }
        }
    }
}

/// The value of a key.
#[derive(Clone)]
pub(super) struct Item<'a> {
    text: Text<'a>,
    section: String,
    /// The key, or its place in a list: `needs[1]`.
    pub key: String,
    /// Where the key is.
    pub line: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Item<'a> {
    /// Returns the error that the value should have been something else.
    pub(super) fn expected(&self, expected: &str) -> ConfigError {
        let found = match self.value {
            DeValue::String(text) => shown(text),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(_) => "a boolean".into(),
            DeValue::Datetime(_) => "a date".into(),
            DeValue::Array(items) if items.is_empty() => "an empty list".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        };
        self.value_error(expected, found)
    }

    /// Returns the error that the value is of another type; the value itself is not repeated.
    fn wrong_type(&self, expected: &str) -> ConfigError {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.value_error(expected, found.into())
    }

    fn value_error(&self, expected: &str, found: String) -> ConfigError {
        let (key, section, expected) = (self.key.clone(), self.section.clone(), expected.to_owned());
        self.error(Problem::Value { key, section, expected, found })
    }

    /// Returns the error that a free key should have been something else.
    pub(super) fn bad_key(&self, expected: &str) -> ConfigError {
        self.value_error(expected, shown(&self.key))
    }

    fn error(&self, problem: Problem) -> ConfigError {
        self.text.error(self.line, problem)
    }

    /// Returns the error that the name was used before.
    pub(super) fn duplicate(&self, name: &str, first: usize) -> ConfigError {
        self.error(Problem::Duplicate { name: name.into(), section: self.section.clone(), first })
    }

    /// Returns a text without NUL, which neither arguments nor variables can hold.
    pub(super) fn string(&self) -> Result<&'a str, ConfigError> {
        let text = self.value.as_str().ok_or_else(|| self.wrong_type("a string"))?;
        if text.contains('\0') { Err(self.value_error("a string", "one with NUL".into())) } else { Ok(text) }
    }

    /// Returns a text, or a number as it is written.
    pub(super) fn word(&self) -> Result<&'a str, ConfigError> {
        match self.value {
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str()),
            DeValue::Integer(_)
            | DeValue::String(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => self.string(),
        }
    }

    /// Returns a text that is more than blanks.
    pub(super) fn filled(&self) -> Result<&'a str, ConfigError> {
        let text = self.string()?;
        if text.trim().is_empty() { Err(self.expected("a string that is not empty")) } else { Ok(text) }
    }

    /// Returns a text that passes a check.
    pub(super) fn checked(&self, expected: &str, check: impl FnOnce(&str) -> bool) -> Result<&'a str, ConfigError> {
        let text = self.string()?;
        if check(text) { Ok(text) } else { Err(self.expected(expected)) }
    }

    pub(super) fn bool(&self) -> Result<bool, ConfigError> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    /// Returns a TCP port.
    pub(super) fn port(&self) -> Result<u16, ConfigError> {
        let number = self.value.as_integer().ok_or_else(|| self.wrong_type("a port from 1 to 65535"))?;
        let port = u16::from_str_radix(number.as_str(), number.radix()).ok().filter(|port| *port > 0);
        port.ok_or_else(|| self.expected("a port from 1 to 65535"))
    }

    /// Returns a duration in seconds above 0, or from 0 where `zero` is allowed; always finite.
    pub(super) fn seconds(&self, zero: bool) -> Result<f64, ConfigError> {
        let expected = if zero { "a number of seconds from 0" } else { "a number of seconds above 0" };
        let number: Option<f64> = match self.value {
            // No duration needs another base, and the shortest way from digits to a float is to read them.
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(_) => None,
            DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                return Err(self.wrong_type(expected));
            }
        };
        let number = number.filter(|s| s.is_finite() && (*s > 0.0 || (zero && *s >= 0.0)));
        let seconds = number.ok_or_else(|| self.expected(expected))?;
        if seconds <= LONGEST_S { Ok(seconds) } else { Err(self.expected("at most a hundred years in seconds")) }
    }

    /// Returns what a word stands for.
    pub(super) fn choice<T: Copy>(&self, words: &'static [&'static str], values: &[T]) -> Result<T, ConfigError> {
        let found = self.string()?;
        let value = words.iter().zip(values).find(|(word, _)| **word == found).map(|(_, value)| *value);
        value.ok_or_else(|| {
            let (key, section) = (self.key.clone(), self.section.clone());
            self.error(Problem::Choice { key, section, found: found.into(), known: words })
        })
    }

    /// Returns the error that the key has no meaning here.
    pub(super) fn unknown(&self, known: &'static [&'static str]) -> ConfigError {
        let (key, section) = (self.key.clone(), self.section.clone());
        self.error(Problem::UnknownKey { key, section, known })
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn is_string(&self) -> bool {
        self.value.is_str()
    }

    /// Returns the items of a list.
    pub(super) fn list(&self, expected: &str) -> Result<Vec<Self>, ConfigError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong_type(expected))?;
        let item = |(index, item): (usize, &'a Spanned<DeValue<'a>>)| Self {
            key: format!("{}[{index}]", self.key),
            line: self.text.line(item.span().start),
            value: item.get_ref(),
            ..self.clone()
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// Returns the table of a `[key]`, or of a key within a section.
    pub(super) fn section(&self, known: &'static [&'static str]) -> Result<Section<'a>, ConfigError> {
        self.free_section()?.checked(known)
    }

    /// Returns a table whose keys are free.
    pub(super) fn free_section(&self) -> Result<Section<'a>, ConfigError> {
        let table = self.value.as_table().ok_or_else(|| self.wrong_type("a table"))?;
        let title = if self.section == "the file" {
            format!("[{}]", self.key)
        } else {
            format!("`{}` of {}", self.key, self.section)
        };
        Ok(Section { text: self.text, title, line: self.line, table })
    }

    /// Returns the tables of a `[[key]]`.
    pub(super) fn sections(&self, known: &'static [&'static str]) -> Result<Vec<Section<'a>>, ConfigError> {
        let expected = format!("a list of tables, each begun by [[{}]]", self.key);
        let section = |item: Self| {
            let table = item.value.as_table().ok_or_else(|| item.wrong_type("a table"))?;
            Section { text: self.text, title: format!("[[{}]]", self.key), line: item.line, table }.checked(known)
        };
        self.list(&expected)?.into_iter().map(section).collect()
    }
}
