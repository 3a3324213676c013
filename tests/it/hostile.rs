//! Files that were made to do harm: each is refused with its own words, and what is beside it is still read.

use std::fmt::Write;

use super::fixture::{Fixture, copy_folder};
use super::git::Checkout;

const HEAD: &str = "schema: example/Kind/v1\nmetadata: {name: hostile}\ndata:\n";
const SCHEMA: &str = "schema: deckhand/DataSchema/v1\n\
    metadata: {schema: metadata/Control/v1, name: example/Kind/v1}\ndata: ";

fn edge() -> Fixture {
    let fixture = Fixture::of(Checkout::new(), "edge");
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("site-examples/edge");
    copy_folder(&example, fixture.checkout.path());
    fixture.checkout.commit("The site");
    fixture
}

/// What `validate` says of a file, which nothing can make it panic, print a control character or write much about.
fn said(fixture: &Fixture) -> String {
    let ended = fixture.run(&["validate"]);
    assert!([0, 1].contains(&ended.code), "{ended:?}");
    let said = ended.stdout + &ended.stderr;
    assert!(!said.contains("panicked"), "{said}");
    let is_shown = |letter: char| letter == '\n' || !letter.is_control();
    assert!(said.chars().all(is_shown), "{said:?}");
    assert!(said.len() < 20_000, "{} bytes are said", said.len());
    said
}

/// Whether each file is refused with these words, together with a mistake in another file.
#[track_caller]
fn refused(files: &[(&str, Vec<u8>, &str)]) {
    let fixture = edge();
    fixture.checkout.write("other.yaml", "a: [1, 2\n");
    for (name, bytes, words) in files {
        fixture.checkout.write(name, bytes);
        let said = said(&fixture);
        assert!(said.contains(words), "{name}: `{words}` is not in\n{said}");
        assert!(
            said.contains("--> other.yaml:"),
            "{name}: the other mistake is lost\n{said}"
        );
        std::fs::remove_file(fixture.checkout.path().join(name)).unwrap();
    }
}

fn with_head(text: &str) -> Vec<u8> {
    format!("{HEAD}{text}\n").into_bytes()
}

fn schema(text: &str, value: &str) -> Vec<u8> {
    format!("{SCHEMA}{text}\n---\n{HEAD}  a: {value}\n").into_bytes()
}

#[test]
fn files_that_ask_for_too_much_are_refused_before_they_get_it() {
    let mut bomb = "  a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (before, name) in ('a'..'t').zip('b'..) {
        let nine = vec![format!("*{before}"); 9].join(", ");
        writeln!(bomb, "  {name}: &{name} [{nine}]").unwrap();
    }
    let deep =
        |open: &str, close: &str| format!("  a: {}x{}", open.repeat(10_000), close.repeat(10_000));
    refused(&[
        ("bomb.yaml", with_head(&bomb), "yaml-too-many-aliases"),
        ("lists.yaml", with_head(&deep("[", "]")), "yaml-too-deep"),
        ("maps.yaml", with_head(&deep("{b: ", "}")), "yaml-too-deep"),
        (
            "items.yaml",
            with_head(&format!("  {}x", "- ".repeat(10_000))),
            "yaml-too-deep",
        ),
        (
            "large.yaml",
            with_head(&"# large\n".repeat(3 << 20)),
            "yaml-file-too-large",
        ),
    ]);
}

#[test]
fn a_gigabyte_is_refused_without_being_read() {
    let fixture = edge();
    let file = std::fs::File::create(fixture.checkout.path().join("large.yaml")).unwrap();
    // Holes only: the disk holds nothing of it.
    file.set_len(1 << 30).unwrap();
    assert!(said(&fixture).contains("the file has 1073741824 bytes; at most 16777216 are read"));
}

#[test]
fn bytes_that_are_no_text_are_refused_and_marks_of_other_systems_are_read() {
    let utf_16: Vec<u8> = format!("\u{feff}{HEAD}  a: 1\n")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    refused(&[
        (
            "bytes.yaml",
            [HEAD.as_bytes(), b"  a: \xff\xfe\n"].concat(),
            "yaml-not-utf-8",
        ),
        ("wide.yaml", utf_16, "yaml-utf-16"),
        (
            "null.yaml",
            with_head("  a: \"\0\""),
            "yaml-control-character",
        ),
        (
            "terminal.yaml",
            with_head("  a: \u{1b}[31m"),
            "yaml-control-character",
        ),
    ]);
    let fixture = edge();
    let windows = format!("\u{feff}{HEAD}  a: 1\n").replace('\n', "\r\n");
    fixture.checkout.write("windows.yaml", windows);
    fixture.run(&["validate"]).with(0);
}

#[test]
fn names_cannot_paint_the_terminal_or_leave_the_folder() {
    let hostile = "\"../../etc\\e[2J\\u202e\"";
    let fixture = edge();
    fixture.checkout.write(
        "names.yaml",
        format!("schema: drydock/BaremetalNode/v1\nmetadata: {{name: edge-9}}\ndata: {{host_profile: {hostile}}}\n"),
    );
    fixture.checkout.git(&["add", "names.yaml"]);
    let of_value = said(&fixture);
    assert!(of_value.contains("`../../etc\\u{1b}[2J"), "{of_value}");
    assert!(!of_value.contains('\u{202e}'), "{of_value}");
    fixture.checkout.write(
        "names.yaml",
        format!("schema: drydock/BaremetalNode/v1\nmetadata: {{name: {hostile}}}\ndata: {{host_profile: worker}}\n"),
    );
    fixture.checkout.write("a\u{1b}[31m\n.yaml", "a: [\n");
    let of_names = said(&fixture);
    assert!(of_names.contains("a\\u{1b}[31m\\n.yaml"), "{of_names}");
    assert!(!of_names.contains('\u{202e}'), "{of_names}");
}

#[test]
#[cfg(unix)]
fn links_lead_nowhere_but_into_the_repository() {
    for (target, words) in [
        ("/etc/passwd", "is a link out of the repository"),
        ("/dev/zero", "is a link out of the repository"),
        ("../../../../etc/passwd", "is a link out of the repository"),
        ("link.yaml", "is a link in a circle"),
        (".", "is a link in a circle"),
    ] {
        let fixture = edge();
        fixture.checkout.link("link.yaml", target);
        let said = said(&fixture);
        assert!(said.contains(words), "{target}: {said}");
        assert!(!said.contains("root:"), "{target}: {said}");
    }
}

#[test]
#[cfg(unix)]
fn a_link_to_a_file_that_git_does_not_track_is_refused_and_so_is_one_below_a_linked_folder() {
    let fixture = edge();
    fixture.checkout.write("token.json", "hunter2: token\n");
    fixture
        .checkout
        .write("build/secret.yaml", "hunter2: [token\n");
    fixture.checkout.link("link.yaml", "token.json");
    fixture.checkout.link("folder", "build");
    fixture.checkout.git(&["add", "link.yaml", "folder"]);
    let said = said(&fixture);
    for words in [
        "`link.yaml` is a link to `token.json`, which git does not track",
        "`folder/secret.yaml` is a link to `build/secret.yaml`, which git does not track",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("hunter2"), "{said}");
    // What git tracks may be linked to.
    fixture.checkout.git(&["add", "token.json"]);
    assert!(!self::said(&fixture).contains("link.yaml` is a link"));
}

#[test]
fn nothing_is_quoted_of_a_file_that_git_does_not_track() {
    let fixture = edge();
    for text in ["hunter2: token\n", "a: [hunter2\n", "schema: hunter2\n"] {
        fixture.checkout.write("token.yaml", text);
        let said = said(&fixture);
        assert!(said.contains("--> token.yaml:"), "{said}");
        assert!(said.contains("git does not track this file"), "{said}");
        assert!(!said.contains("hunter2"), "{text}: {said}");
    }
    fixture.checkout.git(&["add", "token.yaml"]);
    assert!(said(&fixture).contains("hunter2"));
}

#[test]
#[cfg(unix)]
fn the_definition_of_a_site_is_read_like_every_other_file() {
    use std::os::unix::fs::PermissionsExt;
    const NAME: &str = "site-definition.yaml";
    let refused = |fixture: &Fixture, words: &str| {
        let ended = fixture.run(&["validate"]).with(1);
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
        assert!(
            !ended.stderr.contains("there is no site"),
            "{}",
            ended.stderr
        );
    };
    for (target, words) in [
        ("/dev/zero", "is a link out of the repository"),
        ("/etc/passwd", "is a link out of the repository"),
        ("untracked", "which git does not track"),
    ] {
        let fixture = edge();
        fixture.checkout.write("untracked", "hunter2");
        std::fs::remove_file(fixture.checkout.path().join(NAME)).unwrap();
        fixture.checkout.link(NAME, target);
        refused(&fixture, words);
    }
    let fixture = edge();
    let path = fixture.checkout.path().join(NAME);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(5 << 30).unwrap();
    refused(&fixture, "more than the 16777216 that are read");
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if made.is_ok_and(|status| status.success()) {
        refused(&fixture, "is a pipe, a socket or a device");
    }
    // Who may read everything is refused nothing.
    let fixture = edge();
    let path = fixture.checkout.path().join(NAME);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_err() {
        refused(&fixture, "Permission denied");
    }
}

#[test]
#[cfg(unix)]
fn a_plan_or_a_snapshot_is_a_regular_file_of_a_size() {
    let fixture = edge();
    let pipe = fixture.checkout.outside().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let large = fixture.checkout.outside().join("large");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(2 << 30).unwrap();
    for (path, words) in [
        (pipe.as_path(), "it is not a regular file"),
        (
            std::path::Path::new("/dev/zero"),
            "it is not a regular file",
        ),
        (std::path::Path::new("/"), "it is not a regular file"),
        (large.as_path(), "2147483648"),
    ] {
        let path = path.to_str().unwrap();
        for arguments in [
            &["apply", path][..],
            &["show", path],
            &["plan", "--observed", path],
            &["status", "--observed", path],
        ] {
            let ended = fixture.run(arguments);
            assert_ne!(ended.code, 0);
            assert!(
                ended.stderr.contains(words),
                "{arguments:?}: {}",
                ended.stderr
            );
        }
    }
}

/// Whether a text is harmless to a terminal and to the pipeline that prints it.
#[track_caller]
fn harmless(what: &[&str], text: &str) {
    use trueup::document::{has_command_mark, is_hidden, leading_command};
    for line in text.lines() {
        assert!(
            !line.chars().any(is_hidden) && !has_command_mark(line),
            "{what:?}: {line:?}"
        );
        assert_eq!(leading_command(line), None, "{what:?}: {line}");
    }
}

#[test]
fn no_output_of_any_command_is_a_command_of_the_pipeline_that_prints_it() {
    const EVIL: &str = "::error file=x::y ##[set-output name=x]y ##vso[z]\u{ad}\u{3164}\u{202e}";
    let fixture = edge();
    fixture.edit(
        "backends.yaml",
        "clock: virtual\n",
        &format!(
            "clock: virtual\n      faults: [{{nodes: [edge-2], step: deploy, outcome: fail, message: '{EVIL}'}}]\n"
        ),
    );
    fixture.edit(
        "profiles.yaml",
        "image: ubuntu-24.04",
        &format!("image: '{EVIL}'"),
    );
    fixture.edit(
        "profiles.yaml",
        "kernel_params: {console: ttyS0}",
        &format!("kernel_params: {{'{EVIL}': '{EVIL}'}}"),
    );
    fixture.checkout.commit(EVIL);
    let run = |arguments: &[&str]| {
        let ended = fixture.run(&[arguments, &["-vvv"]].concat());
        harmless(arguments, &ended.stdout);
        harmless(arguments, &ended.stderr);
        ended
    };
    let applied = run(&["apply", "--yes", "--allow-intermediate-commits"]);
    assert!(
        applied.stdout.contains("#\\u{23}[set-output"),
        "{applied:?}"
    );
    run(&["apply", "maintenance", "edge-1", "--reason", EVIL, "--yes"]).with(0);
    fixture.edit(
        "profiles.yaml",
        &format!("image: '{EVIL}'"),
        "image: \"::warning::x\\n##[group]y\"",
    );
    fixture.checkout.commit(&format!("Another\n\n{EVIL}"));
    for format in ["text", "json"] {
        for command in ["diff", "nodes", "status", "log", "etcd"] {
            run(&[command, "--format", format]);
        }
        run(&["diff", "--base", "HEAD~1", "--format", format]).with(0);
    }
    for format in ["text", "json", "markdown", "dot", "mermaid"] {
        run(&[
            "plan",
            "--steps",
            "--full",
            "--allow-redeploy",
            "all",
            "--format",
            format,
        ])
        .with(0);
    }
    let rendered = run(&["render"]).with(0).stdout;
    assert!(rendered.contains("\\x23[set-output"), "{rendered}");
    let rendered = run(&["render", "--format", "json"]).with(0).json();
    assert!(
        rendered.to_string().contains(EVIL),
        "JSON reads back the same"
    );
    run(&["nodes", "--format", "names"]).with(0);
    let log = run(&["log", "--format", "json"]).json();
    for at in 0..2 {
        let id = log["runs"][at]["run"].as_str().unwrap();
        for format in ["text", "json"] {
            run(&["show", id, "--full", "--format", format]);
            run(&["show", id, "--plan", "--format", format]);
        }
    }
    for evil in ["::error::x", "##[group]", "a\u{ad}b"] {
        for command in [
            &["validate", "--rev", evil][..],
            &["show", evil],
            &["plan", "--target", evil],
            &["abort", evil],
            &["nodes", "--format", evil],
            &[evil],
        ] {
            assert_ne!(run(command).code, 0);
        }
    }
}

#[test]
fn a_schema_fetches_nothing_and_its_patterns_cannot_explode() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let address = server.local_addr().unwrap();
    let remote = format!("{{\"$ref\": \"http://{address}/schema.json\"}}");
    let long = "a".repeat(100_000) + "b";
    refused(&[
        (
            "remote.yaml",
            schema(&remote, "1"),
            "is outside this schema",
        ),
        (
            "file.yaml",
            schema("{\"$ref\": \"file:///etc/passwd\"}", "1"),
            "is outside this schema",
        ),
        (
            "slow.yaml",
            schema("{properties: {a: {pattern: \"^(a+)+$\"}}}", &long),
            "does not match `^(a+)+$`",
        ),
        (
            "back.yaml",
            schema("{properties: {a: {pattern: \"^(a+)+\\\\1$\"}}}", &long),
            "`^(a+)+\\1$`",
        ),
        (
            "huge.yaml",
            schema(
                "{properties: {a: {pattern: \"((a{1000}){1000}){1000}\"}}}",
                "a",
            ),
            "schema-invalid",
        ),
    ]);
    let asked = server.accept();
    assert!(asked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[test]
fn a_plan_made_by_hand_carries_no_command_and_is_not_applied() {
    let fixture = edge();
    let plan = fixture.checkout.outside().join("plan.json");
    let path = plan.to_str().unwrap();
    fixture.run(&["plan", "--out", path]).with(0);
    let text = std::fs::read_to_string(&plan).unwrap();
    let first = text.find("\"kind\":").unwrap();
    let mark = fixture.checkout.outside().join("ran");
    let command = format!("\"command\":[\"touch\",\"{}\"],", mark.display());
    let altered = [
        (
            format!("{}{command}{}", &text[..first], &text[first..]),
            "unknown field `command`",
        ),
        (text.replacen("\"edge-1\"", "\"edge-9\"", 1), "altered"),
        (text.replacen("\"edge\"", "\"../edge\"", 1), "altered"),
        (
            text.replacen("\"site\":", &format!("\"site\":{}", "[".repeat(100_000)), 1),
            "the file is not JSON",
        ),
    ];
    for (text, words) in altered {
        std::fs::write(&plan, text).unwrap();
        let ended = fixture.run(&["apply", path]);
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains(words), "`{words}`: {ended:?}");
        assert!(!mark.exists());
    }
    assert!(fixture.tags().is_empty());
}
