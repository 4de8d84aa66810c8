//! What is on this computer that a launch can name: programs, model files, repositories of the hub, models of Ollama.
//!
//! Pure data, and how names on disk are read; `runtime/models.rs` looks.

use std::path::{Path, PathBuf};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Names of programs on `PATH`, sorted.
    pub programs: Vec<String>,
    /// GGUF files; of a model in several parts the first one.
    pub gguf: Vec<ModelFile>,
    /// Repositories in the cache of the Hugging Face hub, for example `Qwen/Qwen3-8B`.
    pub repos: Vec<String>,
    /// Models of Ollama, for example `llama3.2:1b`.
    pub ollama: Vec<String>,
    /// Why there may be more, where the look was cut short.
    pub cut: Option<String>,
}

/// A model file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
}

/// The entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The directory as it was typed, with its last slash; empty is the working directory.
    pub dir: String,
    /// The working directory as it was typed.
    pub base: String,
    /// Names, sorted; those of directories end with a slash.
    pub entries: Vec<String>,
    /// There are more.
    pub cut: bool,
}

/// What is to be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// A [`Catalog`].
    Catalog,
    /// A [`Listing`].
    Dir {
        /// As it was typed.
        dir: String,
        /// The working directory, as it was typed.
        base: String,
    },
}

/// Where models are kept, as the environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// Directories in which GGUF files lie about.
    pub gguf: Vec<PathBuf>,
    /// The cache of the hub.
    pub hub: Option<PathBuf>,
    /// The manifests of Ollama.
    pub ollama: Option<PathBuf>,
}

impl Roots {
    /// Returns the usual places; `variable` looks up an environment variable.
    pub fn of(home: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.as_os_str().is_empty());
        let at_home = |path: &str| home.map(|home| home.join(path));
        let cache = set("XDG_CACHE_HOME").or_else(|| at_home(".cache"));
        let llama = set("LLAMA_CACHE").or_else(|| cache.as_ref().map(|cache| cache.join("llama.cpp")));
        let hub = set("HF_HUB_CACHE").or_else(|| {
            let hf = set("HF_HOME").or_else(|| cache.as_ref().map(|cache| cache.join("huggingface")));
            hf.map(|hf| hf.join("hub"))
        });
        let ollama = set("OLLAMA_MODELS").or_else(|| at_home(".ollama/models"));
        Self {
            gguf: at_home("models").into_iter().chain(llama).collect(),
            hub,
            ollama: ollama.map(|models| models.join("manifests")),
        }
    }
}

/// Returns the repository that a directory of the hub's cache holds: `models--org--name` is `org/name`.
pub fn repo_of(dir: &str) -> Option<String> {
    let rest = dir.strip_prefix("models--").filter(|rest| !rest.is_empty())?;
    Some(rest.replacen("--", "/", 1))
}

/// Returns the name of a model by the place of its manifest: `HOST/NAMESPACE/NAME/TAG`.
pub fn ollama_name(host: &str, namespace: &str, name: &str, tag: &str) -> String {
    match (host, namespace) {
        ("registry.ollama.ai", "library") => format!("{name}:{tag}"),
        ("registry.ollama.ai", namespace) => format!("{namespace}/{name}:{tag}"),
        (host, namespace) => format!("{host}/{namespace}/{name}:{tag}"),
    }
}

/// Tells whether a file is a GGUF file by its name, and no later part of one: `x-00002-of-00003.gguf`.
pub fn is_gguf(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".gguf").or_else(|| name.strip_suffix(".GGUF")) else { return false };
    let part = stem.rsplit_once("-of-").and_then(|(head, count)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (_, part) = head.rsplit_once('-')?;
        (digits(part) && digits(count)).then(|| part.parse::<u32>().ok())?
    });
    part.is_none_or(|part| part == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_disk_are_read() {
        assert_eq!(repo_of("models--Qwen--Qwen3-8B").as_deref(), Some("Qwen/Qwen3-8B"));
        assert_eq!(repo_of("models--gpt2").as_deref(), Some("gpt2"));
        assert_eq!(repo_of("models--a--b--c").as_deref(), Some("a/b--c"));
        assert_eq!((repo_of("datasets--a--b"), repo_of("models--"), repo_of(".locks")), (None, None, None));
        assert_eq!(ollama_name("registry.ollama.ai", "library", "llama3.2", "1b"), "llama3.2:1b");
        assert_eq!(ollama_name("registry.ollama.ai", "me", "x", "latest"), "me/x:latest");
        assert_eq!(ollama_name("hf.co", "org", "x", "Q4"), "hf.co/org/x:Q4");
    }

    #[test]
    fn only_the_first_part_of_a_model_is_offered() {
        for (name, expected) in [
            ("tiny.gguf", true),
            ("TINY.GGUF", true),
            ("x-00001-of-00003.gguf", true),
            ("x-00002-of-00003.gguf", false),
            ("one-of-many.gguf", true),
            ("x.gguf.part", false),
            (".gguf", true),
        ] {
            assert_eq!(is_gguf(name), expected, "{name}");
        }
    }

    #[test]
    fn the_environment_says_where_models_are() {
        let roots = |set: &[(&str, &str)]| {
            Roots::of(Some(Path::new("/h")), |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        let usual = roots(&[("HF_HOME", "")]);
        assert_eq!(usual.gguf, [PathBuf::from("/h/models"), "/h/.cache/llama.cpp".into()]);
        assert_eq!(usual.hub, Some("/h/.cache/huggingface/hub".into()));
        assert_eq!(usual.ollama, Some("/h/.ollama/models/manifests".into()));
        let own = roots(&[("LLAMA_CACHE", "/l"), ("HF_HOME", "/hf"), ("OLLAMA_MODELS", "/o")]);
        assert_eq!(
            (own.gguf[1].as_path(), own.hub, own.ollama),
            (Path::new("/l"), Some("/hf/hub".into()), Some("/o/manifests".into()))
        );
        assert_eq!(roots(&[("HF_HUB_CACHE", "/x"), ("HF_HOME", "/hf")]).hub, Some("/x".into()));
        assert_eq!(roots(&[("XDG_CACHE_HOME", "/c")]).hub, Some("/c/huggingface/hub".into()));
        assert_eq!(Roots::of(None, |_| None), Roots::default());
    }
}
