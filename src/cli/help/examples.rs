//! The examples of each command, for `--help` and the manual pages.

/// Whether a command takes an action and its nodes, or lists the actions.
pub(super) fn takes_actions(command: &str) -> bool {
    matches!(command, "plan" | "apply" | "actions")
}

/// The purpose of a command line, and the line.
pub(in crate::cli) type Example = (&'static str, &'static str);

/// The examples of `trueup adopt`.
const ADOPT: [Example; 4] = [
    (
        "Describe the machines of Ironic, in a repository of git (`git init`)",
        "trueup adopt -o edge --from ironic --url https://ironic.example.org:6385 --credentials env:OS_TOKEN \
         --kubeconfig file:secrets/kubeconfig",
    ),
    (
        "Take over a site that Airship runs, with its documents",
        "trueup adopt -o edge --from airship --url http://maas.example.org:5240/MAAS --credentials env:MAAS_KEY --shipyard \
         https://shipyard.example.org:9000/api/v1.0 --token env:OS_TOKEN",
    ),
    (
        "Look for controllers in a range, with names and racks from a table",
        "trueup adopt -o edge --from redfish --range 10.23.0.0/24 --username admin --credentials env:BMC_PASSWORD --machines \
         machines.csv",
    ),
    (
        "Add what is new to a site that is described, and its etcd cluster",
        "trueup adopt --etcd kubernetes=https://10.0.0.11:2379 --etcd-ca file:pki/etcd-ca.pem",
    ),
];

/// The examples of a command, by its words behind `trueup`.
pub(in crate::cli) fn examples(command: &str) -> &'static [Example] {
    match command {
        "trueup" => &[
            (
                "Write a small site, and see what it takes to deploy it",
                "trueup init edge && cd edge && trueup plan",
            ),
            ("Plan what is committed, ask, and apply it", "trueup apply"),
            ("Show the last run", "trueup show"),
        ],
        "plan" => &[
            (
                "Plan the whole site, and save the plan for a review",
                "trueup plan -o site.plan",
            ),
            (
                "Plan two racks, with the redeploys that the design asks for",
                "trueup plan --target rack:rack1,rack:rack2 --allow-redeploy all",
            ),
            (
                "Plan without asking anything outside of the repository",
                "trueup plan --observed none --offline",
            ),
            ("Plan an action on nodes", "trueup plan teardown 'old-*'"),
            (
                "Rehearse the run two hundred times, with steps that go wrong",
                "trueup plan --rehearse 200",
            ),
            (
                "Plan the way back to the success before the last one",
                "trueup plan --to successful-site-action~1",
            ),
            (
                "Plan all sites that a branch affects, as one comment",
                "trueup plan --affected-by origin/main..HEAD --format markdown",
            ),
        ],
        "adopt" => &ADOPT,
        "apply" => &[
            ("Plan what is committed, ask, and apply it", "trueup apply"),
            (
                "Apply a saved plan, with what it allows",
                "trueup apply site.plan --effect 3f2a9c41d07be865",
            ),
            ("Resume the interrupted run", "trueup apply --resume"),
            (
                "Drain a node",
                "trueup apply drain node-7 --drain-node-timeout 90m",
            ),
        ],
        "run" => &[
            (
                "Begin a run for workers, in the clone that has the plan",
                "trueup run begin site.plan --run nightly-7",
            ),
            (
                "Carry out one of its parts, in a clone of its own",
                "trueup run part nightly-7 storage.deploy-1 --plan-digest $DIGEST",
            ),
            ("End it", "trueup run end nightly-7"),
        ],
        "comment" => &[
            (
                "Publish a plan as the comment of a pull request, in its pipeline",
                "trueup plan --format markdown > plan.md && trueup comment --on github plan.md",
            ),
            (
                "Publish it where the merge request still has the commit that was planned",
                "trueup comment --on gitlab --change 17 --head $CI_COMMIT_SHA plan.md",
            ),
            (
                "Open an issue with what differs, or update it",
                "trueup comment --on github --issue Drift plan.md",
            ),
        ],
        "approve" => &[(
            "Approve a saved plan with the key that git signs with",
            "trueup approve site.plan",
        )],
        "serve" => &[
            (
                "Answer the users of this machine at a Unix socket",
                "trueup serve --listen unix:/run/trueup/serve.sock",
            ),
            (
                "Answer others over TLS, and resume what was interrupted",
                "trueup serve --config /etc/trueup/serve.yaml --listen 0.0.0.0:9443 --resume-interrupted",
            ),
        ],
        "actions" => &[
            ("List the actions", "trueup actions"),
            ("Plan one", "trueup plan drain node-7"),
        ],
        _ => of_others(command),
    }
}

fn of_others(command: &str) -> &'static [Example] {
    match command {
        "init" => &[(
            "Write a control plane with etcd into a new folder",
            "trueup init --example control-plane site",
        )],
        "validate" => &[
            ("Check the files as they are", "trueup validate"),
            (
                "Check every site that a branch affects",
                "trueup validate --affected-by origin/main..HEAD",
            ),
            (
                "Check a commit, for code scanning",
                "trueup validate --rev HEAD --format sarif",
            ),
        ],
        "fmt" => &[
            ("Format the documents of the site", "trueup fmt"),
            (
                "Show what is not formatted, and end with 1 where anything is",
                "trueup fmt --check --diff",
            ),
        ],
        "render" => &[(
            "Print the documents of the last success",
            "trueup render --rev successful-site-action",
        )],
        "diff" => &[
            ("Compare the files with the last commit", "trueup diff"),
            (
                "Compare what was applied last with a branch, as rendered",
                "trueup diff --base last-site-action --diff origin/main --rendered",
            ),
            ("Compare two revisions", "trueup diff HEAD~3 HEAD"),
        ],
        "hardware" | "hardware learn" => &[(
            "Write a document of what a good machine has",
            "trueup hardware learn edge-1",
        )],
        "etcd" => &[("Show the health of all etcd clusters", "trueup etcd")],
        "policy" | "policy test" => &[(
            "Judge a saved plan by the rules in a folder of the repository",
            "trueup policy test site.plan --rules policies",
        )],
        "sites" => &[(
            "List the sites that are on the branch of the remote",
            "trueup sites --rev origin/main",
        )],
        "export" => &[
            (
                "Write a saved plan as a DAG for eight workers",
                "trueup export airflow site.plan --out dags --workers 8 --pool bmc",
            ),
            (
                "Write a DAG that plans all sites each hour",
                "trueup export airflow --all-sites --out dags --schedule @hourly",
            ),
            (
                "Write a DAG that continues a rollout until its end",
                "trueup export airflow --rollout fleet --out dags",
            ),
        ],
        "accept" => &[
            (
                "Record the board that replaced another",
                "trueup accept node-7 --identity",
            ),
            (
                "Write the image that a machine has into its documents",
                "trueup accept node-7 --write --field platform.image",
            ),
        ],
        "reserve" => &[
            (
                "Have every plan leave a machine alone for four hours",
                "trueup reserve node-7 --until 4h --reason 'fan swap'",
            ),
            (
                "Leave the machines of a rack alone until a time",
                "trueup reserve rack:r2 --until 2026-11-30T18:00:00Z --reason 'power feed'",
            ),
        ],
        "release" => &[("End the reservation of a machine", "trueup release node-7")],
        "abort" => &[("Abort an interrupted run", "trueup abort 01K8")],
        "unlock" => &[(
            "Release the lock of a run whose process is dead",
            "trueup unlock 01K8 --take-over-dead",
        )],
        "migrate" => &[
            (
                "Move the records to the branch that `trueup.stateBranch` names",
                "trueup migrate",
            ),
            ("Move them back", "trueup migrate --back"),
        ],
        _ => of_views(command),
    }
}

/// Those of commands that show what is, and why.
fn of_views(command: &str) -> &'static [Example] {
    match command {
        "log" => &[
            ("List the last ten runs", "trueup log -n 10"),
            ("Show how each run left a node", "trueup log edge-1"),
        ],
        "show" => &[
            ("Show the last run", "trueup show"),
            (
                "Show a saved plan with every step",
                "trueup show site.plan --steps",
            ),
            (
                "Show the plan of a run, for a pull request",
                "trueup show 01K8 --plan --format markdown",
            ),
        ],
        "bundle" => &[
            (
                "Write what the plan of the site is made of, for a report",
                "trueup bundle -o site.bundle",
            ),
            (
                "Write a run without the names of the site",
                "trueup bundle 01K8 -o run.bundle --anonymise",
            ),
        ],
        "replay" => &[(
            "Make the plan of a bundle again, or show a run",
            "trueup replay site.bundle",
        )],
        "try" => &[(
            "Make a sandbox of the site, from which no machine is reached",
            "trueup try new ../sandbox",
        )],
        "try new" => &[(
            "Make a sandbox of the site, from which no machine is reached",
            "trueup try new ../sandbox",
        )],
        "try fail" => &[(
            "Let the next deploy of a node fail",
            "trueup try fail edge-2 at deploy",
        )],
        "try lose" => &[("Let a machine be out of reach", "trueup try lose edge-2")],
        "try slow" => &[(
            "Let all steps of a node take ten times as long",
            "trueup try slow edge-2 10x",
        )],
        "try kill" => &[(
            "Kill the process that begins a step, once",
            "trueup try kill edge-2 at destroy",
        )],
        "try repair" => &[("Take the faults of a node back", "trueup try repair edge-2")],
        "try fire-drill" => &[(
            "Rehearse the plan with seeded faults",
            "trueup try fire-drill",
        )],
        "try seed" => &[(
            "Let the steps fail that fail in a rehearsed run",
            "trueup try seed 17",
        )],
        "try clock" => &[(
            "Set the clock of the sandbox three days ahead",
            "trueup try clock +3d",
        )],
        "try log" => &[("List what changed the sandbox", "trueup try log")],
        "try undo" => &[("Go back to before the last command", "trueup try undo")],
        "try branch" => &[("Copy the sandbox", "trueup try branch ../second")],
        "explain" => &[
            (
                "Explain the code of a diagnostic",
                "trueup explain rule-cidr",
            ),
            (
                "Explain a field of a kind of document",
                "trueup explain drydock/HostProfile.storage",
            ),
            (
                "Explain why a node changes or is blocked",
                "trueup explain edge-1",
            ),
            (
                "Explain why a step of a run waits or was skipped",
                "trueup explain deploy/workers/edge-1 01K8",
            ),
        ],
        "status" => &[(
            "Show the nodes of a rack that differ from the design",
            "trueup status --rack rack1 --differing",
        )],
        "nodes" => &[(
            "Print the names of the nodes of a group",
            "trueup nodes --group workers --format names",
        )],
        _ => of_workers(command),
    }
}

/// Those of commands about runs that are divided among workers.
fn of_workers(command: &str) -> &'static [Example] {
    match command {
        "rollout plan" => &[(
            "Show the phases of a rollout, and what each site would do",
            "trueup rollout plan fleet",
        )],
        "rollout next" => &[
            ("Do what may be done now", "trueup rollout next fleet"),
            (
                "Begin the rollout of another revision after the last one",
                "trueup rollout next fleet --rev HEAD",
            ),
            (
                "Begin sites that an aborted rollout has not reached",
                "trueup rollout next fleet --allow-intermediate-commits",
            ),
        ],
        "rollout status" => &[("Show how far each site is", "trueup rollout status fleet")],
        "rollout pause" => &[(
            "Begin no further site",
            "trueup rollout pause fleet --reason storm",
        )],
        "rollout resume" => &[("Resume a paused rollout", "trueup rollout resume fleet")],
        "rollout abort" => &[(
            "End a rollout for good",
            "trueup rollout abort fleet --reason replaced",
        )],
        "rollout explain" => &[(
            "Explain why a site is held",
            "trueup rollout explain fleet edge-7",
        )],
        "rollout" => &[("Do what may be done now", "trueup rollout next fleet")],
        "run parts" => &[(
            "Show the parts of a saved plan, of at most 16 nodes each",
            "trueup run parts site.plan --nodes-per-part 16",
        )],
        "run begin" => &[(
            "Begin a run, and print the digest of its plan for the workers",
            "trueup run begin site.plan --run nightly-7 --format json",
        )],
        "run part" => &[(
            "Carry out a part, or resume it",
            "trueup run part nightly-7 storage.deploy-1 --plan-digest $DIGEST",
        )],
        "run end" => &[(
            "End a run, with a report for a browser",
            "trueup run end nightly-7 --report run.html",
        )],
        "run status" => &[("Show how far each part is", "trueup run status nightly-7")],
        "run abort" => &[(
            "Fence all workers, and abort the run",
            "trueup run abort nightly-7",
        )],
        _ => of_surroundings(command),
    }
}

/// Those of commands about trueup's own surroundings.
fn of_surroundings(command: &str) -> &'static [Example] {
    match command {
        "console" => &[
            ("Show the console of a machine", "trueup console node-7"),
            (
                "Keep what it prints, too",
                "trueup console node-7 --log node-7.log",
            ),
        ],
        "images" | "images serve" => &[
            (
                "Serve a folder to the controllers of the site",
                "trueup images serve /srv/images --listen 0.0.0.0:8080",
            ),
            (
                "Over TLS, to one more network",
                "trueup images serve /srv/images --listen 0.0.0.0:8443 --certificate images.pem --key images.key --allow 10.60.4.0/22",
            ),
        ],
        "trust" => &[
            ("Show what the documents name, and trust it", "trueup trust"),
            ("List what is trusted", "trueup trust --list"),
        ],
        "doctor" => &[
            ("Check everything", "trueup doctor"),
            (
                "Check what needs no remote, for a script",
                "trueup doctor --offline --format json",
            ),
        ],
        "schemas" => &[(
            "Refresh the schemas beside a site after an upgrade",
            "trueup schemas .schemas",
        )],
        "demo" => &[(
            "Play the redeploy of a control plane",
            "trueup demo --story redeploy",
        )],
        "completions" => &[
            (
                "Complete in bash; in ~/.bashrc, for every bash",
                "source <(trueup completions bash)",
            ),
            (
                "Complete in zsh; in ~/.zshrc, after compinit, for every zsh",
                "source <(trueup completions zsh)",
            ),
            (
                "Complete in fish; ~/.config/fish/completions/trueup.fish, for every fish",
                "trueup completions fish | source",
            ),
        ],
        "man" => &[
            ("Read the page of `apply`", "trueup man apply"),
            (
                "Write all pages",
                "trueup man --out /usr/local/share/man/man1",
            ),
        ],
        _ => &[],
    }
}

/// The columns of a line of an example, with a backslash at its end.
const COLUMNS: usize = 72;

/// The lines of an example: one that is too long for a screen continues behind a backslash, from a flag or an operator on.
pub(super) fn folded(line: &str) -> Vec<String> {
    let is_joint = |word: &str| word.starts_with("--") || matches!(word, "&&" | "|" | ">");
    let mut parts = Vec::<String>::new();
    for word in line.split(' ') {
        match parts.last_mut() {
            Some(last) if !is_joint(word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
    }
    let mut lines = Vec::<String>::new();
    for part in parts {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + part.chars().count() <= COLUMNS => {
                last.push(' ');
                last.push_str(&part);
            }
            Some(last) => {
                last.push_str(" \\");
                lines.push(part);
            }
            None => lines.push(part),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_example_is_folded_at_a_flag_and_stays_one_command() {
        let line = "trueup images serve /srv/images --listen 0.0.0.0:8443 --certificate images.pem --key images.key";
        assert_eq!(
            folded(line),
            [
                "trueup images serve /srv/images --listen 0.0.0.0:8443 \\",
                "--certificate images.pem --key images.key"
            ]
        );
        assert_eq!(folded("trueup etcd"), ["trueup etcd"]);
    }

    #[test]
    fn every_command_has_examples_that_are_understood() {
        let command = crate::cli::command();
        let mut names = vec!["trueup".to_owned()];
        for one in command.get_subcommands() {
            names.push(one.get_name().to_owned());
            let below = one.get_subcommands().map(clap::Command::get_name);
            names.extend(below.map(|two| format!("{} {two}", one.get_name())));
        }
        for name in &names {
            let examples = examples(name);
            assert!(!examples.is_empty(), "`{name}` has no example");
            for (purpose, line) in examples {
                let folded = folded(line);
                assert_eq!(folded.join("\n").replace(" \\\n", " "), *line);
                let is_narrow = |text: &str| text.chars().count() <= 74;
                assert!(is_narrow(purpose), "{purpose}");
                assert!(folded.iter().all(|line| is_narrow(line)), "{line}");
                let last = line.split("&&").last().unwrap();
                let from = last.find("trueup").unwrap();
                let words = last[from..]
                    .split([')', '|'])
                    .next()
                    .unwrap()
                    .replace('\'', "")
                    .replace("$DIGEST", &"0".repeat(64));
                let parsed = command
                    .clone()
                    .try_get_matches_from(words.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }
}
