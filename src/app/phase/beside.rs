//! The files that llama-server is given beside its model, and what of them it cannot take.

use super::clue::Cause;
use super::diagnose::File;
use super::gguf::{Fault, Gguf};
use super::suggest::{Suggestion, with_option};
use crate::app::contract::CommandLine;

/// What a file beside the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A `LoRA` adapter.
    Adapter,
    /// A draft model.
    Draft,
    /// A multimodal projector.
    Projector,
}

/// A file beside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The option that names it.
    pub option: String,
    /// Its name there.
    pub name: String,
    /// What it is to be.
    pub part: Part,
}

impl Part {
    /// Tells whether a file with this header can be what it is to be.
    ///
    /// # Errors
    /// With what is wrong (`llama_adapter_lora_init` in `src/llama-adapter.cpp`, `tools/mtmd/clip.cpp`).
    pub fn judge(self, gguf: &Gguf) -> Result<(), Fault> {
        match self {
            Self::Adapter if gguf.kind.as_deref() != Some("adapter") => Err(Fault::OtherKind("no LoRA adapter")),
            Self::Projector if gguf.architecture.as_deref().is_some_and(|name| name != "clip") => {
                Err(Fault::OtherKind("no multimodal projector"))
            }
            Self::Draft if gguf.kind.as_deref() == Some("adapter") => Err(Fault::OtherKind("an adapter, no model")),
            Self::Adapter | Self::Draft | Self::Projector => Ok(()),
        }
    }
}

/// Returns the files that are named in the words of a command of llama-server.
pub fn beside(words: &[String]) -> Vec<Beside> {
    let mut all = Vec::new();
    for pair in words.windows(2) {
        let [option, value] = pair else { continue };
        let (part, is_list) = match option.replace('_', "-").as_str() {
            "--lora" | "--lora-scaled" => (Part::Adapter, true),
            "-md" | "--model-draft" | "--spec-draft-model" => (Part::Draft, false),
            "-mm" | "--mmproj" => (Part::Projector, false),
            _ => continue,
        };
        let names = if is_list { value.split(',').collect() } else { vec![value.as_str()] };
        all.extend(names.into_iter().map(|name| {
            // FNAME:SCALE
            let scaled = name.rsplit_once(':').filter(|(_, scale)| is_list && scale.parse::<f64>().is_ok());
            let name = scaled.map_or(name, |(name, _)| name).to_owned();
            Beside { option: option.clone(), name, part }
        }));
    }
    all
}

/// Says what is wrong with a file beside the model; `None` where nothing is.
pub(super) fn fault(command: &CommandLine, beside: &Beside, file: &File) -> Option<(Cause, String, Suggestion)> {
    let Beside { option, name, .. } = beside;
    let broken = |why: &str| format!("the file {name:?} of {option} is broken: {why}");
    Some(match file {
        File::Unknown | File::Whole(_) => return None,
        File::Missing(near) => {
            let detail = format!("the file {name:?} of {option} is not there");
            let changed = |near: &String| {
                Suggestion::with(format!("{near:?} is there"), with_option(command, &[option.as_str()], near))
            };
            let way_out = near.as_ref().map(changed);
            (Cause::MissingFile, detail, way_out.unwrap_or_else(|| Suggestion::words("name a file that is there")))
        }
        File::Unreadable(why) => (Cause::BadFile, broken(why), Suggestion::words("name a file that can be read")),
        File::Faulty(Fault::OtherKind(what)) => {
            let detail = format!("the file {name:?} of {option} is {what}");
            (Cause::BadFile, detail, Suggestion::words("name another file"))
        }
        File::Faulty(fault) => (Cause::BadFile, broken(&fault.to_string()), Suggestion::words("fetch the file again")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_the_model_are_found() {
        let check = |line: &str, expected: &[(&str, &str, Part)]| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let all = beside(&words);
            let found: Vec<_> = all.iter().map(|one| (one.option.as_str(), one.name.as_str(), one.part)).collect();
            assert_eq!(found, expected, "{line}");
        };
        check("llama-server -m a.gguf --port 1", &[]);
        check("llama-server -m a.gguf --lora", &[]);
        check("llama-server --lora l.gguf -m a", &[("--lora", "l.gguf", Part::Adapter)]);
        check(
            "llama-server --lora l.gguf,m.gguf -md d.gguf",
            &[("--lora", "l.gguf", Part::Adapter), ("--lora", "m.gguf", Part::Adapter), ("-md", "d.gguf", Part::Draft)],
        );
        check(
            "llama-server --lora-scaled l.gguf:0.5,C:/m.gguf --mmproj a,b:1",
            &[
                ("--lora-scaled", "l.gguf", Part::Adapter),
                ("--lora-scaled", "C:/m.gguf", Part::Adapter),
                ("--mmproj", "a,b:1", Part::Projector),
            ],
        );
        check("llama-server --spec_draft_model d", &[("--spec_draft_model", "d", Part::Draft)]);
    }

    #[test]
    fn a_header_says_what_a_file_is() {
        let gguf = |kind: Option<&str>, architecture: &str| Gguf {
            architecture: Some(architecture.to_owned()),
            kind: kind.map(str::to_owned),
            least_bytes: 0,
        };
        for (part, kind, architecture, good) in [
            (Part::Adapter, Some("adapter"), "llama", true),
            (Part::Adapter, Some("model"), "llama", false),
            (Part::Adapter, None, "llama", false),
            (Part::Draft, None, "llama", true),
            (Part::Draft, Some("adapter"), "llama", false),
            (Part::Projector, Some("mmproj"), "clip", true),
            (Part::Projector, None, "llama", false),
        ] {
            assert_eq!(part.judge(&gguf(kind, architecture)).is_ok(), good, "{part:?} {kind:?} {architecture}");
        }
    }
}
