//! `trueup doctor`: what is checked, and what is left closed.

use serde_json::Value;

use super::accepted::example;
use super::cli_interrupted::shared;
use super::cli_trust::{self, Controller};
use super::fixture::{Ended, Fixture};
use super::git::Origin;

use crate::folder::folder;

/// The state and the finding of a check, and its next step.
fn check(ended: &Ended, name: &str) -> (String, String, String) {
    let all: Value = serde_json::from_str(&ended.stdout).unwrap();
    let checks = all["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == name);
    let found = found.unwrap_or_else(|| panic!("no check `{name}`: {all:#}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("found"), text("next"))
}

fn doctor(fixture: &Fixture, arguments: &[&str]) -> Ended {
    fixture.run(&[&["doctor", "--format", "json"], arguments].concat())
}

fn state(ended: &Ended, name: &str) -> String {
    check(ended, name).0
}

#[test]
fn a_sound_site_passes_and_its_remote_is_not_changed() {
    let fixture = example("control-plane");
    fixture.commit_and_apply("The site", &[]).with(0);
    let ended = doctor(&fixture, &[]).with(0);
    for name in [
        "version",
        "git",
        "repository",
        "site",
        "trust",
        "backends",
        "cluster",
        "etcd",
    ] {
        assert_eq!(state(&ended, name), "ok", "{name}: {}", ended.stdout);
    }
    assert_eq!(state(&ended, "remote"), "warn");
    let origin = Origin::new();
    fixture
        .checkout
        .git(&["remote", "add", "origin", &origin.url()]);
    fixture
        .checkout
        .git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    let before = origin.git(&["for-each-ref"]);
    let ended = doctor(&fixture, &[]).with(0);
    let (state_of_remote, found, _) = check(&ended, "remote");
    assert_eq!(state_of_remote, "ok", "{found}");
    assert!(found.contains("push --dry-run"), "{found}");
    let (state_of_push, found, _) = check(&ended, "push");
    assert_eq!(state_of_push, "ok", "{found}");
    assert_eq!(origin.git(&["for-each-ref"]), before);
    let shown = fixture.run(&["doctor"]).with(0).stdout;
    assert!(shown.contains("\nok    git "), "{shown}");
    assert!(shown.contains("0 checks failed of "), "{shown}");
}

#[test]
fn a_remote_that_does_not_answer_fails_with_a_next_step() {
    let fixture = example("edge");
    fixture.checkout.commit("The site");
    let gone = fixture.checkout.outside().join("gone");
    fixture
        .checkout
        .git(&["remote", "add", "origin", gone.to_str().unwrap()]);
    let ended = doctor(&fixture, &[]).with(1);
    let (state_of_remote, _, next) = check(&ended, "remote");
    assert_eq!(state_of_remote, "fail");
    assert!(!next.is_empty());
    let ended = doctor(&fixture, &["--offline"]).with(0);
    assert_eq!(state(&ended, "remote"), "skip");
    assert_eq!(state(&ended, "backends"), "ok");
}

#[test]
fn outside_of_a_repository_and_without_a_site_the_rest_is_skipped() {
    let fixture = Fixture::empty("none");
    let outside = fixture.checkout.outside().join("empty");
    std::fs::create_dir(&outside).unwrap();
    let ended = doctor(&fixture, &["-C", outside.to_str().unwrap()]).with(1);
    assert_eq!(state(&ended, "repository"), "fail");
    assert_eq!(state(&ended, "backends"), "skip");
    let broken = example("edge");
    broken.edit(
        "profiles.yaml",
        "hardware_profile: small-server",
        "hardware_profile: gone",
    );
    let ended = doctor(&broken, &[]).with(1);
    assert_eq!(state(&ended, "site"), "fail");
    assert!(check(&ended, "site").2.contains("trueup validate"));
    assert_eq!(state(&ended, "backends"), "skip");
}

#[test]
fn what_is_not_trusted_is_neither_opened_nor_contacted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = folder();
    let mark = folder.path().join("opened");
    let fixture = cli_trust::site(&format!(
        "networks: [127.0.0.0/8], scheme: http, port: {port}, credentials: {{username: u, password: {{exec: [touch, '{}']}}}}",
        mark.display()
    ));
    let ended = doctor(&fixture, &[]).with(1);
    let (state_of_trust, found, next) = check(&ended, "trust");
    assert_eq!(state_of_trust, "fail", "{}", ended.stdout);
    assert!(found.contains("program ["), "{found}");
    assert!(next.contains("trueup trust"));
    assert_eq!(state(&ended, "backends"), "skip");
    assert!(!mark.exists());
    assert!(listener.accept().is_err());
    // The simulator needs no trust; here the operator gives it, and the controllers are asked.
    fixture.run(&["trust", "--yes"]).with(0);
    let ended = doctor(&fixture, &[]).with(1);
    assert_eq!(state(&ended, "trust"), "ok", "{}", ended.stdout);
    assert_eq!(state(&ended, "backends"), "fail");
}

#[test]
fn a_clock_that_is_off_is_named_with_its_server() {
    for (seconds, expected) in [(0, "ok"), (-7_200, "warn"), (7_200, "warn")] {
        let controller = Controller::with_headers(move || {
            let there = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
            let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
            let date = printer.timestamp_to_rfc9110_string(&there).unwrap();
            format!("date: {date}\r\n")
        });
        let port = controller.port;
        let fixture = cli_trust::site(&format!(
            "networks: [127.0.0.0/8], scheme: http, port: {port}, credentials: {{username: u, password: {{env: P}}}}"
        ));
        fixture.run(&["trust", "--yes"]).with(0);
        let ended = doctor_with(&fixture, &[("P", "p")]);
        let (state, found, next) = check(&ended, "clocks");
        assert_eq!(state, expected, "{seconds}: {}", ended.stdout);
        if expected == "warn" {
            assert!(found.contains(&format!(":{port} is ")), "{found}");
            let hours = match seconds > 0 {
                true => " is +7",
                false => " is -7",
            };
            assert!(found.contains(hours), "{found}");
            assert!(next.contains("NTP"), "{next}");
        }
    }
}

fn doctor_with(fixture: &Fixture, variables: &[(&str, &str)]) -> Ended {
    cli_trust::with(fixture, &["doctor", "--format", "json"], variables)
}

#[test]
fn a_site_that_asks_for_approvals_is_told_to_keep_keys_for_recovery() {
    let fixture = example("edge");
    fixture.checkout.commit("A site");
    // What is in force asks for no signatures, and has no file of signers: it is no problem of the documents to come.
    fixture.run(&["apply", "--yes"]).with(0);
    let policy = |approvals: &str| {
        let text = format!(
            "schema: trueup/Policy/v1\nmetadata: {{name: policy}}\ndata: {{approvals: {{{approvals}}}}}\n"
        );
        fixture.checkout.write("policy.yaml", text);
        fixture.checkout.commit("Edit the policy");
        check(&doctor(&fixture, &[]), "approvals")
    };
    let (state, found, next) = policy("destroy: 2");
    assert_eq!(state, "warn", "{found}");
    assert!(next.contains("recovery: {count: 1, of: ["), "{next}");
    let recovery = "destroy: 2, recovery: {count: 1, of: [vault@example.org]}";
    // People without a key recover nothing.
    let (state, found, next) = policy(recovery);
    assert_eq!(state, "warn", "{found}");
    assert!(found.contains("of whom 0 have a key"), "{found}");
    assert!(next.contains("file of allowed signers"), "{next}");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    fixture
        .checkout
        .write("allowed_signers", format!("vault@example.org {key}\n"));
    let (state, found, _) = policy(&format!("{recovery} "));
    assert_eq!(state, "ok", "{found}");
    assert!(found.contains("1 of vault@example.org"), "{found}");
    let signers = |line: &str| {
        fixture.checkout.write("allowed_signers", line);
        fixture.checkout.commit("Edit the signers");
        check(&doctor(&fixture, &[]), "signers")
    };
    let over = format!("vault@example.org valid-before=\"20200101\" {key}\n");
    let (state, found, _) = signers(&over);
    assert_eq!(state, "fail", "{found}");
    assert!(found.contains("1 more whose time is over"), "{found}");
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let (state, found, _) = signers(&format!("{over}vault@example.org {other}\n"));
    assert_eq!(state, "warn", "{found}");
    assert!(
        found.contains("vault@example.org for approvals")
            && found.contains("counts no more since 2020-01-01"),
        "{found}"
    );
    let (state, found, _) = signers("*@example.org ssh-ed25519 AAAA\n");
    assert_eq!(state, "fail", "{found}");
    assert!(
        found.contains("the allowed signers of the Policy are void: line 1"),
        "{found}"
    );
}

#[test]
#[cfg(unix)]
fn pushes_of_a_run_that_the_remote_would_refuse_are_named() {
    let site = example("edge");
    site.simulator("{clock: virtual, faults: []}");
    site.checkout.commit("A site");
    let (site, origin) = shared(site);
    let hook = origin.path().join("hooks/update");
    let zero = "0000000000000000000000000000000000000000";
    let refuses = |condition: &str| {
        let script = format!("#!/bin/sh\n{condition} && exit 1\nexit 0\n");
        crate::cli_interrupted::write_hook(&hook, &script);
    };
    refuses("case $1 in refs/tags/*) true;; *) false;; esac");
    let (state, found, _) = check(&doctor(&site, &[]), "push");
    assert_eq!(state, "warn", "{found}");
    assert!(
        found.contains("refuses the tag of a site action: "),
        "{found}"
    );
    refuses(&format!("[ $3 = {zero} ]"));
    let (state, found, _) = check(&doctor(&site, &[]), "push");
    assert_eq!(state, "warn", "{found}");
    assert!(found.contains("refuses the release of a lock: "), "{found}");
    assert!(found.contains("doctor/lock` of the trial stays"), "{found}");
    // The next trial finds what an earlier one has left.
    std::fs::remove_file(&hook).unwrap();
    doctor(&site, &[]);
    // Records are pushed at the end of a run, which would be too late to learn it.
    refuses("case $1 in refs/trueup/*/state) true;; *) false;; esac");
    let (state, found, _) = check(&doctor(&site, &[]).with(1), "push");
    assert_eq!(state, "fail", "{found}");
    assert!(found.contains("refuses records, so that no run"), "{found}");
    std::fs::remove_file(&hook).unwrap();
    let (state, found, _) = check(&doctor(&site, &[]), "push");
    assert_eq!(state, "ok", "{found}");
    assert_eq!(
        origin.git(&["for-each-ref", "refs/trueup", "refs/tags"]),
        ""
    );
    let (state, ..) = check(&doctor(&site, &["--no-push"]), "push");
    assert_eq!(state, "skip");
    site.run(&["apply", "--yes"]).with(0);
    // Without the lock nothing can be applied, which is no mere warning.
    refuses("case $1 in refs/trueup/*) true;; *) false;; esac");
    let refused = doctor(&site, &[]).with(1);
    let (state, found, next) = check(&refused, "push");
    assert_eq!(state, "fail", "{found}");
    assert!(found.contains("so that nothing can be applied"), "{found}");
    assert!(
        !next.contains("refPrefix"),
        "the remote has such refs: {next}"
    );
}
