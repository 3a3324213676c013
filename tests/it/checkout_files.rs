//! Files that a change of the design brings into the checkout, and that nothing may follow, run, read or take for
//! a repository.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::cli_trust::{Controller, backends, kubeconfig, path_with, site, with};
use super::fixture::Fixture;

/// Moves a site that is the whole checkout into a folder of it.
fn into_a_folder(fixture: &Fixture) {
    let folder = fixture.checkout.path().join("site");
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(fixture.checkout.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name != ".git" && name != "site" {
            std::fs::rename(entry.path(), folder.join(name)).unwrap();
        }
    }
    fixture.checkout.commit("Move the site into a folder");
}

/// A site in a folder of a checkout, with a cluster whose kubeconfig lies beside that folder.
fn site_with_cluster() -> Fixture {
    let settings = "networks: [127.0.0.0/8], port: 1";
    let fixture = site(settings);
    let cluster = "  clusters: {kubernetes: {kubeconfig: {file: k8s/kubeconfig}}}\n";
    backends(&fixture, settings, cluster);
    into_a_folder(&fixture);
    fixture
}

/// Has the commit at hand be what `origin/main` was when it was fetched.
fn protect(fixture: &Fixture) {
    let git = |arguments: &[&str]| fixture.checkout.git(arguments);
    git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
}

/// A program that leaves a trace.
fn program(path: &Path, trace: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!("#!/bin/sh\nenv > {}\necho hunter2\n", trace.display());
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_folder_of_the_site_that_looks_like_a_repository_is_none() {
    let fixture = Fixture::one_rack();
    let trace = fixture.checkout.outside().join("ran");
    let head = fixture.checkout.git(&["rev-parse", "HEAD"]);
    for (name, text) in [
        ("HEAD", "ref: refs/heads/change\n".to_owned()),
        ("refs/heads/change", head.clone()),
        ("refs/remotes/origin/main", head.clone()),
        ("objects/info/alternates", "../../.git/objects\n".to_owned()),
        (
            "config",
            format!(
                "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\
                 [protocol \"ext\"]\n\tallow = always\n[include]\n\tpath = /nowhere/hunter2\n\
                 [remote \"origin\"]\n\turl = ext::touch {}\n",
                trace.display()
            ),
        ),
    ] {
        fixture.checkout.write(&format!("nodes/{name}"), text);
    }
    fixture.checkout.commit("A folder");
    for arguments in [
        &["validate"][..],
        &["plan"],
        &["plan", "--observed", "none"],
        &["status"],
        &["log"],
        &["trust", "--format", "json"],
    ] {
        let ended = fixture.run(&[&["-C", "nodes"], arguments].concat());
        assert!(!format!("{ended:?}").contains("hunter2"), "{ended:?}");
        assert!(!trace.exists(), "{arguments:?} ran what the folder names");
    }
    let plan = [
        "-C",
        "nodes",
        "plan",
        "--offline",
        "--backends-from",
        "origin/main",
    ];
    let ended = fixture.run(&plan).with(1);
    assert!(ended.stderr.contains("origin/main"), "{}", ended.stderr);
    // A folder that is no part of a checkout is no repository either.
    let alone = fixture.checkout.outside().join("alone");
    let nodes = fixture.checkout.path().join("nodes");
    super::fixture::copy_folder(&nodes, &alone);
    let ended = fixture.run(&["-C", alone.to_str().unwrap(), "validate"]);
    assert_eq!(ended.code, 1);
    assert!(!trace.exists());
}

#[test]
fn files_that_a_kubeconfig_of_the_checkout_names_come_from_the_protected_revision() {
    let controller = Controller::start();
    let fixture = site_with_cluster();
    let text = kubeconfig(controller.port, "{tokenFile: token}");
    fixture.checkout.write("k8s/kubeconfig", text);
    fixture.checkout.write("k8s/token", "token-of-main\n");
    fixture.checkout.commit("A cluster");
    protect(&fixture);
    let secret = fixture.checkout.outside().join("secret");
    std::fs::write(&secret, "hunter2-of-the-pipeline\n").unwrap();
    let status = [
        "status",
        "--format",
        "json",
        "--backends-from",
        "origin/main",
    ];
    let replace = |with: &dyn Fn(&Path)| {
        let path = fixture.checkout.path().join("k8s/token");
        std::fs::remove_file(&path).unwrap();
        with(&path);
        fixture.run(&status).with(0)
    };
    let link = |to: &Path| {
        let to = to.to_owned();
        move |path: &Path| std::os::unix::fs::symlink(&to, path).unwrap()
    };
    replace(&|path| std::fs::write(path, "hunter2-of-the-change").unwrap());
    replace(&link(&secret));
    replace(&link(Path::new("/dev/zero")));
    replace(&|path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    });
    let heard = controller.heard().concat();
    assert!(heard.contains("Bearer token-of-main\r\n"), "{heard}");
    assert!(!heard.contains("hunter2"), "{heard}");
    // Without a protected revision a link is refused, and the content of the authority is what is trusted.
    replace(&link(&secret));
    fixture.run(&["-C", "site", "trust", "--yes"]).with(0);
    let ended = fixture
        .run(&["-C", "site", "status", "--format", "json"])
        .with(0);
    assert!(
        ended.stdout.contains("is a link in the checkout"),
        "{}",
        ended.stdout
    );
    let text = kubeconfig(controller.port, "{token: t}");
    let text = text.replace("{server:", "{certificate-authority: ca.pem, server:");
    fixture.checkout.write("k8s/kubeconfig", text);
    fixture.checkout.write("k8s/ca.pem", "one\n");
    fixture.run(&["-C", "site", "trust", "--yes"]).with(0);
    fixture.checkout.write("k8s/ca.pem", "another\n");
    let ended = fixture.run(&["-C", "site", "status"]).with(4);
    assert!(
        ended.stderr.contains("certificate-authority → content"),
        "{}",
        ended.stderr
    );
    assert!(!controller.heard().concat().contains("hunter2"));
}

#[test]
fn a_kubeconfig_in_a_submodule_or_of_the_environment_is_not_taken_from_a_change() {
    let controller = Controller::start();
    let fixture = site_with_cluster();
    protect(&fixture);
    let written = kubeconfig(controller.port, "{token: hunter2}");
    fixture.checkout.write("k8s/kubeconfig", &written);
    let status = [
        "status",
        "--format",
        "json",
        "--backends-from",
        "origin/main",
    ];
    fixture.run(&status).with(0);
    let heard = controller.heard().len();
    assert!(heard > 0, "what no commit has is the pipeline's own");
    fixture
        .checkout
        .write("k8s/.git", "gitdir: ../.git/modules/k8s\n");
    let ended = fixture.run(&status).with(0);
    assert!(
        ended.stdout.contains("another repository"),
        "{}",
        ended.stdout
    );
    std::fs::remove_file(fixture.checkout.path().join("k8s/.git")).unwrap();
    fixture.edit(
        "site/backends.yaml",
        "{kubeconfig: {file: k8s/kubeconfig}}",
        "{}",
    );
    fixture.checkout.git(&["add", "site"]);
    fixture.checkout.git(&[
        "commit",
        "--quiet",
        "-m",
        "The kubeconfig of the environment",
    ]);
    protect(&fixture);
    let ended = with(&fixture, &status, &[("KUBECONFIG", "k8s/kubeconfig")]).with(0);
    assert!(
        ended.stdout.contains("lies in the checkout"),
        "{}",
        ended.stdout
    );
    assert_eq!(controller.heard().len(), heard);
}

#[test]
fn a_program_of_a_kubeconfig_runs_outside_of_the_checkout_with_what_it_needs() {
    let controller = Controller::start();
    let fixture = site("networks: [127.0.0.0/8], port: 1");
    let cluster = "  clusters: {kubernetes: {kubeconfig: {file: kubeconfig}}}\n";
    backends(&fixture, "networks: [127.0.0.0/8], port: 1", cluster);
    let trace = fixture.checkout.outside().join("ran");
    program(&fixture.checkout.path().join("k8s/token"), &trace);
    let outside = fixture.checkout.outside().join("tools/cluster-token");
    let credential = r#"{"kind":"ExecCredential","status":{"token":"hunter2-printed"}}"#;
    program(&outside, &fixture.checkout.outside().join("environment"));
    let text = std::fs::read_to_string(&outside).unwrap();
    std::fs::write(
        &outside,
        text.replace("hunter2", &format!("'{credential}'; pwd >&2")),
    )
    .unwrap();
    let use_program = |words: &str| {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, {words}, env: [{{name: MINE, value: here}}]}}}}"
        );
        fixture
            .checkout
            .write("kubeconfig", kubeconfig(controller.port, &user));
        fixture.run(&["trust", "--yes"]);
        let variables = [
            ("AWS_PROFILE", "site"),
            ("BMC_PASSWORD", "hunter2-bmc"),
            ("PATH", &path_with(outside.parent().unwrap())),
        ];
        with(&fixture, &["status", "--format", "json"], &variables).with(0)
    };
    // Where it runs there is no `k8s/token`.
    use_program("command: sh, args: ['-c', 'exec k8s/token']");
    assert!(!trace.exists());
    let ended = use_program(&format!(
        "command: {}/k8s/token",
        fixture.checkout.path().display()
    ));
    assert!(
        ended.stdout.contains("lies in the checkout"),
        "{}",
        ended.stdout
    );
    assert!(!trace.exists());
    let ended = use_program("command: cluster-token");
    assert!(
        controller
            .heard()
            .concat()
            .contains("Bearer hunter2-printed"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    assert_eq!(ended.stderr.lines().next(), Some("/"), "{}", ended.stderr);
    let environment =
        std::fs::read_to_string(fixture.checkout.outside().join("environment")).unwrap();
    for needed in ["AWS_PROFILE=site", "MINE=here", "KUBERNETES_EXEC_INFO={"] {
        assert!(environment.contains(needed), "{needed}: {environment}");
    }
    assert!(!environment.contains("hunter2"), "{environment}");
}

#[test]
fn no_program_is_found_in_the_checkout_whatever_path_says() {
    let fixture = site(
        "networks: [127.0.0.0/8], port: 1, credentials: {username: admin, password: {exec: [bmc-password]}}",
    );
    let trace = fixture.checkout.outside().join("ran");
    for name in ["bmc-password", "git", "ipmitool"] {
        program(&fixture.checkout.path().join("bin").join(name), &trace);
    }
    fixture.checkout.commit("Programs");
    fixture.run(&["trust", "--yes"]).with(0);
    for folder in [fixture.checkout.path().join("bin"), "bin".into()] {
        let ended = with(&fixture, &["status"], &[("PATH", &*path_with(&folder))]).with(0);
        assert!(!trace.exists(), "{ended:?}");
    }
}

#[test]
fn nothing_is_written_through_a_link_of_the_checkout() {
    let fixture = Fixture::one_rack();
    into_a_folder(&fixture);
    let victim = fixture.checkout.outside().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let config = fixture.read(".git/config");
    let folder = fixture.checkout.path().join("plans");
    std::fs::create_dir(&folder).unwrap();
    for (link, target) in [
        ("plans/plan.json", victim.to_str().unwrap()),
        ("plans/config.json", "../.git/config"),
        ("plans/folder", "../.git"),
    ] {
        fixture.checkout.link(link, target);
    }
    std::fs::write(folder.join(".gitignore"), "*\n").unwrap();
    for path in ["plan.json", "config.json", "folder/config"] {
        let path = format!("../plans/{path}");
        for flag in ["--out", "--save-observed"] {
            let ended = fixture.run(&["-C", "site", "plan", flag, &path]);
            assert_eq!(ended.code, 1, "{ended:?}");
            assert!(
                ended.stderr.contains("is a link in the checkout"),
                "{ended:?}"
            );
        }
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(fixture.read(".git/config"), config);
    fixture
        .run(&["-C", "site", "plan", "--out", "../plans/mine.json"])
        .with(0);
    fixture
        .run(&["-C", "site", "plan", "--out", "../plans/mine.json"])
        .with(0);
}

#[test]
fn a_key_of_gits_configuration_may_have_no_value() {
    let fixture = Fixture::one_rack();
    let config = fixture.read(".git/config");
    fixture
        .checkout
        .write(".git/config", format!("{config}[commit]\n\tgpgsign\n"));
    fixture.run(&["validate"]).with(0);
}

#[test]
fn what_is_written_by_name_replaces_no_document_and_nothing_of_git() {
    let fixture = super::accepted::example("edge");
    fixture.commit_and_apply("The site", &[]).with(0);
    fixture.edit(
        "nodes.yaml",
        "metadata: {name: edge-1}",
        "metadata: {name: edge-1} # hours of work",
    );
    let nodes = fixture.read("nodes.yaml");
    let head = fixture.read(".git/HEAD");
    fixture.checkout.write("README.md", "The site\n");
    fixture.checkout.git(&["add", "README.md"]);
    for (arguments, why) in [
        (&["plan", "-o", "nodes.yaml"][..], "git tracks this file"),
        (
            &["plan", "--save-observed", "nodes.yaml"],
            "git tracks this file",
        ),
        (&["bundle", "-o", "nodes.yaml"], "git tracks this file"),
        (&["plan", "-o", "saved.yaml"], "read as a document"),
        (&["bundle", "-o", ".git/HEAD"], "git's own folder"),
        (&["plan", "-o", ".git/config"], "git's own folder"),
    ] {
        fixture.run(arguments).with(1).saying(why);
    }
    // Before anything is done.
    fixture
        .run(&["apply", "--yes", "--report", "README.md"])
        .with(64)
        .saying("git tracks this file");
    assert_eq!(fixture.read("nodes.yaml"), nodes);
    assert_eq!(fixture.read(".git/HEAD"), head);
    assert_eq!(fixture.read("README.md"), "The site\n");
    // A document that is in no commit, and then a saved plan, which the next one replaces.
    fixture.checkout.write("new/own.yaml", "schema: a/b/v1\n");
    fixture
        .run(&["-C", "new", "plan", "-o", "own.yaml", "--rev", "HEAD"])
        .with(1)
        .saying("it is a document");
    std::fs::remove_dir_all(fixture.checkout.path().join("new")).unwrap();
    fixture.run(&["plan", "-o", "a.plan"]).with(0);
    fixture.run(&["plan", "-o", "a.plan"]).with(0);
}
