//! The picture in the README: a first session as it looks on a terminal.

use std::path::Path;

use anstyle_svg::Term;
use regex::Regex;

use super::accepted::example;

/// What differs each time, and what is shown in its place.
const FIXED: [(&str, &str); 4] = [
    ("01[0-9A-HJKMNP-TV-Z]{24}", "01M7YEVKVGMNNJH72GE3C37DSD"),
    ("[0-9]{4}-[0-9]{2}-[0-9]{2}", "2026-11-21"),
    ("\\b[0-9a-f]{12}\\b", "5c1e0a94d7f2"),
    ("Effect: [0-9a-f]{16}", "Effect: a3b4ba229ee920cb"),
];

fn session() -> String {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let run = |arguments: &[&str]| {
        let ended = fixture.run(&[&["--color", "always"], arguments].concat());
        ended.with(0).stdout + "\n"
    };
    let mut text = String::new();
    let mut show = |words: &str, output: String| {
        text.extend(["\u{1b}[1m$ ", words, "\u{1b}[0m\n", &output]);
    };
    show("trueup plan", run(&["plan"]));
    show("trueup apply --yes", run(&["apply", "--yes"]));
    fixture.edit("profiles.yaml", "ubuntu-24.04", "ubuntu-26.04");
    let edit = "sed -i 's/ubuntu-24.04/ubuntu-26.04/' profiles.yaml";
    show(edit, String::new());
    show("trueup plan", run(&["plan"]));
    let mut text = text.trim_end().to_owned();
    for (pattern, shown) in FIXED {
        let pattern = Regex::new(pattern).unwrap();
        text = pattern.replace_all(&text, shown).into_owned();
    }
    text
}

#[test]
fn the_picture_of_a_first_session_is_what_the_program_shows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/session.svg");
    let svg = Term::new().render_svg(&session());
    if std::env::var_os("TRUEUP_TEST_UPDATE").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == svg,
        "docs/session.svg is not what a session shows: make it again with TRUEUP_TEST_UPDATE=1"
    );
}
