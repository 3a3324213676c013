//! Where a repository is, what it is made of and how it is configured, against the git program.

use std::ffi::OsString;
use std::path::Path;

use trueup::repository::{Repository, Selection};

use crate::git::Checkout;

#[test]
fn the_way_out_of_sha_256_ids_works() {
    let checkout = Checkout::new();
    let long = checkout.outside().join("long");
    let path = long.to_str().unwrap();
    checkout.git(&[
        "init",
        "--quiet",
        "--object-format=sha256",
        "-b",
        "main",
        path,
    ]);
    std::fs::write(long.join("a.yaml"), "a: 1\n").unwrap();
    let git = |arguments: &[&str]| checkout.git(&[&["-C", path], arguments].concat());
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    let error = Repository::discover(&long).unwrap_err();
    assert!(error.to_string().contains("SHA-256 object ids"), "{error}");
    let hint = error.hint().unwrap();
    let commands: Vec<&str> = hint.split('`').skip(1).step_by(2).collect();
    let script = commands.join(" && ").replace("NEW", "../new");
    let status = std::process::Command::new("sh")
        .args(["-ec", &script])
        .current_dir(&long)
        .status();
    assert!(status.unwrap().success(), "{script}");
    let new = checkout.outside().join("new");
    checkout.git(&["-C", new.to_str().unwrap(), "switch", "--quiet", "main"]);
    let repository = Repository::discover(&new).unwrap();
    assert!(repository.head().unwrap().is_some());
}

#[test]
fn the_configuration_is_that_of_git_whoever_set_it() {
    let checkout = Checkout::new();
    let included = checkout.outside().join("included");
    std::fs::write(&included, "[trueup]\n stateBranch = records\n").unwrap();
    let key = format!("includeIf.gitdir:{}/.path", checkout.path().display());
    checkout.git(&["config", &key, included.to_str().unwrap()]);
    assert_eq!(
        checkout.open().state_branch().unwrap().as_deref(),
        Some("records"),
        "an include that depends on the repository"
    );
    let file = checkout.outside().join("global");
    std::fs::write(
        &file,
        "[user]\n name = bot\n[trueup]\n refPrefix = refs/a\n",
    )
    .unwrap();
    let variables = |_: &Path| -> Vec<(OsString, OsString)> {
        let given = [
            ("PATH", std::env::var("PATH").unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_CONFIG_GLOBAL", file.display().to_string()),
            ("GIT_CONFIG_COUNT", "1".to_owned()),
            ("GIT_CONFIG_KEY_0", "trueup.refPrefix".to_owned()),
            ("GIT_CONFIG_VALUE_0", "refs/b".to_owned()),
        ];
        given
            .map(|(name, value)| (name.into(), value.into()))
            .into()
    };
    let repository = Repository::discover_with(checkout.path(), &variables).unwrap();
    assert_eq!(
        repository.config("User.Name").unwrap().as_deref(),
        Some("bot")
    );
    assert_eq!(
        repository.ref_prefix().unwrap(),
        "refs/b",
        "the nearest wins"
    );
}

#[cfg(unix)]
#[test]
fn the_worktree_is_where_git_has_it() {
    let checkout = Checkout::new();
    checkout.write("a.yaml", "a: 1\n");
    let head = checkout.commit("first");
    let beside = checkout.outside().join("store");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("other.yaml"), "b: 1\n").unwrap();
    let place = |name: &str| checkout.outside().join(name).display().to_string();
    let data = beside.join("data.git").display().to_string();
    checkout.git(&[
        "clone",
        "-q",
        "--separate-git-dir",
        &data,
        ".",
        &place("apart"),
    ]);
    checkout.git(&["clone", "-q", ".", &place("linked")]);
    let linked = checkout.outside().join("linked");
    std::fs::rename(linked.join(".git"), checkout.outside().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", linked.join(".git")).unwrap();
    checkout.git(&["worktree", "add", "-q", &place("worktree")]);
    for name in ["apart", "linked", "worktree"] {
        let root = checkout.outside().join(name).canonicalize().unwrap();
        let repository = Repository::discover(&root).unwrap();
        assert_eq!(repository.root(), root, "{name}");
        assert_eq!(repository.head().unwrap(), Some(head), "{name}");
        let tree = repository.worktree(&Selection::everything()).unwrap();
        assert_eq!(tree.entries.len(), 1, "{name}");
        repository
            .update_ref("refs/trueup/x", None, head.0)
            .unwrap();
        let found = checkout.git(&["-C", root.to_str().unwrap(), "rev-parse", "refs/trueup/x"]);
        assert_eq!(found, head.to_string(), "{name}");
    }
}

/// The repository of a checkout with more variables, by the system's git: with another one, git is asked for all settings.
fn with_variables(checkout: &Checkout, more: &[(&str, &str)]) -> Repository {
    let given = ["HOME", "XDG_CONFIG_HOME"].map(|name| (name, std::env::var_os(name)));
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?)));
    let mut given: Vec<(OsString, OsString)> = given.collect();
    given.push(("PATH".into(), "/usr/bin:/bin".into()));
    given.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
    Repository::discover_with(checkout.path(), &|_| given.clone()).unwrap()
}

#[test]
fn a_plain_repository_is_read_as_git_reads_it() {
    let checkout = Checkout::new();
    checkout.git(&["remote", "add", "Origin.two", "/nowhere"]);
    let config = checkout.path().join(".git/config");
    let before = std::fs::read_to_string(&config).unwrap();
    let more = "[User]\n\tName = \"Ada # L\" ; here\n[gpg]\n\tformat = x\n\tformat = ssh\n[core]\n\tautocrlf\n";
    std::fs::write(&config, format!("{before}{more}")).unwrap();
    let open = |more: &[_]| with_variables(&checkout, more);
    // The first is read without git, where git is the system's, and the second by it.
    let (plain, asked) = (open(&[]), open(&[("GIT_CONFIG_COUNT", "0")]));
    assert_eq!(plain.root(), asked.root());
    for repository in [&plain, &asked] {
        assert_eq!(repository.remotes().unwrap(), ["Origin.two"]);
        for (key, value) in [
            ("remote.Origin.two.url", "/nowhere"),
            ("user.name", "Ada # L"),
            ("gpg.format", "ssh"),
            ("core.autocrlf", ""),
            ("core.bare", "false"),
        ] {
            let found = repository.config(key).unwrap();
            assert_eq!(found.as_deref(), Some(value), "{key}");
        }
    }
}

#[test]
fn a_setting_of_a_variable_counts_in_a_repository_that_has_nothing_special() {
    let checkout = Checkout::new();
    let open = |more: &[_]| with_variables(&checkout, more);
    let variables = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "trueup.refPrefix"),
        ("GIT_CONFIG_VALUE_0", "refs/b"),
    ];
    assert_eq!(open(&[]).ref_prefix().unwrap(), "refs/trueup");
    assert_eq!(open(&variables).ref_prefix().unwrap(), "refs/b");
}
