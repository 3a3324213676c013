//! `--help`, `trueup actions` and the manual pages.

use super::fixture::Fixture;

/// The headings of a text: lines that begin at the margin and end in a colon.
fn headings(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.strip_suffix(':')).collect()
}

#[test]
fn help_begins_with_a_usage_line_examples_and_flags_in_groups() {
    let fixture = Fixture::empty("none");
    let shown = |arguments: &[&str]| fixture.run(arguments).with(0).stdout;
    let plan = shown(&["plan", "--help"]);
    assert!(plan.starts_with("Usage: trueup plan "), "{plan}");
    assert_eq!(
        headings(&plan),
        [
            "Examples",
            "Actions",
            "Arguments",
            "Options",
            "Selection",
            "Guards",
            "Run",
            "Actions on nodes",
            "Remediation",
            "Connection",
            "Output"
        ]
    );
    assert!(plan.contains("\n  trueup plan -o site.plan\n"), "{plan}");
    let short = shown(&["plan", "-h"]);
    assert!(!headings(&short).contains(&"Examples"), "{short}");
    for command in trueup::cli::command().get_subcommands() {
        let name = command.get_name();
        let help = shown(&[name, "--help"]);
        assert!(help.starts_with(&format!("Usage: trueup {name}")), "{help}");
        assert!(
            name == "help" || headings(&help).contains(&"Examples"),
            "{help}"
        );
    }
}

#[test]
fn the_actions_are_listed() {
    let fixture = Fixture::empty("none");
    let listed = fixture.run(&["actions"]).with(0).stdout;
    for arguments in [["help", "actions"], ["plan", "--help"], ["apply", "--help"]] {
        let help = fixture.run(&arguments).with(0).stdout;
        assert!(help.contains(&format!("Actions:\n{listed}")), "{help}");
    }
    assert!(listed.contains("\n  power off NODE…"), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 100));
}

/// A command and those below it.
fn count(command: &clap::Command) -> usize {
    1 + command.get_subcommands().map(count).sum::<usize>()
}

#[test]
fn every_manual_page_has_its_exit_codes_environment_and_examples() {
    let fixture = Fixture::empty("none");
    let folder = fixture.checkout.outside().join("man");
    fixture
        .run(&["man", "--out", folder.to_str().unwrap()])
        .with(0);
    let mut pages = 0;
    for page in std::fs::read_dir(&folder).unwrap() {
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
        let sections: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .map(|heading| heading.trim_matches('"'))
            .collect();
        for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES"] {
            assert!(sections.contains(&section), "{sections:?}\n{text}");
        }
        pages += 1;
    }
    assert_eq!(pages, count(&trueup::cli::command()));
    let page = std::fs::read_to_string(folder.join("trueup-apply.1")).unwrap();
    assert!(page.contains("TRUEUP_STOP_GRACE"), "{page}");
    assert!(!page.contains("TRUEUP_YES"), "{page}");
    let main = fixture.run(&["man"]).with(0).stdout;
    assert_eq!(
        main,
        std::fs::read_to_string(folder.join("trueup.1")).unwrap()
    );
    for words in [&["apply"][..], &["trueup-apply"]] {
        let shown = fixture.run(&[&["man"], words].concat()).with(0).stdout;
        assert_eq!(shown, page);
    }
    let part = std::fs::read_to_string(folder.join("trueup-run-part.1")).unwrap();
    for words in [&["run", "part"][..], &["run-part"]] {
        let shown = fixture.run(&[&["man"], words].concat()).with(0).stdout;
        assert_eq!(shown, part);
    }
    // Each option has its text, also those that `-h` leaves out.
    for command in ["plan", "apply", "adopt"] {
        let page = fixture.run(&["man", command]).with(0).stdout;
        let options = page.split(".SH OPTIONS").nth(1).unwrap();
        let options = options.split(".SH").next().unwrap();
        let mut described = options.split(".TP\n").skip(1);
        let bare = described.find(|option| option.lines().nth(1).is_none_or(str::is_empty));
        assert_eq!(bare, None, "{command}");
    }
    fixture
        .run(&["man", "aply"])
        .with(64)
        .saying("did you mean `trueup man apply`?");
    fixture
        .run(&["man", "apply", "--out", "x"])
        .with(64)
        .saying("cannot be used with");
}
