//! Questions on a terminal: what is destructive is shown before the program asks, and only `yes` is an approval.
//!
//! `script` (util-linux) gives the program a terminal of its own.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::cli_trust;
use super::fixture::Fixture;

/// The answer that is given to the question, and what ended so.
struct Asked {
    code: i32,
    shown: String,
}

/// Whether a terminal can be had; said loudly if it cannot.
fn has_terminals() -> bool {
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", "true", "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let works = command.stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        eprintln!("SKIPPED: script of util-linux is not there, so there is no terminal to ask on");
    }
    works
}

/// Runs the program on a terminal, and answers as soon as it asks.
fn on_a_terminal(fixture: &Fixture, arguments: &[&str], answer: &str) -> Asked {
    let mut plain = fixture.command(arguments);
    plain.current_dir(fixture.checkout.path());
    answered(plain, answer)
}

/// Runs a command on a terminal, and answers as soon as it asks.
fn answered(plain: Command, answer: &str) -> Asked {
    let words = std::iter::once(plain.get_program()).chain(plain.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--echo", "never", "--command"])
        .args([&words.join(" "), "/dev/null"])
        .current_dir(plain.get_current_dir().unwrap())
        .env_clear()
        .envs(
            plain
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stdin = child.stdin.take();
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stdout.read(&mut piece).unwrap_or_default();
        if read == 0 {
            break;
        }
        shown.extend_from_slice(&piece[..read]);
        if String::from_utf8_lossy(&shown).contains("is taken as approval:")
            && let Some(mut stdin) = stdin.take()
        {
            stdin.write_all(answer.as_bytes()).unwrap();
            stdin.flush().unwrap();
        }
    }
    Asked {
        code: child.wait().unwrap().code().unwrap(),
        shown: String::from_utf8(shown).unwrap(),
    }
}

/// Where something is shown.
#[track_caller]
fn at(asked: &Asked, words: &str) -> usize {
    let found = asked.shown.find(words);
    found.unwrap_or_else(|| panic!("`{words}` is not shown:\n{}", asked.shown))
}

/// The example site, deployed, and a saved plan that tears a machine down.
fn with_a_teardown() -> (Fixture, String) {
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    let path = fixture.checkout.outside().join("saved.plan");
    let file = path.to_str().unwrap().to_owned();
    fixture
        .run(&["plan", "teardown", "monitor03", "-o", &file])
        .with(0);
    (fixture, file)
}

#[test]
fn the_destruction_of_a_saved_plan_is_shown_and_done_once_confirmed() {
    if !has_terminals() {
        return;
    }
    let (fixture, file) = with_a_teardown();
    for answer in ["no\n", "\n", "y\n", "yes, please\n"] {
        let asked = on_a_terminal(&fixture, &["apply", &file], answer);
        assert_eq!(asked.code, 1, "{answer:?}: {}", asked.shown);
        at(&asked, "not approved; nothing was done");
        assert_eq!(fixture.effects("destroyed"), 0, "{answer:?}");
    }
    let asked = on_a_terminal(&fixture, &["apply", &file], "yes\n");
    assert_eq!(asked.code, 0, "{}", asked.shown);
    let question = at(
        &asked,
        "Carry this plan out? Only `yes` is taken as approval:",
    );
    assert!(at(&asked, "monitor03") < question, "{}", asked.shown);
    assert!(at(&asked, "1 to destroy") < question, "{}", asked.shown);
    assert_eq!(fixture.ledger()["monitor03 destroyed"], 1);
}

#[test]
fn a_flag_against_questions_is_no_answer_on_a_terminal_either() {
    if !has_terminals() {
        return;
    }
    let (fixture, file) = with_a_teardown();
    let asked = on_a_terminal(&fixture, &["apply", &file, "--yes"], "yes\n");
    assert_eq!(asked.code, 4, "{}", asked.shown);
    at(&asked, "--effect");
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn controllers_that_take_long_to_answer_are_counted_meanwhile() {
    if !has_terminals() {
        return;
    }
    // Connections are taken by the system, and nothing ever answers.
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = format!(
        "scheme: http, port: {port}, networks: [127.0.0.0/8], request_timeout: 3, credentials: {{username: u, password: {{env: WORD}}}}"
    );
    let fixture = cli_trust::site(&settings);
    let variables = [("WORD", "w")];
    cli_trust::with(&fixture, &["trust", "--yes"], &variables).with(0);
    let mut plan = fixture.command(&["plan"]);
    plan.envs(variables).env("TERM", "xterm");
    let asked = answered(plan, "");
    assert!(asked.shown.contains("of 13 machines"), "{}", asked.shown);
    drop(listener);
}

/// Runs a command on a terminal of 80 columns, with a pager that marks each line, and gives what is shown.
fn paged(fixture: &Fixture, arguments: &[&str], pager: Option<&str>) -> String {
    let own = fixture.command(arguments);
    let words = std::iter::once(own.get_program()).chain(own.get_args());
    let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
    let line = format!("stty cols 80 rows 24; '{}'", words.join("' '"));
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &line])
        .current_dir(fixture.checkout.path());
    command.env_clear().envs(
        own.get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    command.env("PAGER", "sed s/^/common:/");
    if let Some(pager) = pager {
        command.env("TRUEUP_PAGER", pager);
    }
    let asked = answered(command, "");
    assert_eq!(asked.code, 0, "{}", asked.shown);
    asked.shown.replace('\r', "")
}

#[test]
fn long_output_on_a_terminal_goes_to_the_pager() {
    if !has_terminals() {
        return;
    }
    let fixture = Fixture::one_rack();
    let marked =
        |shown: &str, mark: &str| shown.lines().filter(|line| line.starts_with(mark)).count();
    let common = paged(&fixture, &["nodes"], None);
    assert!(marked(&common, "common:") > 3, "{common}");
    let own = paged(&fixture, &["nodes"], Some("sed 's/^/own:/'"));
    assert_eq!(marked(&own, "own:"), own.lines().count(), "{own}");
    for (arguments, pager) in [
        (&["nodes", "--no-pager"][..], None),
        (&["nodes"], Some("")),
        (&["nodes"], Some("no-such-pager-is-installed")),
        // It asks, and shows progress.
        (&["apply", "--yes"], None),
    ] {
        let plain = paged(&fixture, arguments, pager);
        assert_eq!(marked(&plain, "common:"), 0, "{arguments:?}: {plain}");
        assert!(plain.lines().count() > 3, "{arguments:?}: {plain}");
    }
    // Without a terminal there is none.
    let mut command = fixture.command(&["nodes"]);
    let shown = command.env("PAGER", "sed s/^/common:/").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.starts_with("NODE"), "{shown}");
}

#[test]
fn no_word_is_broken_on_a_terminal_of_eighty_columns() {
    if !has_terminals() {
        return;
    }
    let fixture = Fixture::one_rack();
    fixture.run(&["apply", "--yes"]).with(0);
    for arguments in [
        &["plan", "redeploy", "compute11", "--steps"][..],
        &["log"],
        &["log", "compute11"],
        &["show"],
        &["status"],
        &["nodes"],
    ] {
        let shown = paged(
            &fixture,
            &[arguments, &["--color", "never", "--no-pager"]].concat(),
            None,
        );
        let plain = fixture.run(arguments).with(0).stdout;
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(words(&shown), words(&plain), "{arguments:?}");
        for line in shown.lines().filter(|line| line.chars().count() > 80) {
            assert_eq!(line.split_whitespace().count(), 1, "{arguments:?}: {line}");
        }
    }
}

#[test]
fn a_manual_page_is_opened_in_man() {
    if !has_terminals() {
        return;
    }
    let fixture = Fixture::empty("none");
    let bin = fixture.checkout.outside().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let man = bin.join("man");
    let shown = |script: &str| {
        std::fs::write(&man, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&man, mode).unwrap();
        let mut plain = fixture.command(&["man", "apply"]);
        let path = std::env::var("PATH").unwrap();
        plain.env("PATH", format!("{}:{path}", bin.display()));
        plain.current_dir(fixture.checkout.path());
        answered(plain, "")
    };
    let opened = shown("#!/bin/sh\nprintf 'opened: '\nhead -n 3 \"$1\"\n");
    assert_eq!(opened.code, 0, "{}", opened.shown);
    assert!(opened.shown.contains("opened: "), "{}", opened.shown);
    assert!(
        opened.shown.contains(".TH trueup-apply"),
        "{}",
        opened.shown
    );
    // If there is no such program, the text of the page is printed.
    let printed = shown("#!/bin/sh\nexit 127\n");
    assert!(printed.shown.contains("Usage:"), "{}", printed.shown);
}
