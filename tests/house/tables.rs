//! What the screen draws comes from its tables: glyphs from one, colours by their roles from the other.

use super::{Source, check, check_house};

/// What of a file is no test.
fn before_tests(raw: &str) -> &str {
    let inside = raw.find("\nmod tests {").map_or(raw, |at| &raw[..at]);
    // The attributes of the module belong to it.
    inside.rfind("#[cfg(test)]").filter(|_| inside.len() < raw.len()).map_or(inside, |at| &inside[..at])
}

/// Files of the screen that hold what terminals send and take, or made-up data.
const NO_VIEWS: [&str; 4] = ["fixtures", "tests", "glyph", "encode"];

/// The screen draws what its table of glyphs names, in colours that have a role: no other character that is not
/// ASCII stands in it, and no other file than the theme's names a colour.
fn drawn_past_the_tables(source: &Source) -> Vec<String> {
    let name = source.module().last().cloned().unwrap_or_default();
    let in_tests = ["/tests/", "/fixtures/"].iter().any(|part| source.path.contains(part));
    if !source.path.starts_with("src/app/tui/") || in_tests || NO_VIEWS.contains(&name.as_str()) {
        return Vec::new();
    }
    let code = Source::new(&source.path, before_tests(&source.raw));
    let strange = code.raw.lines().filter(|line| !line.is_ascii()).map(|line| source.says(line.trim()));
    let is_theme = source.module().contains(&"theme".to_owned());
    let colours = code.words().filter(|word| matches!(*word, "Color" | "Colour") && !is_theme);
    strange.chain(colours.map(|word| source.says(word))).collect()
}

#[test]
fn glyphs_and_colours_come_from_their_tables() {
    check_house(drawn_past_the_tables);
}

#[test]
fn the_rule_about_tables_can_fail() {
    let view = |raw, expected| check(drawn_past_the_tables, "src/app/tui/view/x.rs", raw, expected);
    view("const X: &str = \"\u{b7}\";", 1);
    view("fn f() { g('\u{2502}') }", 1);
    view("// \u{2502}", 1);
    view("use ratatui::style::Color;\nfn f() { Color::Red }", 2);
    view("fn f() {}\n#[cfg(test)]\nmod tests { const X: char = '\u{2502}'; use ratatui::style::Color; }", 0);
    view("use ratatui::style::Style; // Color", 0);
    check(drawn_past_the_tables, "src/app/tui/theme/palette.rs", "use ratatui::style::Color;", 0);
    check(drawn_past_the_tables, "src/app/tui/glyph.rs", "const X: &str = \"\u{b7}\";", 0);
    check(drawn_past_the_tables, "src/app/cli.rs", "const X: &str = \"\u{b7}\";", 0);
}
