use super::*;
use crate::app::tui::fixtures;

fn recipes() -> Vec<RecipeRow> {
    fixtures::rich_recipes()
}

fn of_recipe(name: &str) -> Form {
    Form::of(&LaunchRequest { recipe: Some(name.into()), ..LaunchRequest::default() }, &recipes())
}

fn type_into(form: &mut Form, slot: Slot, text: &str) {
    form.at = slot;
    form.edit(|field| *field = Field::of(text), &recipes());
}

fn request(form: &Form) -> LaunchRequest {
    let request = form.request((24, 80)).unwrap_or_else(|fault| panic!("{fault:?}"));
    assert_eq!((request.rows, request.cols), (Some(24), Some(80)));
    LaunchRequest { rows: None, cols: None, ..request }
}

#[test]
fn what_the_recipe_gives_is_not_asked_for_again() {
    let form = of_recipe("tiny");
    assert_eq!(form.command.text(), "llama-server -m tiny.gguf --port 8080");
    assert_eq!((form.cwd.text(), form.gpus.text(), form.venv.text()), ("/srv/models", "0,1", "/opt/venv"));
    assert_eq!(request(&form), LaunchRequest { recipe: Some("tiny".into()), ..LaunchRequest::default() });
}

#[test]
fn what_is_changed_is_asked_for() {
    let check = |slot, text: &str, expected: LaunchRequest| {
        let mut form = of_recipe("tiny");
        type_into(&mut form, slot, text);
        let recipe = expected.command.is_none().then(|| "tiny".to_owned());
        let like = expected.command.is_some().then(|| "tiny".to_owned());
        assert_eq!(request(&form), LaunchRequest { recipe, like, ..expected }, "{slot:?} {text}");
    };
    let none = LaunchRequest::default;
    let argv = |words: &[&str]| Some(CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect()));
    let env = |name: &str, value: &str| Some(BTreeMap::from([(name.to_owned(), value.to_owned())]));
    check(
        Slot::Command,
        "llama-server -m 'a b'",
        LaunchRequest { command: argv(&["llama-server", "-m", "a b"]), ..none() },
    );
    // Where a shell is needed, it becomes a line for one.
    let line = Some(CommandLine::Line("cd /x && llama-server".into()));
    check(Slot::Command, "cd /x && llama-server", LaunchRequest { command: line, ..none() });
    check(Slot::Command, "", none());
    check(Slot::Cwd, "/x", LaunchRequest { cwd: Some("/x".into()), ..none() });
    check(Slot::Gpus, "", LaunchRequest { gpus: Some(String::new()), ..none() });
    check(Slot::Venv, "~/v", LaunchRequest { venv: Some("~/v".into()), ..none() });
    check(Slot::Name, " other ", LaunchRequest { name: Some("other".into()), ..none() });
    check(Slot::Env(0), "A = b=c ", LaunchRequest { env: env("A", " b=c "), ..none() });
}

#[test]
fn a_command_alone_is_a_line_of_a_shell_session() {
    let mut form = Form::new();
    type_into(&mut form, Slot::Command, "top -d1");
    let command = Some(CommandLine::Line("top -d1".into()));
    let kind = Some(Kind::Shell);
    assert_eq!(request(&form), LaunchRequest { command, kind, ..LaunchRequest::default() });
    // The kind follows the program, until somebody chooses one.
    type_into(&mut form, Slot::Command, "llama-server -m a.gguf");
    assert_eq!((form.kind(), request(&form).kind), (Kind::Serve, Some(Kind::Serve)));
    form.at = Slot::Kind;
    assert!(form.turn(1) && form.turn(-1));
    type_into(&mut form, Slot::Command, "claude");
    assert_eq!(request(&form).kind, Some(Kind::Serve));
    (form.kind, form.at) = (Some(Kind::Shell), Slot::Kind);
    assert!(form.turn(-1));
    assert_eq!(request(&form).kind, Some(Kind::Agent));
    form.at = Slot::Host;
    assert!(form.turn(1) && form.turn(1));
    assert_eq!(request(&form).host, Some(HostKind::Tmux));
    type_into(&mut form, Slot::Env(0), "no variable");
    assert_eq!(form.request((1, 2)).map_err(|fault| fault.slot), Err(Slot::Env(0)));
}

#[test]
fn another_recipe_takes_what_was_not_changed_by_hand() {
    let mut form = of_recipe("tiny");
    type_into(&mut form, Slot::Cwd, "/mine");
    type_into(&mut form, Slot::Recipe, "claude");
    assert_eq!((form.command.text(), form.cwd.text(), form.gpus.text()), ("claude", "/mine", ""));
    type_into(&mut form, Slot::Recipe, "none such");
    assert_eq!((form.base.is_none(), form.command.text()), (true, ""));
    // It is the launch that says that there is none.
    assert_eq!(request(&form).recipe.as_deref(), Some("none such"));
}

#[test]
fn a_draft_comes_back_as_it_was() {
    let draft = fixtures::draft();
    let form = Form::of_draft(&draft, "qwen-coder-32b".into(), None, &recipes());
    assert_eq!(form.origin.as_ref().map(|origin| origin.session.as_str()), Some("serve-1a2b3c4d"));
    assert_eq!((form.at, form.notes.len()), (Slot::Command, 1));
    assert_eq!(request(&form), draft.launch);
    let recipe = Draft { launch: LaunchRequest { recipe: Some("tiny".into()), ..LaunchRequest::default() }, ..draft };
    let form = Form::of_draft(&recipe, "tiny".into(), None, &recipes());
    assert_eq!(request(&form), recipe.launch);
}

#[test]
fn a_suggestion_stands_for_the_command_or_prepares_it() {
    let command = |words: &[&str]| Some(CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect()));
    let draft = Draft {
        launch: LaunchRequest { recipe: Some("tiny".into()), ..fixtures::draft().launch },
        ..fixtures::draft()
    };
    let draft = Draft { launch: LaunchRequest { command: None, ..draft.launch }, ..draft };
    let other = Suggestion {
        text: "take another port".into(),
        command: command(&["llama-server", "--port", "8081"]),
        first: false,
    };
    let form = Form::of_draft(&draft, "tiny".into(), Some(&other), &recipes());
    let asked = request(&form);
    assert_eq!((asked.like.as_deref(), asked.command), (Some("tiny"), other.command.clone()));
    assert!(form.notes[0].contains("another port") && form.origin.is_some());
    let install = Suggestion { text: "install it".into(), command: command(&["python3", "-m", "pip"]), first: true };
    let form = Form::of_draft(&draft, "tiny".into(), Some(&install), &recipes());
    let asked = request(&form);
    assert_eq!((asked.base(), asked.name.as_deref(), &asked.command), (None, None, &install.command));
    assert_eq!((asked.cwd.as_deref(), asked.kind, form.origin), (Some("/srv/models"), Some(Kind::Shell), None));
}

#[test]
fn variables_grow_and_a_paste_becomes_many() {
    let mut form = Form::new();
    assert_eq!(form.env.len(), 1);
    type_into(&mut form, Slot::Env(0), "A=1");
    assert_eq!(form.env.len(), 2);
    form.at = Slot::Env(1);
    form.paste("B=2\r\nC=3\r\n", &recipes());
    let texts: Vec<&str> = form.env.iter().map(Field::text).collect();
    assert_eq!(texts, ["A=1", "B=2", "C=3", ""]);
    form.at = Slot::Command;
    form.paste("a\rb\r", &recipes());
    assert_eq!(form.command.text(), "a\nb");
}

#[test]
fn what_is_offered_is_taken_where_the_word_is() {
    let (recipes, catalog) = (recipes(), fixtures::catalog());
    let mut form = Form::new();
    type_into(&mut form, Slot::Command, "llama-server -m tin");
    form.offers = form.look(&recipes, Some(&catalog), None);
    assert!(form.take(&recipes));
    assert_eq!(form.command.text(), "llama-server -m /srv/models/tiny.gguf ");
    type_into(&mut form, Slot::Recipe, "cla");
    form.offers = form.look(&recipes, Some(&catalog), None);
    form.choose(1);
    assert!(form.take(&recipes));
    assert_eq!((form.recipe.text(), form.base.as_ref().map(|base| base.name.as_str())), ("claude", Some("claude")));
    form.offers = form.look(&recipes, Some(&catalog), None);
    assert!(!form.take(&recipes), "there is nothing more to take");
}

#[test]
fn an_error_is_shown_at_its_line_and_goes_with_the_next_key() {
    use crate::app::error::ErrorKind;
    let mut form = of_recipe("tiny");
    form.fail(&AppError::new(ErrorKind::Usage, "cwd: /x is not a directory").at(LaunchField::Cwd));
    assert_eq!((form.at, form.fault.as_ref().map(|fault| fault.slot)), (Slot::Cwd, Some(Slot::Cwd)));
    type_into(&mut form, Slot::Cwd, "/y");
    assert_eq!(form.fault, None);
    form.fail(&AppError::new(ErrorKind::Failed, "port").held(LaunchField::Command, Some("serve-1".into())));
    assert_eq!((form.at, form.holder()), (Slot::Replace, Some("serve-1")));
    type_into(&mut form, Slot::Command, "x");
    assert_eq!(form.holder(), None, "another command may be in nobody's way");
    form.fail(&AppError::new(ErrorKind::Io, "disk"));
    assert_eq!(form.at, Slot::Launch);
}

#[test]
fn the_recipe_is_saved_under_the_name_that_is_typed() {
    let mut form = of_recipe("tiny");
    let name = |form: &Form| form.save().map(|request| (request.name, request.launch.name)).ok();
    assert_eq!(name(&form), Some(("tiny".into(), None)));
    type_into(&mut form, Slot::Name, "mine");
    assert_eq!(name(&form), Some(("mine".into(), None)));
}
