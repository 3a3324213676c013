//! Candidates for the word at the cursor, asked for as the scripts of shells do.

use std::process::{Command, Stdio};

use super::accepted::example;
use super::fixture::Fixture;
use super::skipped::skipped;

/// The candidates for the last of some words, as fish asks for them.
fn candidates(fixture: &Fixture, words: &[&str]) -> Vec<String> {
    let arguments = [&["--", "trueup"], words].concat();
    let mut command = fixture.command(&arguments);
    let ended = command.env("TRUEUP_COMPLETE", "fish").output().unwrap();
    let (stdout, stderr) = (ended.stdout, String::from_utf8(ended.stderr).unwrap());
    assert!(ended.status.success() && stderr.is_empty(), "{stderr}");
    let stdout = String::from_utf8(stdout).unwrap();
    let values = stdout.lines().filter_map(|line| line.split('\t').next());
    values
        .filter(|value| !value.starts_with('-'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn actions_and_names_are_completed_from_the_checkout() {
    let fixture = example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    fixture.checkout.git(&["tag", "v1"]);
    let table: &[(&[&str], &[&str])] = &[
        (&["pl"], &["plan"]),
        (&["plan", "dr"], &["drain"]),
        (
            &["apply", "re"],
            &[
                "redeploy",
                "remove-etcd",
                "remove-from-cluster",
                "relabel",
                "retire",
                "remediate",
            ],
        ),
        (&["plan", "drain", ""], &["edge-1", "edge-2", "edge-3"]),
        (&["plan", "drain", "edge-1", "edge-3"], &["edge-3"]),
        (&["plan", "power", "o"], &["on", "off"]),
        (&["plan", "power", "off", "edge-2"], &["edge-2"]),
        (&["plan", "--target", "ta"], &["tag:worker"]),
        (&["plan", "drain", "group:"], &["group:workers"]),
        (&["plan", "--target", "edge-1,ra"], &["edge-1,rack:closet"]),
        (
            &["plan", "--target", "edge-{1,2},ra"],
            &["edge-{1,2},rack:closet"],
        ),
        (&["status", "--group", ""], &["workers"]),
        (&["status", "--rack", "c"], &["closet"]),
        (&["plan", "--allow-redeploy", "a"], &["all"]),
        (&["plan", "--site", ""], &["edge"]),
        (&["render", "--rev", "v"], &["v1"]),
        (&["diff", "--base", "s"], &["successful-site-action"]),
    ];
    for (words, expected) in table {
        assert_eq!(candidates(&fixture, words), *expected, "{words:?}");
    }
    let log = fixture.run(&["log", "--format", "json"]).with(0).json();
    let run = log["runs"][0]["run"].as_str().unwrap();
    for command in ["show", "abort", "unlock"] {
        assert_eq!(candidates(&fixture, &[command, &run[..4]]), [run]);
    }
    assert_eq!(candidates(&fixture, &["show", "nod"]), ["nodes.yaml"]);
    let multiple = example("multi-site");
    assert_eq!(candidates(&multiple, &["--site", ""]), ["north", "south"]);
    let of_north = candidates(&multiple, &["--site", "north", "plan", "drain", ""]);
    assert!(!of_north.is_empty());
    assert_ne!(
        of_north,
        candidates(&multiple, &["--site=south", "plan", "drain", ""])
    );
}

#[test]
fn outside_of_a_site_only_what_needs_none_is_completed() {
    let fixture = Fixture::empty("none");
    assert_eq!(candidates(&fixture, &["plan", "unc"]), ["uncordon"]);
    assert_eq!(candidates(&fixture, &["plan", "drain", ""]), [""; 0]);
    let errors = example("edge");
    errors.edit(
        "profiles.yaml",
        "hardware_profile: small-server",
        "hardware_profile: gone",
    );
    assert_eq!(
        candidates(&errors, &["plan", "drain", "edge-2"]),
        ["edge-2"]
    );
}

/// Machines of a site, each in a document.
fn machines(count: usize) -> String {
    let document = |number: usize| {
        let (high, low) = (number / 250 + 1, number % 250 + 1);
        format!(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: m{number:04}}}\ndata:\n  host_profile: worker\n  \
             metadata: {{rack: closet, tags: [worker]}}\n  addressing:\n    - {{network: pxe, address: 10.40.{high}.{low}}}\n    \
             - {{network: oam, address: 10.50.{high}.{low}}}\n"
        )
    };
    (0..count).map(document).collect()
}

#[test]
fn the_names_of_a_large_site_are_not_loaded_again() {
    let fixture = example("edge");
    let networks = fixture.read("networks.yaml");
    let networks = networks
        .replace("10.40.1.", "10.50.0.")
        .replace("0/24", "0/16");
    fixture.checkout.write("networks.yaml", networks);
    fixture.checkout.write("nodes.yaml", machines(1200));
    let valid = fixture.run(&["validate"]);
    assert_eq!(
        valid.code,
        0,
        "{}",
        valid.stdout.chars().take(2000).collect::<String>()
    );
    // More than a screen holds: what they begin with.
    let all = candidates(&fixture, &["plan", "drain", "m"]);
    assert_eq!(all.len(), 120);
    assert_eq!(candidates(&fixture, &["plan", "drain", "m119"]).len(), 10);
    fixture.checkout.write("nodes.yaml", "---\nschema: [\n");
    assert_eq!(candidates(&fixture, &["plan", "drain", "m0007"]), ["m0007"]);
}

#[test]
fn a_variable_that_is_left_set_keeps_no_command_from_being_run() {
    let fixture = example("edge");
    for arguments in [&["validate"][..], &["--", "validate"]] {
        let mut command = fixture.command(arguments);
        let ended = command.env("TRUEUP_COMPLETE", "bash").output().unwrap();
        let told = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(told.contains("is valid"), arguments.len() == 1, "{told}");
    }
}

#[test]
fn nothing_of_the_checkout_is_executed_while_completing() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let mark = fixture.checkout.outside().join("executed");
    let program = fixture.checkout.outside().join("program");
    std::fs::write(&program, format!("#!/bin/sh\ntouch '{}'\n", mark.display())).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, permissions).unwrap();
    let program = program.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.askPass",
    ] {
        fixture.checkout.git(&["config", key, program]);
    }
    fixture
        .checkout
        .git(&["config", "remote.origin.url", "ssh://nowhere.invalid/site"]);
    fixture
        .checkout
        .git(&["config", "credential.helper", &format!("!{program}")]);
    for words in [
        &["plan", "drain", ""][..],
        &["render", "--rev", ""],
        &["show", ""],
        &["--site", ""],
        &["plan", "--remote", ""],
    ] {
        assert!(!candidates(&fixture, words).is_empty(), "{words:?}");
    }
    assert!(!mark.exists());
}

#[test]
fn no_candidate_of_a_document_is_more_than_a_word_to_a_shell() {
    let fixture = example("edge");
    let nodes = fixture.read("nodes.yaml");
    let nodes = nodes.replacen("rack: closet", "rack: '$(touch mark) x'", 1);
    fixture.checkout.write("nodes.yaml", nodes);
    fixture.checkout.commit("Move a machine");
    let racks = candidates(&fixture, &["nodes", "ra"]);
    assert!(racks.iter().any(|each| each == "rack:closet"), "{racks:?}");
    assert!(racks.iter().all(|each| !each.contains('$')), "{racks:?}");
}

/// The candidates that a real shell has for the last word of a line.
fn of_bash(fixture: &Fixture, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let script = format!(
        "source <(trueup completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; COMP_LINE='{line}'\n\
         \"$(complete -p trueup | sed 's/.*-F \\([^ ]*\\) .*/\\1/')\" trueup '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_trueup"));
    let mut path = vec![own.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let plain = fixture.command(&[]);
    let ended = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", &script])
        .current_dir(fixture.checkout.path())
        .env_clear()
        .envs(
            plain
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .env("PATH", std::env::join_paths(path).unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let told = String::from_utf8(ended.stdout).unwrap();
    told.lines()
        .map(|word| word.trim_end().to_owned())
        .collect()
}

#[test]
fn a_real_bash_completes() {
    let is_there = Command::new("bash")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !is_there.is_ok_and(|status| status.success()) {
        return skipped("bash is not there");
    }
    let fixture = example("edge");
    assert_eq!(of_bash(&fixture, "trueup plan dra"), ["drain"]);
    assert_eq!(of_bash(&fixture, "trueup plan drain edge-2"), ["edge-2"]);
    assert_eq!(of_bash(&fixture, "trueup valid"), ["validate"]);
    assert_eq!(
        of_bash(&fixture, "trueup plan --allow-red"),
        ["--allow-redeploy"]
    );
}
