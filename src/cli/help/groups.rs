//! The groups of flags in `--help`.

use clap::Arg;

/// Each group with its flags, by their long names, or the id of one that has none.
///
/// A flag of no group is an act of its command alone, and stands first.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Selection",
        &[
            "affected-by",
            "all",
            "all-sites",
            "as-of",
            "base",
            "diff",
            "differing",
            "directory",
            "exclude",
            "as-is",
            "field",
            "group",
            "label",
            "maintenance",
            "observed",
            "rack",
            "repository",
            "retired",
            "rules",
            "rev",
            "site",
            "tag",
            "target",
            "target-revision",
        ],
    ),
    (
        "Guards",
        &[
            "adopt",
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
            "backends-from",
            "break-glass",
            "canary",
            "effect",
            "max-failures",
            "max-unavailable",
            "outside-windows",
            "skip-blocked",
            "ticket",
            "with-guards",
            "yes",
        ],
    ),
    (
        "Run",
        &[
            "decide",
            "force",
            "max-tasks",
            "nodes-per-part",
            "overlap",
            "parallel-groups",
            "parallelism",
            "plan-digest",
            "pool",
            "pushes-per-minute",
            "queue",
            "resume",
            "resume-interrupted",
            "rollout",
            "run",
            "schedule",
            "stop-after",
            "stop-grace",
            "supersede",
            "take-over-dead",
            "workers",
        ],
    ),
    (
        "Actions on nodes",
        &[
            "clear-labels-timeout",
            "destroy-etcd",
            "drain-node-grace-period",
            "drain-node-timeout",
            "etcd-ready-timeout",
            "forget",
            "i-have-checked",
            "no-etcd-here",
            "node-is-gone",
            "on-drain-timeout",
            "preserve-local-storage",
            "reason",
            "remove-etcd-timeout",
            "step",
            "unset",
            "until",
        ],
    ),
    (
        "Remediation",
        &[
            "attempts",
            "lease",
            "lease-duration",
            "max-remediations",
            "max-unhealthy",
            "release-node",
            "watch",
        ],
    ),
    (
        "Output",
        &[
            "anonymise",
            "check",
            "clean-steps",
            "color",
            "detailed-exitcode",
            "format",
            "full",
            "hang",
            "log",
            "max-bytes",
            "name",
            "no-pager",
            "number",
            "out",
            "plan",
            "rehearse",
            "rendered",
            "report",
            "runs",
            "save-observed",
            "seed",
            "show-secrets",
            "steps",
            "try",
            "verbose",
        ],
    ),
    (
        "Source",
        &[
            "ca",
            "credentials",
            "etcd",
            "etcd-ca",
            "etcd-cert",
            "etcd-key",
            "from",
            "kubeconfig",
            "machines",
            "range",
            "shipyard",
            "token",
            "url",
            "username",
        ],
    ),
    (
        "Connection",
        &[
            "certificate",
            "config",
            "listen",
            "no-push",
            "offline",
            "remote",
        ],
    ),
];

/// The group of a flag; `None`: of none.
pub(super) fn heading(argument: &Arg) -> Option<&'static str> {
    if argument.is_positional() {
        return None;
    }
    let name = argument
        .get_long()
        .unwrap_or_else(|| argument.get_id().as_str());
    let mut groups = GROUPS.iter();
    groups.find_map(|(heading, flags)| flags.contains(&name).then_some(*heading))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Flags of one command, which is about little else.
    const OF_NO_GROUP: [&str; 22] = [
        "back",
        "change",
        "close",
        "example",
        "expires",
        "head",
        "help",
        "identity",
        "into",
        "issue",
        "keep",
        "key",
        "list",
        "on",
        "prune-tags",
        "revoke",
        "sign",
        "story",
        "take",
        "to",
        "version",
        "write",
    ];

    fn flags(command: &clap::Command, found: &mut BTreeSet<String>) {
        let named = command.get_arguments().filter(|each| !each.is_positional());
        found.extend(named.map(|each| {
            let name = each.get_long().unwrap_or_else(|| each.get_id().as_str());
            name.to_owned()
        }));
        for below in command.get_subcommands() {
            flags(below, found);
        }
    }

    #[test]
    fn every_flag_is_in_one_group() {
        let mut found = BTreeSet::new();
        flags(&crate::cli::command(), &mut found);
        let grouped = GROUPS.iter().flat_map(|(_, flags)| *flags);
        let mut listed: Vec<&str> = grouped.copied().chain(OF_NO_GROUP).collect();
        listed.sort_unstable();
        let twice = listed.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
        for flag in &found {
            assert!(listed.contains(&&**flag), "`--{flag}` is in no group");
        }
        let automatic = ["help", "version"];
        let gone = listed
            .iter()
            .find(|flag| !found.contains(**flag) && !automatic.contains(flag));
        assert_eq!(gone, None, "there is no such flag");
    }
}
