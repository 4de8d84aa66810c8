//! Cookbook's presets as recipes. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::state::Preset;
use crate::app::config::{Recipe, Source, are_gpus};
use crate::app::contract::{CommandLine, Kind};
use crate::text;

/// What a command that serves a model begins with, as Cookbook has it.
const SERVERS: [&str; 11] = [
    "vllm",
    "llama-server",
    "llama_server",
    "llama.cpp",
    "ollama",
    "python",
    "python3",
    "sglang",
    "lmdeploy",
    "node",
    "npx",
];

/// Adds presets to the recipes. A name that is taken stays with the recipe that has it.
pub fn offer(recipes: &mut Vec<Recipe>, presets: Vec<Preset>, home: Option<&Path>) {
    for preset in presets {
        let is_free = |name: &String| recipes.iter().all(|recipe| recipe.name != *name);
        let numbered = (2..).map(|number| format!("{} (Cookbook {number})", preset.name));
        let mut names = [preset.name.clone(), format!("{} (Cookbook)", preset.name)].into_iter().chain(numbered);
        if let Some(name) = names.find(is_free) {
            recipes.push(recipe(name, &preset, home));
        }
    }
}

fn recipe(name: String, preset: &Preset, home: Option<&Path>) -> Recipe {
    let surroundings = Surroundings::of(preset, home);
    let refused = if preset.remote.is_empty() {
        check_command(&preset.command).err().map(str::to_owned).or(surroundings.refused)
    } else {
        Some(format!("it is for {}: start it there", text::escape(&preset.remote)))
    };
    Recipe {
        name,
        command: CommandLine::Line(surroundings.prefix + &preset.command),
        env: surroundings.env,
        gpus: surroundings.gpus,
        venv: surroundings.venv,
        program_found: true,
        refused,
        ..Recipe::bare(Kind::Serve, Source::Cookbook)
    }
}

/// What a preset says of the place that its command is run in.
#[derive(Debug, Default, PartialEq)]
struct Surroundings {
    venv: Option<PathBuf>,
    gpus: Option<String>,
    env: BTreeMap<String, String>,
    /// Assignments that only a shell can make.
    prefix: String,
    refused: Option<String>,
}

impl Surroundings {
    fn of(preset: &Preset, home: Option<&Path>) -> Self {
        let mut all = Self::default();
        let named = preset.venv.trim_end_matches('/');
        let venv = named.strip_suffix("/bin/activate").unwrap_or(named);
        let under_home = venv.strip_prefix("~/").zip(home).map(|(rest, home)| home.join(rest));
        if venv.starts_with('/') || under_home.is_some() {
            all.venv = Some(under_home.unwrap_or_else(|| venv.into()));
        } else if !venv.is_empty() {
            all.refused = Some(format!("its environment {} is no absolute path", text::escape(venv)));
        }
        let gpus: String = preset.gpus.chars().filter(|c| !c.is_whitespace()).collect();
        if are_gpus(&gpus) {
            all.gpus = Some(gpus);
        } else if !gpus.is_empty() {
            all.refused = Some(format!("its gpus {} are no device numbers", text::escape(&gpus)));
        }
        for word in preset.env.split_whitespace() {
            let pair = word.split_once('=').filter(|(name, _)| is_variable(name));
            match pair {
                // Cookbook writes it before the command, where a shell reads it.
                Some((_, value))
                    if value.contains(['$', '\'', '"', '\\', '~', '`', ';', '&', '|', '<', '>', '(', ')']) =>
                {
                    all.prefix.extend([word, " "]);
                }
                Some((name, value)) => drop(all.env.insert(name.to_owned(), value.to_owned())),
                None => {
                    all.refused = Some(format!("its environment holds {}, which is no assignment", text::escape(word)));
                }
            }
        }
        if preset.command.starts_with(&all.prefix) || all.prefix.contains('`') {
            if all.prefix.contains('`') {
                all.refused = Some("its environment holds a back-tick, which Cookbook refuses, too".into());
            }
            all.prefix.clear();
        }
        all
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Checks what Cookbook checks before it runs a command.
fn check_command(command: &str) -> Result<(), &'static str> {
    if command.contains(['`', '\r', '\n']) {
        return Err("its command holds a back-tick or a line break, which Cookbook refuses, too");
    }
    let is_variable = |word: &&str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let program = command.split_whitespace().find(|word| !is_variable(word)).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    if SERVERS.contains(&name) {
        Ok(())
    } else {
        Err("its command does not begin with a model server that Cookbook knows")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(name: &str, command: &str, remote: &str) -> Preset {
        Preset { name: name.into(), command: command.into(), remote: remote.into(), ..Preset::default() }
    }

    #[test]
    fn presets_are_recipes_and_take_nobodys_name() {
        let mut recipes = vec![recipe("a".into(), &preset("a", "vllm serve x", ""), None)];
        let presets = ["a", "a", "b"].map(|name| preset(name, "ollama serve", ""));
        offer(&mut recipes, presets.to_vec(), None);
        let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
        assert_eq!(names, ["a", "a (Cookbook)", "a (Cookbook 2)", "b"]);
        let row = recipes[3].row();
        assert_eq!((row.kind, row.source.as_str(), row.available), (Kind::Serve, "cookbook", true));
    }

    #[test]
    fn only_what_cookbook_would_run_here_is_offered() {
        for (command, remote, available) in [
            ("vllm serve x --port 8000", "", true),
            ("CUDA_VISIBLE_DEVICES=0 HF_TOKEN=hf_abcdefghijklmnop /opt/v/bin/python -m vllm", "", true),
            ("OLLAMA_HOST=0.0.0.0:1 ollama serve", "", true),
            ("vllm serve x", "gpu1", false),
            ("rm -rf /", "", false),
            ("A=1", "", false),
            ("vllm serve `id`", "", false),
            ("vllm serve x\nrm y", "", false),
        ] {
            let row = recipe("n".into(), &preset("n", command, remote), None).row();
            assert_eq!((row.available, row.reason.is_none()), (available, available), "{command}");
            assert!(!row.command.contains("hf_abc"), "{}", row.command);
        }
    }

    #[test]
    fn what_stands_around_the_command_is_applied() {
        let of = |venv: &str, gpus: &str, env: &str, command: &str| {
            let [venv, gpus, env] = [venv, gpus, env].map(str::to_owned);
            let preset = Preset { venv, gpus, env, ..preset("n", command, "") };
            recipe("n".into(), &preset, Some(Path::new("/h")))
        };
        let check = |venv: &str, expected: Option<&str>| {
            let recipe = of(venv, "", "", "vllm serve x");
            assert_eq!(recipe.venv.as_deref(), expected.map(Path::new), "{venv}");
            assert_eq!(recipe.refused.is_some(), expected.is_none() && !venv.is_empty(), "{venv}");
        };
        check("", None);
        check("/opt/v", Some("/opt/v"));
        check("/opt/v/", Some("/opt/v"));
        check("/opt/v/bin/activate", Some("/opt/v"));
        check("~/v", Some("/h/v"));
        check("my-conda", None);
        check("../v", None);
        for (gpus, expected) in [("0", Some("0")), ("0, 1", Some("0,1")), ("", None), ("all", None)] {
            let recipe = of("", gpus, "", "vllm serve x");
            assert_eq!((recipe.gpus.as_deref(), recipe.refused.is_some()), (expected, gpus == "all"), "{gpus}");
        }
        let recipe = of("", "", "NCCL_P2P_DISABLE=1  A= CUDACXX=$VIRTUAL_ENV/nvcc", "vllm serve x");
        let env = [("A", ""), ("NCCL_P2P_DISABLE", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((recipe.env, recipe.refused), (BTreeMap::from(env), None));
        assert_eq!(recipe.command, CommandLine::Line("CUDACXX=$VIRTUAL_ENV/nvcc vllm serve x".into()));
        // Cookbook has put it there already.
        let recipe = of("", "", "B=$A", "B=$A vllm serve x");
        assert_eq!(recipe.command, CommandLine::Line("B=$A vllm serve x".into()));
        for env in ["rm -rf", "2A=1", "A=`id`"] {
            assert!(of("", "", env, "vllm serve x").refused.is_some(), "{env}");
        }
    }
}
