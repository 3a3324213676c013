//! Each kind of clone that people and pipelines have, with each command: a table.
//!
//! A site was applied from one clone, and a change of it is pushed. Each row makes another clone, in which the change is
//! looked at and applied.

use super::accepted::example;
use super::cli_interrupted::shared;
use super::fixture::Fixture;
use super::git::{Checkout, Origin};

/// A site that was applied, a clone of it, and where it is shared.
struct World {
    first: Fixture,
    origin: Origin,
}

impl World {
    fn new() -> Self {
        let site = example("edge");
        for folder in ["nothing", "other"] {
            let path = format!("{folder}/readme.txt");
            site.checkout.write(&path, "Nothing of the site.\n");
        }
        site.checkout.commit("A site");
        let (first, origin) = shared(site);
        first.run(&["apply", "--yes"]).with(0);
        first.edit("profiles.yaml", "role: worker}", "role: w2}");
        first.checkout.commit("Another label");
        first.checkout.git(&["push", "--quiet"]);
        Self { first, origin }
    }

    /// A clone that was made with some arguments.
    fn clone(&self, arguments: &[&str]) -> Fixture {
        let clone = Fixture::of(Checkout::clone_of(&self.origin.url(), arguments), "edge");
        // The machines are looked for in git's own folder, wherever that is.
        let machines = clone.checkout.outside().join("machines");
        std::fs::create_dir_all(machines.join("edge")).unwrap();
        let git = |arguments: &[&str]| clone.checkout.git(arguments);
        git(&[
            "config",
            "trueup.simulatedSites",
            machines.to_str().unwrap(),
        ]);
        let site = machines.join("edge/simulated-site.json");
        std::fs::copy(self.first.simulated_site(), site).unwrap();
        clone
    }

    /// A commit beside those of the site, pushed.
    fn push(&self, path: &str, text: &str) {
        self.first.checkout.write(path, text);
        self.first.checkout.commit(path);
        self.first.checkout.git(&["push", "--quiet"]);
    }
}

/// A command, how it ends, and words on its standard error.
type Expected = (&'static str, i32, &'static str);

/// How all commands end in a clone that git can work with.
const WELL: [Expected; 9] = [
    ("validate", 0, ""),
    ("plan --detailed-exitcode", 2, ""),
    ("plan --observed none", 0, ""),
    ("status", 0, ""),
    ("doctor", 0, ""),
    ("apply --yes", 0, ""),
    ("apply --resume --yes", 1, "no run"),
    ("plan --detailed-exitcode", 0, ""),
    ("log", 0, ""),
];

/// Sets the remote back to a state, with the tags of then: nothing was applied since.
fn set_back(world: &World, state: &str, tags: &str) {
    let reset = ["update-ref", "refs/trueup/edge/state", state];
    world.origin.git(&reset);
    delete_tags(world, tags);
}

/// Deletes the tags of the remote but those.
fn delete_tags(world: &World, kept: &str) {
    for tag in world.origin.git(&["tag", "--list"]).lines() {
        if !kept.lines().any(|kept| kept == tag) {
            world.origin.git(&["tag", "--delete", tag]);
        }
    }
}

fn holds(fixture: &Fixture, kind: &str, expected: &[Expected]) {
    for (line, code, words) in expected {
        let arguments: Vec<&str> = line.split(' ').collect();
        let ended = fixture.run(&arguments);
        assert!(
            ended.code == *code && ended.stderr.contains(words),
            "{kind}: `trueup {line}` ended with {}\nstdout:\n{}\nstderr:\n{}",
            ended.code,
            ended.stdout,
            ended.stderr
        );
    }
}

/// The kinds that work like a plain clone.
fn make(kind: &str, world: &World) -> Fixture {
    let clone = match kind {
        "shallow" => world.clone(&["--depth=1"]),
        "without files" => world.clone(&["--filter=blob:none"]),
        "without folders" => world.clone(&["--filter=tree:0"]),
        "shallow, without files" => world.clone(&["--depth=1", "--filter=blob:none"]),
        "git data elsewhere" => {
            let beside = world.origin.path().join("../store");
            let _ = std::fs::remove_dir_all(&beside);
            world.clone(&["--separate-git-dir", beside.to_str().unwrap()])
        }
        "CRLF by configuration" => world.clone(&["--config", "core.autocrlf=true"]),
        _ => world.clone(&[]),
    };
    let git = |arguments: &[&str]| clone.checkout.git(arguments);
    let hidden = clone.checkout.path().join(".git");
    match kind {
        "a link to git data" => {
            let elsewhere = clone.checkout.outside().join("git-data");
            std::fs::rename(&hidden, &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &hidden).unwrap();
        }
        "detached" => drop(git(&["checkout", "--quiet", "--detach"])),
        "packed" => drop(git(&["gc", "--quiet"])),
        "a split index" => drop(git(&["update-index", "--split-index"])),
        "an index of another form" => drop(git(&["update-index", "--index-version=4"])),
        "a sparse checkout" => {
            git(&["sparse-checkout", "set", "--no-cone", "/*", "!nodes.yaml"]);
            assert!(!clone.checkout.path().join("nodes.yaml").exists());
        }
        "a sparse index" => {
            git(&[
                "sparse-checkout",
                "set",
                "--cone",
                "--sparse-index",
                "nothing",
            ]);
        }
        "taken for unchanged" => {
            git(&["update-index", "--assume-unchanged", "nodes.yaml"]);
            std::fs::write(clone.checkout.path().join("nodes.yaml"), "").unwrap();
        }
        "skipped by hand" => {
            git(&["update-index", "--skip-worktree", "nodes.yaml"]);
            std::fs::remove_file(clone.checkout.path().join("nodes.yaml")).unwrap();
        }
        _ => {}
    }
    assert_eq!(git(&["status", "--porcelain"]), "", "{kind}");
    clone
}

#[test]
fn in_each_clone_that_git_calls_clean_all_commands_work() {
    let world = World::new();
    for kind in [
        "plain",
        "shallow",
        "without files",
        "without folders",
        "shallow, without files",
        "git data elsewhere",
        "a link to git data",
        "detached",
        "packed",
        "a split index",
        "an index of another form",
        "CRLF by configuration",
        "a sparse checkout",
        "a sparse index",
        "taken for unchanged",
        "skipped by hand",
    ] {
        let clone = make(kind, &world);
        let state = world.origin.git(&["rev-parse", "refs/trueup/edge/state"]);
        let tags = world.origin.git(&["tag", "--list"]);
        holds(&clone, kind, &WELL);
        // For the next one nothing was applied.
        set_back(&world, &state, &tags);
    }
}

#[test]
fn bytes_that_git_changes_when_it_commits_are_compared_as_git_compares_them() {
    for (attributes, is_well) in [
        ("*.yaml text eol=crlf\n", true),
        ("*.yaml text=auto eol=crlf\n", true),
        ("*.yaml -text\n", true),
        ("*.yaml ident\n", true),
        ("nodes.yaml filter=rot\n", false),
        ("*.yaml filter=unknown\n", true),
    ] {
        let world = World::new();
        let three = "# Three machines";
        world
            .first
            .edit("nodes.yaml", three, &format!("# $Id$\n{three}"));
        world.push(".gitattributes", attributes);
        world
            .first
            .run(&["apply", "--yes", "--allow-intermediate-commits"])
            .with(0);
        world.first.edit("profiles.yaml", "role: w2}", "role: w3}");
        world.push("other/readme.txt", "Nothing else.\n");
        let clone = world.clone(&[]);
        if attributes.contains("rot") {
            // The text is in the worktree, and what the filter makes of it is committed.
            let git = |arguments: &[&str]| clone.checkout.git(arguments);
            git(&["config", "filter.rot.clean", "rev"]);
            git(&["config", "filter.rot.smudge", "rev"]);
            git(&["add", "--renormalize", "."]);
            git(&["commit", "--quiet", "--message=Filtered"]);
            git(&["push", "--quiet"]);
        }
        assert_eq!(
            clone.checkout.git(&["status", "--porcelain"]),
            "",
            "{attributes}"
        );
        if is_well {
            holds(&clone, attributes, &WELL);
        } else {
            let apply = ("apply --yes", 4, "nodes.yaml (filter `rot`)");
            holds(&clone, attributes, &[("validate", 0, ""), apply]);
        }
    }
}

#[test]
fn what_git_does_not_call_clean_is_not_applied() {
    let world = World::new();
    let clone = world.clone(&[]);
    clone.checkout.write("more.yaml", "# Nothing yet.\n");
    let refused = ("apply --yes", 4, "more.yaml");
    holds(&clone, "added", &[refused]);
    clone.checkout.git(&["add", "--intent-to-add", "more.yaml"]);
    holds(&clone, "to be added", &[refused]);
}

#[test]
fn a_commit_that_is_gone_is_another_line() {
    let world = World::new();
    world.push("leak.txt", "a secret\n");
    world
        .first
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    let git = |arguments: &[&str]| world.first.checkout.git(arguments);
    git(&["checkout", "--quiet", "--orphan", "new"]);
    git(&["rm", "--quiet", "--cached", "leak.txt"]);
    std::fs::remove_file(world.first.checkout.path().join("leak.txt")).unwrap();
    world.first.edit("profiles.yaml", "role: w2}", "role: w3}");
    world.first.checkout.commit("All in one");
    git(&["push", "--quiet", "--force", "origin", "new:main"]);
    for tag in world.origin.git(&["tag"]).lines() {
        world.origin.git(&["tag", "--delete", tag]);
    }
    world.origin.git(&["gc", "--quiet", "--prune=now"]);
    let gone = "is neither here nor at the remote";
    for (kind, arguments) in [("whole", &[][..]), ("shallow", &["--depth=1"])] {
        let clone = world.clone(arguments);
        let state = world.origin.git(&["rev-parse", "refs/trueup/edge/state"]);
        let tags = world.origin.git(&["tag", "--list"]);
        holds(
            &clone,
            kind,
            &[
                ("validate", 0, ""),
                ("plan --detailed-exitcode", 2, gone),
                ("status", 0, gone),
                ("doctor", 0, ""),
                ("apply --yes", 4, gone),
                ("apply --yes --allow-intermediate-commits", 0, gone),
                ("log", 0, ""),
                ("plan --detailed-exitcode", 0, ""),
            ],
        );
        set_back(&world, &state, &tags);
    }
}

#[test]
fn records_at_two_places_are_refused_wherever_they_are_looked_for() {
    let world = World::new();
    let usual = world.clone(&[]);
    let other = world.clone(&["--config", "trueup.refPrefix=refs/heads/trueup"]);
    let words = "records of site `edge` at `refs/trueup/edge/state`";
    let refused: Vec<Expected> = ["plan", "status", "log", "apply --yes --adopt all"]
        .map(|line| (line, 1, words))
        .into();
    holds(&other, "another prefix", &refused);
    holds(&other, "another prefix", &[("validate", 0, "")]);
    // The same the other way round, if the usual place has none.
    let git = |arguments: &[&str]| world.origin.git(arguments);
    git(&[
        "update-ref",
        "refs/heads/trueup/edge/state",
        "refs/trueup/edge/state",
    ]);
    git(&["update-ref", "-d", "refs/trueup/edge/state"]);
    let words = "`git config trueup.refPrefix refs/heads/trueup`";
    holds(&usual, "the usual prefix", &[("apply --yes", 1, words)]);
    holds(&other, "another prefix", &[("apply --yes", 0, "")]);
    // A branch of that name which holds something else is no place of records.
    git(&["update-ref", "-d", "refs/heads/trueup/edge/state"]);
    git(&["branch", "work/edge/state", "main"]);
    delete_tags(&world, "");
    holds(
        &usual,
        "a branch of that name",
        &[("plan --detailed-exitcode", 2, "")],
    );
}

#[test]
fn a_push_that_is_refused_names_the_way_out_of_what_was_refused() {
    let world = World::new();
    let clone = world.clone(&[]);
    let git = |arguments: &[&str]| clone.checkout.git(arguments);
    git(&[
        "config",
        "remote.origin.pushurl",
        "file:///nonexistent/site.git",
    ]);
    let address = ("apply --yes", 1, "`git remote get-url --push origin`");
    holds(&clone, "an address", &[address]);
    git(&["config", "--unset", "remote.origin.pushurl"]);
    git(&["config", "remote.origin.mirror", "true"]);
    let mirror = (
        "apply --yes",
        1,
        "`git config --unset remote.origin.mirror`",
    );
    holds(&clone, "a mirror", &[mirror]);
}

#[test]
fn the_same_files_in_another_commit_are_no_other_line() {
    let world = World::new();
    let clone = world.clone(&[]);
    let git = |arguments: &[&str]| clone.checkout.git(arguments);
    // Applied on a branch, and merged by squash; the branch is gone.
    clone.run(&["apply", "--yes"]).with(0);
    git(&["checkout", "--quiet", "-b", "side"]);
    clone.edit("profiles.yaml", "role: w2}", "role: w3}");
    clone.checkout.commit("First");
    clone.edit("profiles.yaml", "role: w3}", "role: w4}");
    clone.checkout.commit("Second");
    clone
        .run(&["apply", "--yes", "--allow-intermediate-commits"])
        .with(0);
    git(&["checkout", "--quiet", "main"]);
    git(&["merge", "--quiet", "--squash", "side"]);
    clone.checkout.commit("Both");
    clone.edit("profiles.yaml", "role: w4}", "role: w5}");
    clone.checkout.commit("One more");
    git(&["push", "--quiet"]);
    holds(
        &clone,
        "squashed",
        &[("plan --detailed-exitcode", 2, ""), ("apply --yes", 0, "")],
    );
    // What lies between is told as on one line.
    git(&["checkout", "--quiet", "-B", "other", "HEAD~1"]);
    for role in ["w6", "w7"] {
        let text = clone
            .read("profiles.yaml")
            .replace("role: w4}", "role: w6}");
        let text = text.replace("role: w6}", &format!("role: {role}}}"));
        clone.checkout.write("profiles.yaml", text);
        clone.checkout.commit(role);
    }
    holds(
        &clone,
        "another line",
        &[("apply --yes", 4, "is not on the line of")],
    );
}

#[test]
fn no_program_of_the_repository_is_run_where_nothing_is_contacted() {
    let world = World::new();
    let clone = world.clone(&[]);
    let mark = clone.checkout.outside().join("mark");
    let run = format!("touch {}", mark.display());
    let git = |arguments: &[&str]| clone.checkout.git(arguments);
    for key in [
        "core.fsmonitor",
        "filter.own.clean",
        "diff.own.textconv",
        "diff.external",
    ] {
        git(&["config", key, &run]);
    }
    for hook in [
        "post-index-change",
        "reference-transaction",
        "post-checkout",
    ] {
        let path = clone.checkout.path().join(".git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{run}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    clone
        .checkout
        .write(".gitattributes", "*.yaml filter=own diff=own\n");
    clone.edit("nodes.yaml", "# Three", "# 3");
    holds(
        &clone,
        "programs",
        &[
            ("validate", 0, ""),
            ("render", 0, ""),
            ("diff --base HEAD --diff worktree", 0, ""),
            ("plan --observed none --offline", 0, ""),
        ],
    );
    assert!(!mark.exists(), "a program of the repository was run");
    // It would have been: git itself runs it.
    git(&["status", "--porcelain"]);
    assert!(mark.exists());
}

#[test]
fn a_bare_repository_is_read_by_its_revisions() {
    let world = World::new();
    let clone = world.clone(&[]);
    let bare = clone.checkout.outside().join("bare.git");
    let place = bare.to_str().unwrap();
    let url = world.origin.url();
    clone
        .checkout
        .git(&["clone", "--quiet", "--bare", &url, place]);
    let machines = clone.checkout.outside().join("machines");
    let git = |arguments: &[&str]| {
        clone
            .checkout
            .git(&[&["--git-dir", place], arguments].concat());
    };
    git(&[
        "config",
        "trueup.simulatedSites",
        machines.to_str().unwrap(),
    ]);
    let none = "is bare: it has no worktree";
    for (line, code, words) in [
        ("validate --rev main", 0, ""),
        ("validate --rev HEAD~1", 0, ""),
        ("render --rev main", 0, ""),
        ("plan --rev main --detailed-exitcode", 2, ""),
        ("plan --rev HEAD --observed none", 0, ""),
        ("log", 0, ""),
        ("validate", 1, none),
        ("validate", 1, "`--rev REV`"),
        ("plan", 1, none),
        ("apply --yes", 1, none),
        ("validate --rev nothing", 1, "nothing"),
        ("init", 1, none),
        ("init below", 1, none),
        ("fmt config", 1, none),
        ("fmt", 1, none),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = clone.command(&arguments).current_dir(&bare).output();
        let ended: super::fixture::Ended = output.unwrap().into();
        assert!(
            ended.code == code && ended.stderr.contains(words),
            "`trueup {line}` ended with {}\nstdout:\n{}\nstderr:\n{}",
            ended.code,
            ended.stdout,
            ended.stderr
        );
    }
    git(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    let output = clone
        .command(&["validate", "--rev", "main"])
        .current_dir(&bare)
        .output();
    let ended: super::fixture::Ended = output.unwrap().into();
    assert!(
        ended.code == 1
            && ended.stderr.contains("leads to no commit")
            && ended.stderr.contains("git symbolic-ref HEAD"),
        "{}",
        ended.stderr
    );
    git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    // If git is told not to take it for a repository, it is none.
    let strict = ["config", "--global", "safe.bareRepository", "explicit"];
    let mut command = std::process::Command::new("git");
    let home = clone.checkout.outside();
    command
        .args(strict)
        .env("HOME", home)
        .env("GIT_CONFIG_GLOBAL", home.join(".gitconfig"));
    assert!(command.status().unwrap().success());
    let output = clone
        .command(&["validate", "--rev", "main"])
        .current_dir(&bare)
        .output();
    let ended: super::fixture::Ended = output.unwrap().into();
    assert!(
        ended.code != 0 && ended.stderr.contains("safe.bareRepository"),
        "{}",
        ended.stderr
    );
}
