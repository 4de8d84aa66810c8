//! What kind of work a command most likely is, by the program that it names: for a person who has not said it.

use super::container::container;
use super::server::{Server, base, recognise};
use super::words::commands;
use super::wrapper::WRAPPERS;
use crate::app::contract::Kind;

/// Coding agents, as the built-in recipes have them.
const AGENTS: [&str; 5] = ["claude", "codex", "gemini", "opencode", "aider"];
/// Programs that fetch models, with what they are told.
const FETCHERS: [[&str; 2]; 3] = [["hf", "download"], ["huggingface-cli", "download"], ["ollama", "pull"]];

/// Returns the kind of a line for a shell. A port alone makes no server: `ssh -p 22` has one, too.
pub fn kind_of(line: &str) -> Kind {
    let shell = ["sh", "-c", line].map(str::to_owned);
    let serves =
        |words: &[String]| recognise(words, &|_| None, "").is_some_and(|served| served.server != Server::Other);
    if serves(&shell) || container(&shell).is_some_and(|container| !container.ports.is_empty()) {
        return Kind::Serve;
    }
    let kinds = commands(line).into_iter().filter_map(|words| {
        let mut words = words.iter().map(|word| base(word));
        let known = |word: &&str| AGENTS.contains(word) || FETCHERS.iter().any(|[program, _]| program == word);
        let first = words.find(|word| !word.contains('='))?;
        // What a wrapper is told before its program is its own affair.
        let program = if WRAPPERS.contains(&first) { words.find(known)? } else { first };
        let told = words.next().unwrap_or_default();
        if FETCHERS.contains(&[program, told]) {
            return Some(Kind::Download);
        }
        AGENTS.contains(&program).then_some(Kind::Agent)
    });
    kinds.reduce(|_, last| last).unwrap_or(Kind::Shell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_tell_the_kind() {
        let check = |line: &str, expected: Kind| assert_eq!(kind_of(line), expected, "{line}");
        for line in [
            "llama-server -m a.gguf",
            "/opt/llama/llama-server",
            "CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B",
            "cd /srv && python3 -m vllm.entrypoints.openai.api_server --model x",
            "ollama serve",
            "docker run -p 8000:8000 vllm/vllm-openai",
        ] {
            check(line, Kind::Serve);
        }
        for line in ["claude", "claude --continue", "~/bin/codex", "cd x; aider", "nice -n 5 opencode"] {
            check(line, Kind::Agent);
        }
        for line in ["hf download Qwen/Qwen3-8B", "HF_TOKEN=x huggingface-cli download m", "ollama pull llama3.2"] {
            check(line, Kind::Download);
        }
        for line in ["", "top -d1", "ssh -p 22 host", "ollama run m", "echo llama-server", "docker ps", "vim claude.md"]
        {
            check(line, Kind::Shell);
        }
    }

    #[test]
    fn every_agent_and_server_among_the_built_in_recipes_is_known() {
        let recipes: toml::Table = include_str!("../../../assets/recipes.toml").parse().expect("recipes");
        let list = recipes["recipe"].as_array().expect("a list");
        // The demo is a script that plays one.
        for recipe in list.iter().filter(|recipe| recipe["name"].as_str() != Some("demo")) {
            let command = &recipe["command"];
            let words =
                command.as_array().map(|words| words.iter().filter_map(toml::Value::as_str).collect::<Vec<_>>());
            let line = words.map_or_else(|| command.as_str().unwrap_or_default().to_owned(), |words| words.join(" "));
            assert_eq!(Some(kind_of(&line).name()), recipe["kind"].as_str(), "{line}");
        }
    }
}
