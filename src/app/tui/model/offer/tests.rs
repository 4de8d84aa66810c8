use super::*;
use crate::app::catalog::ModelFile;
use crate::app::tui::fixtures;

fn catalog() -> Catalog {
    let file = |path: &str| ModelFile { path: path.into(), bytes: 3 << 30 };
    Catalog {
        programs: ["llama-bench", "llama-server", "ls", "vllm"].map(str::to_owned).to_vec(),
        gguf: vec![file("/m/big one.gguf"), file("/m/tiny.gguf"), file("/other/tiny-2.gguf")],
        repos: ["Qwen/Qwen3-8B", "google/gemma-3-1b-it"].map(str::to_owned).to_vec(),
        ollama: vec!["llama3.2:1b".into(), "qwen3:8b".into()],
        cut: None,
    }
}

fn listing(dir: &str) -> Listing {
    let entries = [".hidden/", "models/", "models.txt", "my file", "other"].map(str::to_owned).to_vec();
    Listing { dir: dir.into(), base: String::new(), entries, cut: false }
}

#[track_caller]
fn check_want(before: &str, expected: Want) {
    assert_eq!(wanted(&Cursor::read(before)).0, expected, "{before}");
}

#[test]
fn each_program_takes_its_own() {
    check_want("", Want::Program);
    check_want("lla", Want::Program);
    check_want("A=1 lla", Want::Program);
    check_want("env A=1 exec lla", Want::Program);
    check_want("A=", Want::Nothing);
    check_want("./lla", Want::Path);
    check_want("llama-server ", Want::Path);
    check_want("llama-server --", Want::Nothing);
    check_want("llama-server -m ", Want::Gguf);
    check_want("/opt/llama-server --model=ti", Want::Gguf);
    check_want("CUDA_VISIBLE_DEVICES=0 llama-server --mmproj ", Want::Gguf);
    check_want("python3 -m llama_cpp.server --model ", Want::Gguf);
    check_want("python3 -m ", Want::Path);
    check_want("cd /m && llama-server -m t", Want::Gguf);
    check_want("llama-server -hf ", Want::Repo);
    check_want("vllm serve ", Want::Repo);
    check_want("vllm serve x ", Want::Path);
    check_want("vllm ser", Want::Path);
    check_want("python3 -m sglang.launch_server --model-path ", Want::Repo);
    check_want("mlx_lm.server --model=Q", Want::Repo);
    check_want("hf download ", Want::Repo);
    check_want("ollama run ", Want::Ollama);
    check_want("ollama pull ll", Want::Ollama);
    check_want("ollama run x ", Want::Path);
    check_want("ollama ", Want::Path);
}

#[track_caller]
fn check(before: &str, expected: &[&str]) {
    let (catalog, listing) = (catalog(), listing("./"));
    let known = Known { recipes: &[], catalog: Some(&catalog), listing: Some(&listing), base: "" };
    let offers = for_command(before, &known);
    let texts: Vec<&str> = offers.list.iter().map(|offer| offer.text.as_str()).collect();
    assert_eq!(texts, expected, "{before}");
}

#[test]
fn the_best_come_first_as_they_have_to_be_typed() {
    check("", &[]);
    check("lls", &["llama-server"]);
    check("llama", &["llama-bench", "llama-server"]);
    check("llama-server", &[]);
    check("llama-server -m ", &["'/m/big one.gguf'", "/m/tiny.gguf", "/other/tiny-2.gguf"]);
    check("llama-server -m tiny", &["/m/tiny.gguf", "/other/tiny-2.gguf"]);
    check("llama-server --model=big", &["'--model=/m/big one.gguf'"]);
    check("llama-server -m ./mo", &["./models/", "./models.txt"]);
    check("vllm serve qwen", &["Qwen/Qwen3-8B"]);
    check("ollama run q", &["qwen3:8b"]);
    check("cat ./m", &["./models/", "./models.txt", "'./my file'"]);
    check("cat ./.h", &["./.hidden/"]);
    check("cat ~", &["~/"]);
}

#[test]
fn what_is_not_known_is_looked_for() {
    let known = Known { recipes: &[], catalog: None, listing: None, base: "~/m" };
    let offers = for_command("cat src/m", &known);
    assert_eq!(offers.missing, Some(Look::Dir { dir: "src/".into(), base: "~/m".into() }));
    let offers = for_command("llama-server -m x", &known);
    assert_eq!((offers.list.len(), offers.note.as_deref(), offers.missing), (0, Some("looking …"), None));
    let cut = Catalog { cut: Some("the disks are slow".into()), ..catalog() };
    let known = Known { catalog: Some(&cut), ..known };
    let note = for_command("llama-server -m t", &known).note;
    assert_eq!(note.as_deref(), Some("not everything was looked at: the disks are slow"));
}

#[test]
fn a_directory_is_asked_for_by_itself() {
    let listing = listing("/srv/");
    let known = Known { recipes: &[], catalog: None, listing: Some(&listing), base: "" };
    let offers = for_value(Want::Directory, "/srv/m", &known);
    let texts: Vec<&str> = offers.list.iter().map(|offer| offer.text.as_str()).collect();
    assert_eq!(texts, ["/srv/models/"]);
    let recipes = fixtures::recipes();
    let known = Known { recipes: &recipes, ..known };
    let offers = for_value(Want::Recipe, "ti", &known);
    assert_eq!(offers.list[0].text, "tiny");
    assert_eq!(for_value(Want::Recipe, "tiny", &known).list, []);
    assert_eq!(for_value(Want::Recipe, "", &known).list.len(), recipes.len());
}
