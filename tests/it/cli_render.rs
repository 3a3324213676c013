//! `trueup render` as a user runs it: what documents become, and what of them is shown.

use super::cli_validate::fixture;

/// Every secret of the fixture has these words in it.
const SECRET: &str = "only-a-fixture";

#[test]
fn secrets_are_masked_in_every_format_unless_they_are_asked_for() {
    let fixture = fixture("secrets");
    for format in ["yaml", "json"] {
        let masked = fixture.run(&["render", "--format", format]).with(0);
        assert!(
            !masked.stdout.contains(SECRET),
            "{format}: {}",
            masked.stdout
        );
        assert_eq!(masked.stdout.matches("(secret)").count(), 4, "{format}");
        assert!(masked.stdout.contains("plain to see"), "{format}");
        let shown = fixture
            .run(&["render", "--format", format, "--show-secrets"])
            .with(0);
        assert_eq!(
            shown.stdout.matches(SECRET).count(),
            5,
            "{format}: {}",
            shown.stdout
        );
        assert!(
            shown
                .stdout
                .contains("https://admin:only-a-fixture-1@controller.example.org"),
            "{format}: {}",
            shown.stdout
        );
        assert_eq!(
            (masked.stderr, shown.stderr),
            (String::new(), String::new())
        );
    }
}

#[test]
fn no_other_command_shows_a_secret() {
    let fixture = fixture("secrets");
    fixture.edit("secrets.yaml", "only-a-fixture-1", "only-a-fixture-4");
    for arguments in [
        &["validate"][..],
        &["diff"],
        &["diff", "--rendered"],
        &["diff", "--rendered", "--format", "json"],
    ] {
        let ended = fixture.run(arguments).with(0);
        assert!(
            !ended.stdout.contains(SECRET),
            "{arguments:?}: {}",
            ended.stdout
        );
        assert!(
            !ended.stderr.contains(SECRET),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_stream_of_documents_can_be_read_again() {
    let fixture = fixture("secrets");
    let rendered = fixture
        .run(&["render", "--format", "json", "--show-secrets"])
        .with(0)
        .json();
    let names: Vec<&str> = rendered
        .as_array()
        .unwrap()
        .iter()
        .map(|document| document["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["api", "controller", "takes-a-part"]);
    assert_eq!(rendered[0]["data"], "only-a-fixture-2\nonly-a-fixture-3\n");
    let yaml = fixture.run(&["render", "--show-secrets"]).with(0).stdout;
    assert_eq!(yaml.matches("---\n").count(), 3, "{yaml}");
}

#[test]
fn a_source_that_is_not_there_is_an_error_or_a_warning_as_it_is_asked() {
    let fixture = fixture("secrets");
    fixture.edit(
        "uses.yaml",
        "name: controller, path: .}\n      dest: {path: .url",
        "name: nobody, path: .}\n      dest: {path: .url",
    );
    fixture
        .run(&["render"])
        .with(1)
        .saying("error[render-source-missing]");
    fixture.run(&["render", "--allow-missing-sources"]).with(0);
    fixture.run(&["render", "--format", "sarif"]).with(64);
}
