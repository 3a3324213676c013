//! What `--verbose` tells, and that it tells nothing else than that and nowhere else.

use super::fixture::Fixture;

/// Lines of a module.
fn lines<'a>(stderr: &'a str, module: &str) -> Vec<&'a str> {
    let mark = format!(" {module}: ");
    stderr.lines().filter(|line| line.contains(&mark)).collect()
}

#[test]
fn each_v_tells_more_on_standard_error_and_changes_nothing_else() {
    let fixture = Fixture::one_rack();
    fixture.checkout.write(
        "backends.yaml",
        "---\nschema: trueup/Backends/v1\nmetadata: {name: backends}\ndata:\n  hardware:\n    kind: redfish\n    \
         redfish: {port: 1, networks: [127.0.0.0/8], credentials: {username: admin, password: {exec: [echo, hunter2]}}}\n",
    );
    fixture.on_loopback();
    fixture.checkout.commit("A site");
    fixture.run(&["trust", "--yes"]).with(0);
    let quiet = fixture.run(&["plan"]).with(0);
    assert!(
        !quiet.stderr.contains("workflow: observed"),
        "{}",
        quiet.stderr
    );

    let once = fixture.run(&["plan", "-v"]).with(0);
    assert_eq!(once.stdout, quiet.stdout);
    let once = once.stderr;
    assert_eq!(lines(&once, "cli").len(), 1, "{once}");
    assert_eq!(lines(&once, "workflow").len(), 2, "{once}");
    assert!(
        once.contains("cli: a secret of `echo`: exit status: 0, in "),
        "{once}"
    );
    assert!(once.contains("workflow: observed "), "{once}");
    assert!(lines(&once, "backend").is_empty(), "{once}");

    let twice = fixture.run(&["plan", "-vv"]).with(0);
    assert_eq!(twice.stdout, quiet.stdout);
    let requests = lines(&twice.stderr, "backend");
    let is_request = |line: &&&str| line.contains(":1: GET /redfish/v1/") && line.contains(", in ");
    assert!(!requests.is_empty(), "{}", twice.stderr);
    assert_eq!(
        requests.iter().filter(is_request).count(),
        requests.len(),
        "{}",
        twice.stderr
    );
    assert!(!twice.stderr.contains("nodes.yaml`: "), "{}", twice.stderr);

    let thrice = fixture.run(&["plan", "--verbose", "-vv"]).with(0);
    assert_eq!(thrice.stdout, quiet.stdout);
    assert!(
        thrice.stderr.contains("site: `backends.yaml`: "),
        "{}",
        thrice.stderr
    );
    for text in [once, twice.stderr, thrice.stderr] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn the_environment_can_ask_for_it_and_an_apply_tells_of_lock_journal_and_records() {
    let fixture = Fixture::one_rack();
    let mut command = fixture.command(&["apply", "--yes", "--format", "json"]);
    let output = command.env("TRUEUP_VERBOSE", "3").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    for (module, words) in [
        ("run", "is held for run"),
        ("run", "records of "),
        ("journal", "bytes made durable in "),
    ] {
        let found = lines(&told, module);
        assert!(found.iter().any(|line| line.contains(words)), "{told}");
    }
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}
