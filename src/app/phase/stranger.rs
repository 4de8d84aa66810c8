//! Whether a process looks like a model server, by its arguments alone. That is a look, never a right: nobody is
//! signalled for it.

use super::server::{Server, base, recognise};
use super::wrapper::{SHELLS, WRAPPERS};

/// Servers beyond those whose ways are known: a program, script or module, and the name of the server.
const PROGRAMS: [(&str, &str); 10] = [
    ("aphrodite", "aphrodite"),
    ("aphrodite.endpoints", "aphrodite"),
    ("comfyui", "comfyui"),
    ("invokeai", "invokeai"),
    ("invokeai-web", "invokeai"),
    ("koboldcpp", "koboldcpp"),
    ("llama_cpp.server", "llama-cpp-python"),
    ("text-generation-router", "tgi"),
    ("text-generation-server", "tgi"),
    ("tritonserver", "triton"),
];

/// Servers that run as a script of a common name, told by the folder that it is in.
const FOLDERS: [(&str, &str); 6] = [
    ("stable-diffusion-webui-forge", "forge"),
    ("stable-diffusion-webui", "a1111"),
    ("fooocus", "fooocus"),
    ("sdnext", "sd.next"),
    ("comfyui", "comfyui"),
    ("invokeai", "invokeai"),
];
/// What those scripts are called.
const SCRIPTS: [&str; 5] = ["main.py", "launch.py", "webui.py", "entry_with_update.py", "app.py"];

/// Returns the name of the server that a process looks like. A shell or a wrapper is none: what it runs is.
pub fn looks_like(argv: &[String]) -> Option<&'static str> {
    let program = base(argv.first()?).to_lowercase();
    if SHELLS.contains(&program.as_str()) || WRAPPERS.contains(&program.as_str()) {
        return None;
    }
    // Workers name themselves in this way.
    if argv[0].to_lowercase().starts_with("vllm::") {
        return Some(Server::Vllm.name());
    }
    if argv[0].to_lowercase().starts_with("sglang::") {
        return Some(Server::Sglang.name());
    }
    if program == "ollama" && argv.get(1).is_some_and(|word| word == "runner") {
        return Some(Server::Ollama.name());
    }
    let known = recognise(argv, &|_| None, "").filter(|served| served.server != Server::Other);
    if let Some(served) = known {
        return Some(served.server.name());
    }
    if let Some((_, name)) = PROGRAMS.iter().find(|(known, _)| *known == program) {
        return Some(name);
    }
    let script = argv.get(1).filter(|_| program.starts_with("python"))?;
    if script == "-m" {
        let module = argv.get(2)?;
        let is_it =
            |known: &str| module.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        return PROGRAMS.iter().find(|(known, _)| is_it(known)).map(|(_, name)| *name);
    }
    let place = script.to_lowercase();
    let folder = |(known, name): &(&str, &'static str)| place.split('/').any(|part| part == *known).then_some(*name);
    if SCRIPTS.contains(&base(&place)) {
        return FOLDERS.iter().find_map(folder);
    }
    // A program of Python is a script to its interpreter.
    if script.starts_with('-') { None } else { looks_like(&argv[1..]) }
}

/// Returns the server whose ways a process has, by the look of it.
pub fn server_like(argv: &[String]) -> Server {
    let name = looks_like(argv);
    Server::ALL.into_iter().find(|server| Some(server.name()) == name).unwrap_or(Server::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_from_what_only_names_them() {
        let check = |line: &str, expected: Option<&str>| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(looks_like(&words), expected, "{line}");
        };
        check("/opt/llama-server -m x", Some("llama-server"));
        check("/usr/bin/python3 /venv/bin/vllm serve x", Some("vllm"));
        check("python -m vllm.entrypoints.openai.api_server", Some("vllm"));
        check("VLLM::EngineCore", Some("vllm"));
        check("sglang::scheduler", Some("sglang"));
        check("ollama serve", Some("ollama"));
        check("/usr/local/bin/ollama runner --model x", Some("ollama"));
        check("python3 -m aphrodite.endpoints.openai.api_server", Some("aphrodite"));
        check("tritonserver --model-repository=/m", Some("triton"));
        check("python /home/me/ComfyUI/main.py", Some("comfyui"));
        check("python3 /srv/stable-diffusion-webui/launch.py", Some("a1111"));
        check("python3 /srv/stable-diffusion-webui-forge/launch.py", Some("forge"));
        check("text-generation-launcher --model-id x", Some("tgi"));
        check("sh -c llama-server", None);
        check("nohup llama-server", None);
        check("grep llama-server log", None);
        check("vim llama-server.md", None);
        check("tail -f /logs/vllm serve", None);
        check("python3 /home/me/main.py", None);
        check("python3", None);
        check("ollama run x", None);
    }

    #[test]
    fn a_process_has_the_ways_of_its_server() {
        let check = |line: &str, expected: Server| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(server_like(&words), expected, "{line}");
        };
        check("/opt/llama-server -m x", Server::LlamaServer);
        check("/usr/bin/python3 /venv/bin/vllm serve x", Server::Vllm);
        check("text-generation-router", Server::Tgi);
        check("tritonserver", Server::Other);
        check("python3 -m http.server", Server::Other);
    }
}
