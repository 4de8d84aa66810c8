//! What is printed without a session: recipes, trust, completions, the manual page, the schema.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rig::{Ran, Rig};

const SUBCOMMANDS: [&str; 21] = [
    "ls",
    "launch",
    "stop",
    "hold",
    "restart",
    "sweep",
    "tree",
    "why",
    "screen",
    "send",
    "logs",
    "wait",
    "attach",
    "extend",
    "orphans",
    "doctor",
    "recipes",
    "trust",
    "schema",
    "completions",
    "man",
];

fn check_ok(ran: &Ran) -> String {
    assert_eq!((ran.code, ran.error().as_str()), (Some(0), ""), "{ran:?}");
    ran.text()
}

#[test]
fn recipes_are_listed_with_their_origin() {
    let rig = Rig::new();
    let config = "[[recipe]]\nname = \"mine\"\nkind = \"serve\"\ncommand = [\"sleep\", \"1\"]\n\n[[recipe]]\nname = \"lost\"\nkind = \"agent\"\ncommand = [\"no-such-program\"]\n";
    rig.write("home/config/cookbook-tui/config.toml", config);
    let answer = rig.json(&["recipes"]);
    let row = |name: &str| -> &Value {
        answer["recipes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {answer}"))
    };
    assert_eq!((&row("mine")["source"], &row("mine")["available"]), (&"user".into(), &true.into()));
    assert_eq!((&row("mine")["kind"], &row("mine")["host"]), (&"serve".into(), &"tmux".into()));
    assert_eq!(row("lost")["available"], false);
    assert!(row("lost")["reason"].as_str().unwrap().contains("no-such-program"));
    // A shell always is.
    assert_eq!((&row("shell")["source"], &row("shell")["host"]), (&"built-in".into(), &"pty".into()));
    // What is shipped is offered only where its program is.
    assert!(!answer.to_string().contains("hf-download"), "{answer}");
    let text = check_ok(&rig.run(&["recipes"]));
    assert!(text.starts_with("NAME"), "{text}");
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("mine").contains("user") && line("mine").contains("sleep 1"), "{text}");
    assert!(line("lost").contains("no-such-program") && line("lost").contains("not found"), "{text}");
}

#[test]
fn trusting_names_the_file() {
    let rig = Rig::new();
    let none = rig.run(&["trust"]);
    assert_eq!(none.code, Some(4), "{none:?}");
    assert!(none.error().contains("cookbook.toml") && none.error().contains("name the file"), "{none:?}");
    let file = rig.write("work/cookbook.toml", "");
    assert_eq!(check_ok(&rig.run(&["trust"])), format!("{} is trusted as it is now\n", file.display()));
    let answer = rig.json(&["trust", "cookbook.toml"]);
    assert_eq!(answer["path"], file.display().to_string());
    assert_eq!(answer["sha256"].as_str().unwrap().len(), 64);
    let missing = rig.run(&["trust", "no.toml", "--json"]);
    assert_ne!(missing.code, Some(0), "{missing:?}");
    let told = missing.lines();
    assert_eq!(told.len(), 1, "{missing:?}");
    assert!(told[0]["error"]["message"].as_str().unwrap().contains("no.toml"), "{missing:?}");
}

/// Lets a shell read a script; `None` where it is not installed.
fn reads(shell: &str, options: &[&str], script: &str) -> Option<bool> {
    let mut child = Command::new(shell)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .ok()?;
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes()).unwrap();
    Some(child.wait().unwrap().success())
}

#[test]
fn completions_name_every_subcommand_and_are_scripts() {
    let rig = Rig::new();
    for (shell, check) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let script = check_ok(&rig.run(&["completions", shell]));
        for name in SUBCOMMANDS {
            assert!(script.contains(name), "{shell}: {name}");
        }
        for hidden in ["__front", "__warden", "__trampoline", "__log "] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
        match reads(shell, check, &script) {
            None => println!("skipped: {shell} is not installed"),
            Some(success) => assert!(success, "{shell} does not read its completions"),
        }
    }
    // Nothing is written by asking.
    assert!(!rig.state().exists());
}

#[test]
fn the_manual_page_and_the_help_name_every_subcommand() {
    let rig = Rig::new();
    let page = check_ok(&rig.run(&["man"]));
    let help = check_ok(&rig.run(&["--help"]));
    assert!(page.contains(".TH cookbook-tui") && page.contains(".SH SYNOPSIS"), "{page}");
    for name in SUBCOMMANDS {
        assert!(page.contains(&format!("cookbook\\-tui\\-{name}")), "{name}: {page}");
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
    }
    for option in ["config", "state-dir", "tmux-socket", "inspector", "log-level", "no-color", "batch", "fail-fast"] {
        assert!(page.contains(&option.replace('-', "\\-")) && help.contains(&format!("--{option}")), "{option}");
    }
    assert!(!page.contains("warden") && !help.contains("__"), "stages of a launch are nobody's business");
    assert_eq!(check_ok(&rig.run(&["--version"])), format!("cookbook-tui {}\n", env!("CARGO_PKG_VERSION")));
}
