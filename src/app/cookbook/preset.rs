//! Cookbook's presets as recipes. Pure.

use std::collections::BTreeMap;

use super::state::Preset;
use crate::app::config::{Escapees, Recipe, Restart, Source, Stop};
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
pub fn offer(recipes: &mut Vec<Recipe>, presets: Vec<Preset>) {
    for preset in presets {
        let is_free = |name: &String| recipes.iter().all(|recipe| recipe.name != *name);
        let numbered = (2..).map(|number| format!("{} (Cookbook {number})", preset.name));
        let mut names = [preset.name.clone(), format!("{} (Cookbook)", preset.name)].into_iter().chain(numbered);
        if let Some(name) = names.find(is_free) {
            recipes.push(recipe(name, preset));
        }
    }
}

fn recipe(name: String, preset: Preset) -> Recipe {
    let refused = if preset.remote.is_empty() {
        check_command(&preset.command).err().map(str::to_owned)
    } else {
        Some(format!("it is for {}: start it there", text::escape(&preset.remote)))
    };
    Recipe {
        name,
        kind: Kind::Serve,
        host: None,
        command: CommandLine::Line(preset.command),
        cwd: None,
        env: BTreeMap::new(),
        gpus: None,
        venv: None,
        needs: Vec::new(),
        exclusive: None,
        ready: None,
        stop: Stop::default(),
        ceiling_s: None,
        restart: Restart::No,
        escapees: Escapees::usual(Kind::Serve),
        autostart: false,
        source: Source::Cookbook,
        program_found: true,
        refused,
    }
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
        Preset { name: name.into(), command: command.into(), remote: remote.into() }
    }

    #[test]
    fn presets_are_recipes_and_take_nobodys_name() {
        let mut recipes = vec![recipe("a".into(), preset("a", "vllm serve x", ""))];
        let presets = ["a", "a", "b"].map(|name| preset(name, "ollama serve", ""));
        offer(&mut recipes, presets.to_vec());
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
            let row = recipe("n".into(), preset("n", command, remote)).row();
            assert_eq!((row.available, row.reason.is_none()), (available, available), "{command}");
            assert!(!row.command.contains("hf_abc"), "{}", row.command);
        }
    }
}
