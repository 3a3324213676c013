//! Which flags the environment may set: never one that allows something.

use std::collections::BTreeSet;

use trueup::cli::SETTABLE;

use super::fixture::Fixture;

/// Flags that allow what is refused without them, take a part of a plan's safety away, or are an act.
const BY_HAND: &[&str] = &[
    "adopt",
    "all",
    "allow",
    "allow-destroy",
    "allow-duplicate-keys",
    "allow-intermediate-commits",
    "allow-loosening",
    "allow-missing-sources",
    "allow-redeploy",
    "allow-reinstall",
    "allow-restart",
    "allow-unverified",
    "anonymise",
    "as-is",
    "attempts",
    "back",
    "break-glass",
    "ca",
    "certificate",
    "change",
    "check",
    "close",
    "config",
    "credentials",
    "decide",
    "destroy-etcd",
    "effect",
    "etcd",
    "etcd-ca",
    "etcd-cert",
    "etcd-key",
    "expires",
    "field",
    "force",
    "forget",
    "from",
    "hang",
    "head",
    "i-have-checked",
    "identity",
    "into",
    "issue",
    "key",
    "kubeconfig",
    "list",
    "log",
    "machines",
    "max-remediations",
    "max-unavailable",
    "max-unhealthy",
    "no-etcd-here",
    "no-push",
    "name",
    "node-is-gone",
    "on",
    "on-drain-timeout",
    "outside-windows",
    "plan-digest",
    "preserve-local-storage",
    "prune-tags",
    "range",
    "reason",
    "release-node",
    "report",
    "repository",
    "resume",
    "resume-interrupted",
    "revoke",
    "rollout",
    "rules",
    "run",
    "shipyard",
    "show-secrets",
    "sign",
    "skip-blocked",
    "step",
    "supersede",
    "take",
    "take-over-dead",
    "target-revision",
    "to",
    "token",
    "try",
    "unset",
    "until",
    "url",
    "username",
    "watch",
    "with-guards",
    "write",
    "yes",
];

fn variable(flag: &str) -> String {
    format!("TRUEUP_{}", flag.to_uppercase().replace('-', "_"))
}

/// The flags of a command and of those below it, each with the variable that it is read from.
fn flags(command: &clap::Command, found: &mut BTreeSet<(String, Option<String>)>) {
    for argument in command.get_arguments() {
        if let Some(long) = argument.get_long() {
            let variable = argument
                .get_env()
                .map(|name| name.to_string_lossy().into_owned());
            found.insert((long.to_owned(), variable));
        }
    }
    for below in command.get_subcommands() {
        flags(below, found);
    }
}

#[test]
fn every_flag_is_either_a_setting_or_given_by_hand() {
    let mut found = BTreeSet::new();
    flags(&trueup::cli::command(), &mut found);
    let mut wrong = Vec::new();
    for (flag, variable_read) in &found {
        let (is_setting, is_by_hand) = (
            SETTABLE.contains(&flag.as_str()),
            BY_HAND.contains(&flag.as_str()),
        );
        let expected = is_setting.then(|| variable(flag));
        let is_help = matches!(flag.as_str(), "help" | "version");
        if *variable_read != expected || (is_setting == is_by_hand) != is_help {
            wrong.push(flag);
        }
    }
    assert!(
        wrong.is_empty(),
        "decide whether these allow something, and put each into one of the lists: {wrong:?}"
    );
    for flag in SETTABLE.iter().chain(BY_HAND) {
        assert!(
            found.iter().any(|(known, _)| known == flag),
            "there is no `--{flag}`"
        );
    }
}

#[test]
fn a_variable_for_a_flag_that_allows_something_has_no_effect() {
    let fixture = Fixture::one_rack();
    let plain = fixture.run(&["plan"]).with(0);
    let mut apply = fixture.command(&["apply"]);
    let mut plan = fixture.command(&["plan"]);
    for command in [&mut apply, &mut plan] {
        for flag in BY_HAND {
            let value = match *flag {
                "adopt" | "allow-destroy" | "allow-redeploy" | "allow-reinstall"
                | "allow-restart" => "all",
                "allow" => "restart",
                _ => "1",
            };
            command.env(variable(flag), value);
        }
    }
    let ended: super::fixture::Ended = plan.output().unwrap().into();
    assert_eq!((ended.code, &ended.stdout), (0, &plain.stdout));
    let ended: super::fixture::Ended = apply.output().unwrap().into();
    assert_eq!(ended.code, 64, "{}", ended.stderr);
    assert!(ended.stderr.contains("--yes"), "{}", ended.stderr);
}

#[test]
fn a_variable_shows_no_secret() {
    let fixture = Fixture::one_rack();
    fixture.checkout.write(
        "secret.yaml",
        "---\nschema: deckhand/Passphrase/v1\nmetadata:\n  name: x\n  schema: metadata/Document/v1\n  \
         storagePolicy: encrypted\n  layeringDefinition: {layer: site, abstract: false}\ndata: hunter2\n",
    );
    let mut command = fixture.command(&["render"]);
    command.env("TRUEUP_SHOW_SECRETS", "1");
    let ended: super::fixture::Ended = command.output().unwrap().into();
    let ended = ended.with(0);
    assert!(!ended.stdout.contains("hunter2"));
}
