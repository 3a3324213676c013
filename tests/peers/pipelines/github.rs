//! The workflows for GitHub Actions, run by `act`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::super::forge_server::TOKEN;
use super::{Lab, RECIPES, effect, programs, python, said};

const ADDRESS: &str = "https://github.com/site/edge";

/// The recipes, by their paths in a repository.
fn recipe() -> Vec<(&'static str, String)> {
    let files = [
        (".github/workflows/plan.yml", "plan"),
        (".github/workflows/comment.yml", "comment"),
        (".github/workflows/apply.yml", "apply"),
        (".github/workflows/drift.yml", "drift"),
    ];
    let read = |name| std::fs::read_to_string(format!("{RECIPES}/github/{name}.yml")).unwrap();
    files.map(|(path, name)| (path, read(name))).into()
}

/// A lab and its runner.
struct Actions {
    lab: Lab,
    act: PathBuf,
}

impl Actions {
    fn new() -> Option<Self> {
        programs(&["jq"])?;
        let act = python("act")?;
        let lab = Lab::new(ADDRESS, &recipe());
        Some(Self { lab, act })
    }

    /// Runs a workflow file for an event; whether it succeeded, and what it printed.
    fn run_file(&self, file: &Path, event: &str, payload: &Value) -> (bool, String) {
        self.lab.write("event.json", &payload.to_string());
        let environment = |name: &str, value: &str| format!("{name}={value}");
        let path = |name: &str| self.lab.path(name).to_str().unwrap().to_owned();
        let api = self.lab.forge.url();
        let mut command = Command::new(&self.act);
        command
            .arg(event)
            .arg("--workflows")
            .arg(file)
            .arg("--eventpath")
            .arg(self.lab.path("event.json"))
            .args([
                "-P",
                "ubuntu-latest=-self-hosted",
                "-P",
                "self-hosted=-self-hosted",
            ])
            .args(["--secret", &environment("GITHUB_TOKEN", TOKEN)])
            .current_dir(self.lab.path("edge"));
        for (name, value) in [
            ("GITHUB_REPOSITORY", "site/edge"),
            ("GITHUB_API_URL", &api),
            ("GITHUB_GRAPHQL_URL", &format!("{api}/graphql")),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", &path("gitconfig")),
            ("GIT_TEMPLATE_DIR", &path("template")),
        ] {
            command.args(["--env", &environment(name, value)]);
        }
        let output = self.lab.run(&mut command);
        let text = said(&output);
        assert!(!text.contains(TOKEN), "the token is printed: {text}");
        (output.status.success(), text)
    }

    /// Runs one of the workflows as it is on the main branch.
    fn run(&self, name: &str, event: &str, payload: &Value) -> (bool, String) {
        let file = format!("{RECIPES}/github/{name}.yml");
        self.run_file(Path::new(&file), event, payload)
    }

    #[track_caller]
    fn succeeds(&self, name: &str, event: &str, payload: &Value) -> String {
        let (is_success, text) = self.run(name, event, payload);
        assert!(is_success, "{name}: {text}");
        text
    }

    #[track_caller]
    fn apply(&self) -> String {
        let after = self.lab.git(&["rev-parse", "main"]);
        self.succeeds(
            "apply",
            "push",
            &json!({"ref": "refs/heads/main", "after": after}),
        )
    }

    #[track_caller]
    fn comments(&self, head: &str) {
        self.succeeds("comment", "workflow_run", &of_run(head));
    }
}

fn of_change(head: &str) -> Value {
    json!({"number": 7, "pull_request": {"number": 7, "head": {"sha": head}}})
}

fn of_run(head: &str) -> Value {
    json!({"workflow_run": {"event": "pull_request", "head_sha": head}})
}

#[test]
fn a_change_is_planned_commented_merged_and_applied() {
    let Some(actions) = Actions::new() else {
        return;
    };
    let lab = &actions.lab;
    actions.apply();
    assert_eq!(lab.tags(), 1);
    actions.succeeds("drift", "schedule", &json!({}));
    assert_eq!(lab.issues(), (0, 0));

    let head = lab.propose("refs/pull");
    let planned = actions.succeeds("plan", "pull_request", &of_change(&head));
    assert!(planned.contains("3 machines are wiped"), "{planned}");
    assert!(
        lab.forge.items().is_empty(),
        "the job of a change wrote a comment"
    );
    actions.comments(&head);
    actions.comments(&head);
    let comment = lab.comment();
    assert!(
        comment.starts_with("<!-- trueup:plan site=edge -->"),
        "{comment}"
    );
    assert!(comment.contains("3 machines are wiped"), "{comment}");

    lab.merge();
    let applied = actions.apply();
    // What was applied is what the reviewers read.
    assert!(
        applied.contains(&format!("effect {}", effect(&comment))),
        "{applied}"
    );
    assert_eq!(lab.tags(), 2);
    assert!(actions.apply().contains("Job succeeded"));
    assert_eq!(lab.tags(), 2, "nothing was left to do");
}

#[test]
fn a_commit_whose_apply_was_cancelled_is_applied_with_the_next() {
    let Some(actions) = Actions::new() else {
        return;
    };
    let lab = &actions.lab;
    actions.apply();
    lab.propose("refs/pull");
    // The apply of this commit is cancelled before it begins.
    lab.merge();
    let profiles = std::fs::read_to_string(lab.path("edge/profiles.yaml")).unwrap();
    let label = profiles.replace("role: worker}", "role: edge}");
    assert_ne!(label, profiles);
    lab.write("edge/profiles.yaml", &label);
    lab.commit("Another label");
    lab.git(&["push", "--quiet", "origin", "main"]);
    let text = actions.apply();
    assert!(text.contains("3 succeeded"), "{text}");
    assert_eq!(lab.tags(), 2);
}

#[test]
fn the_change_of_an_attacker_alters_neither_comment_nor_site() {
    let Some(actions) = Actions::new() else {
        return;
    };
    let lab = &actions.lab;
    actions.apply();
    actions.succeeds("drift", "schedule", &json!({}));
    // The change has workflows of its own, too.
    let workflows = ["plan", "comment"].map(|name| {
        let text = std::fs::read_to_string(format!("{RECIPES}/github/{name}.yml")).unwrap();
        let steps = "    steps:\n      - name: Own\n        run: |\n          echo '<!-- trueup:plan site=edge -->' > plan.md; echo \"token: ${GITHUB_TOKEN:-none}\"\n";
        (name, text.replacen("    steps:\n", steps, 1))
    });
    for (name, text) in &workflows {
        lab.write(&format!("edge/.github/workflows/{name}.yml"), text);
    }
    let mark = lab.poison();
    let head = lab.propose("refs/pull");
    // The forge runs the change's own copy for the change, without secrets, and that of the main branch after it.
    lab.write("own.yml", &workflows[0].1);
    let (_, printed) = actions.run_file(&lab.path("own.yml"), "pull_request", &of_change(&head));
    assert!(printed.contains("token: none"), "{printed}");
    assert!(lab.forge.items().is_empty());
    actions.comments(&head);
    let comment = lab.comment();
    assert!(comment.contains("3 machines are wiped"), "{comment}");
    assert!(
        comment.contains("Backends"),
        "the change of Backends is not named: {comment}"
    );
    assert!(!mark.exists(), "a program of the change was run");
    assert_eq!(lab.tags(), 1);
    assert_eq!(
        lab.git_in("origin.git", &["rev-parse", "main"]),
        lab.git(&["rev-parse", "main"])
    );
}

#[test]
fn a_comment_about_a_head_that_was_overtaken_is_not_written() {
    let Some(actions) = Actions::new() else {
        return;
    };
    actions.apply();
    let head = actions.lab.propose("refs/pull");
    actions.lab.forge.state.lock().unwrap().head = "f".repeat(40);
    let (is_success, text) = actions.run("comment", "workflow_run", &of_run(&head));
    assert!(!is_success && text.contains("exit status 5"), "{text}");
    assert!(actions.lab.forge.items().is_empty());
}

#[test]
fn an_effect_that_changed_after_the_approval_is_not_applied() {
    let Some(actions) = Actions::new() else {
        return;
    };
    let lab = &actions.lab;
    actions.apply();
    lab.propose("refs/pull");
    lab.merge();
    // Behind the plan of the first job the machines are exchanged.
    let (program, machines) = (lab.path("bin/trueup"), lab.path("machines/edge"));
    std::fs::rename(&program, lab.path("trueup")).unwrap();
    let script = format!(
        "#!/bin/sh\n{0} \"$@\"; code=$?\ncase \"$*\" in *--detailed-exitcode*) mv {1}/simulated-site.json {1}/old;; esac\nexit $code\n",
        lab.path("trueup").display(),
        machines.display()
    );
    lab.write("bin/trueup", &script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).unwrap();
    let after = lab.git(&["rev-parse", "main"]);
    let payload = json!({"ref": "refs/heads/main", "after": after});
    let (is_success, text) = actions.run("apply", "push", &payload);
    assert!(!is_success && text.contains("exit status 5"), "{text}");
    assert_eq!(lab.tags(), 1);
}

#[test]
fn a_plan_that_needs_approvals_is_applied_once_it_has_them() {
    let Some(actions) = Actions::new() else {
        return;
    };
    let lab = &actions.lab;
    actions.apply();
    lab.ask_for_approvals();
    actions.apply();
    lab.propose("refs/pull");
    lab.merge();
    let before = lab.tags();
    let after = lab.git(&["rev-parse", "main"]);
    let payload = json!({"ref": "refs/heads/main", "after": after});
    let (is_success, text) = actions.run("apply", "push", &payload);
    assert!(!is_success && text.contains("exit status 4"), "{text}");
    assert!(text.contains("`redeploy` needs 1: 1 missing"), "{text}");
    assert_eq!(lab.tags(), before);
    lab.approve(ADDRESS);
    // The job is started again.
    let text = actions.apply();
    assert!(text.contains("approved by bob@example.org"), "{text}");
    assert_eq!(lab.tags(), before + 1);
    assert_eq!(lab.approvers(), ["bob@example.org"]);
}

#[test]
fn drift_opens_an_issue_updates_it_and_closes_it() {
    let Some(actions) = Actions::new() else {
        return;
    };
    let lab = &actions.lab;
    actions.apply();
    lab.exchange("", ".old");
    actions.succeeds("drift", "schedule", &json!({}));
    actions.succeeds("drift", "schedule", &json!({}));
    assert_eq!(lab.issues(), (1, 0));
    let body = lab.forge.items()[0].body.clone();
    assert!(body.contains("edge-1"), "{body}");
    lab.exchange(".old", "");
    actions.succeeds("drift", "schedule", &json!({}));
    assert_eq!(lab.issues(), (0, 1));
    let observed = lab.git_in("origin.git", &["show", "trueup-observed:observed"]);
    assert!(observed.contains("edge-3"), "{observed}");
}
