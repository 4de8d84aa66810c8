//! What a field of the launch form offers: what is wanted there by what stands before it, and the best matches. Pure.

use super::super::glyph;
use super::fuzzy::Fuzzy;
use super::words::{Cursor, quote, quote_path};
use crate::app::catalog::{Catalog, Listing, Look};
use crate::app::config::RecipeRow;

/// How many matches are kept.
const KEPT: usize = 50;

/// Programs that run the rest of their words as they are.
const TRANSPARENT: [&str; 6] = ["exec", "env", "nohup", "setsid", "nice", "time"];

/// What a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Want {
    /// Nothing that is known.
    Nothing,
    /// The name of a recipe.
    Recipe,
    /// A program.
    Program,
    /// A path.
    Path,
    /// A directory.
    Directory,
    /// A model file.
    Gguf,
    /// A repository of the hub.
    Repo,
    /// A model of Ollama.
    Ollama,
}

/// Something that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What comes into the field, as it has to be typed.
    pub text: String,
    /// How it is shown.
    pub shown: String,
    /// More about it.
    pub aside: String,
}

/// What is offered for the word at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// The best first.
    pub list: Vec<Offer>,
    /// The one that the keys are on.
    pub chosen: Option<usize>,
    /// What one should know of the list.
    pub note: Option<String>,
    /// Where the word begins.
    pub(in super::super) start: usize,
    /// What has to be looked for first.
    pub(in super::super) missing: Option<Look>,
}

/// What is known.
pub(in super::super) struct Known<'a> {
    pub recipes: &'a [RecipeRow],
    pub catalog: Option<&'a Catalog>,
    pub listing: Option<&'a Listing>,
    /// The working directory, as it is typed.
    pub base: &'a str,
}

/// Returns what the word at the cursor of a command takes.
pub(in super::super) fn wanted(cursor: &Cursor) -> (Want, usize) {
    let is_set = |word: &str| word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.starts_with('-'));
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let skipped = cursor.before.iter().take_while(|word| is_set(word) || TRANSPARENT.contains(&word.as_str())).count();
    let words = &cursor.before[skipped..];
    let word = cursor.value.as_str();
    let Some(program) = words.first().map(|word| base(word)) else {
        let want = if is_set(word) {
            Want::Nothing
        } else if word.contains('/') || word.starts_with(['~', '.']) {
            Want::Path
        } else {
            Want::Program
        };
        return (want, 0);
    };
    let llama = program.starts_with("llama-")
        || program.starts_with("llama_")
        || words.iter().any(|word| word == "llama_cpp.server");
    let (option, at) = match word.split_once('=').filter(|(name, _)| name.starts_with('-')) {
        Some((option, _)) => (option, option.len() + 1),
        None => (words.last().map_or("", String::as_str), 0),
    };
    let place = (program.as_str(), words.get(1).map_or("", String::as_str), words.len());
    let want = match option {
        "-m" | "--model" | "-md" | "--model-draft" | "--mmproj" if llama => Want::Gguf,
        "-hf" | "-hfr" | "--hf-repo" | "--model" | "--model-path" | "--tokenizer" | "--speculative-model" => Want::Repo,
        _ if word.starts_with('-') && at == 0 => Want::Nothing,
        _ => match place {
            ("ollama", "run" | "pull" | "show" | "rm" | "stop" | "cp" | "push", 2) => Want::Ollama,
            ("vllm", "serve", 2) | ("hf" | "huggingface-cli", "download", 2) | ("lmdeploy", "serve", 3) => Want::Repo,
            _ => Want::Path,
        },
    };
    (want, at)
}

/// Returns what a command line offers at its cursor.
pub(in super::super) fn for_command(before: &str, known: &Known<'_>) -> Offers {
    let cursor = Cursor::read(before);
    let (want, at) = wanted(&cursor);
    let (option, typed) = cursor.value.split_at(at);
    let mut offers = matching(want, typed, known);
    // Whatever takes a model takes a path to one.
    if typed.contains('/') && matches!(want, Want::Gguf | Want::Repo) {
        let paths = matching(Want::Path, typed, known);
        offers.list.extend(paths.list);
        offers.missing = offers.missing.or(paths.missing);
    }
    for offer in &mut offers.list {
        let text = format!("{option}{}", offer.text);
        offer.text = if option.is_empty() { quote_path(&text) } else { quote(&text) };
    }
    offers.start = cursor.start;
    offers
}

/// Returns what a field offers that holds one value.
pub(in super::super) fn for_value(want: Want, typed: &str, known: &Known<'_>) -> Offers {
    matching(want, typed, known)
}

fn matching(want: Want, typed: &str, known: &Known<'_>) -> Offers {
    let empty = Catalog::default();
    let catalog = known.catalog.unwrap_or(&empty);
    let looking = known.catalog.is_none() && matches!(want, Want::Program | Want::Gguf | Want::Repo | Want::Ollama);
    let plain = |text: &String, aside: &str| Offer { text: text.clone(), shown: text.clone(), aside: aside.to_owned() };
    let all: Vec<(String, Offer)> = match want {
        Want::Nothing => Vec::new(),
        // All programs of a computer help nobody.
        Want::Program if typed.is_empty() => Vec::new(),
        Want::Program => catalog.programs.iter().map(|name| (name.clone(), plain(name, "program"))).collect(),
        Want::Repo => catalog.repos.iter().map(|name| (name.clone(), plain(name, "in the hub's cache"))).collect(),
        Want::Ollama => catalog.ollama.iter().map(|name| (name.clone(), plain(name, "Ollama"))).collect(),
        Want::Recipe => {
            let offer = |row: &RecipeRow| Offer {
                aside: format!("{} {} {}", row.kind.name(), glyph::DOT, row.command),
                ..plain(&row.name, "")
            };
            known.recipes.iter().map(|row| (row.name.clone(), offer(row))).collect()
        }
        Want::Gguf => catalog
            .gguf
            .iter()
            .filter_map(|file| {
                let path = file.path.to_str()?;
                let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
                let aside = format!("{} {} {dir}", size(file.bytes), glyph::DOT);
                Some((path.to_owned(), Offer { text: path.to_owned(), shown: name.to_owned(), aside }))
            })
            .collect(),
        Want::Path | Want::Directory => return paths(want, typed, known),
    };
    let mut fuzzy = Fuzzy::new(typed);
    let scored = all.into_iter().filter_map(|(text, offer)| Some((fuzzy.score(&text)?, offer)));
    let mut scored: Vec<_> = scored.collect();
    // Of those that match alike the shorter is nearer.
    scored
        .sort_by_key(|(score, offer)| (std::cmp::Reverse(*score), if typed.is_empty() { 0 } else { offer.text.len() }));
    let mut list: Vec<Offer> = scored.into_iter().take(KEPT).map(|(_, offer)| offer).collect();
    if list.first().is_some_and(|first| first.text == typed) {
        list.clear();
    }
    let cut = catalog.cut.as_ref().map(|why| format!("not everything was looked at: {why}"));
    let note = if looking { Some(format!("looking {}", glyph::MORE)) } else { cut.filter(|_| want != Want::Recipe) };
    Offers { list, note, ..Offers::default() }
}

fn paths(want: Want, typed: &str, known: &Known<'_>) -> Offers {
    if typed == "~" {
        let offer = Offer { text: "~/".into(), shown: "~/".into(), aside: "home".into() };
        return Offers { list: vec![offer], ..Offers::default() };
    }
    let (dir, name) = typed.rfind('/').map_or(("", typed), |at| typed.split_at(at + 1));
    // Nothing was typed: a listing would only be in the way.
    if typed.is_empty() {
        return Offers::default();
    }
    let Some(listing) = known.listing.filter(|listing| listing.dir == dir && listing.base == known.base) else {
        let look = Look::Dir { dir: dir.to_owned(), base: known.base.to_owned() };
        return Offers { missing: Some(look), ..Offers::default() };
    };
    let fits = |entry: &&String| {
        let shown = !entry.starts_with('.') || name.starts_with('.');
        entry.starts_with(name) && shown && (want == Want::Path || entry.ends_with('/')) && entry.as_str() != name
    };
    let offer = |entry: &String| Offer { text: format!("{dir}{entry}"), shown: entry.clone(), aside: String::new() };
    let list = listing.entries.iter().filter(fits).take(KEPT).map(offer).collect();
    let note = listing.cut.then(|| "there are more files than are listed".to_owned());
    Offers { list, note, ..Offers::default() }
}

fn size(bytes: u64) -> String {
    super::super::view::bytes(Some(bytes))
}

#[cfg(test)]
mod tests;
