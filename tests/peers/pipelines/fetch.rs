//! The clones that the recipes make and use again, by the lines of the recipes themselves.

use std::process::Command;

use serde_json::Value;

use super::{Lab, RECIPES};

/// The lines of a recipe that make or renew the clone in which plans are applied.
fn lines(path: &str) -> String {
    let text = std::fs::read_to_string(format!("{RECIPES}/{path}")).unwrap();
    let recipe: Value = serde_yaml::from_str(&text).unwrap();
    match path.starts_with("github") {
        true => {
            let jobs = recipe["jobs"].as_object().unwrap();
            let steps = jobs
                .values()
                .flat_map(|job| job["steps"].as_array().unwrap());
            let mut fetches = steps.filter(|step| step["name"] == "Fetch");
            fetches.next().unwrap()["run"].as_str().unwrap().to_owned()
        }
        false => {
            let script = recipe[".fetch"]["script"].as_array().unwrap();
            let mut lines: Vec<&str> = script.iter().map(|line| line.as_str().unwrap()).collect();
            lines.push("git reset --quiet --hard \"$CI_COMMIT_SHA\"");
            lines.join("\n")
        }
    }
}

#[test]
fn no_branch_tag_or_killed_job_stops_the_jobs_that_follow() {
    for path in [
        "github/apply.yml",
        "github/drift.yml",
        "gitlab/.gitlab-ci.yml",
    ] {
        let address = "https://git.example/site/edge";
        let lab = Lab::new(address, &[("notes.txt", "Some.\n".to_owned())]);
        std::fs::create_dir(lab.path("runner")).unwrap();
        let script = lines(path);
        let fetch = || {
            let commit = lab.git(&["rev-parse", "main"]);
            let mut command = Command::new("bash");
            // The environment of a job.
            let given = format!(
                "export REMOTE={address} CI_PROJECT_URL={address} GITHUB_SHA={commit} CI_COMMIT_SHA={commit} GITHUB_TOKEN=t\n"
            );
            command.args(["-ec", &format!("{given}{script}")]);
            lab.ran(command.current_dir(lab.path("runner")));
            assert_eq!(
                lab.git_in("runner/site", &["rev-parse", "HEAD"]),
                commit,
                "{path}"
            );
            let upstream = ["rev-parse", "--symbolic-full-name", "@{upstream}"];
            let upstream = lab.git_in("runner/site", &upstream);
            assert_eq!(upstream, "refs/remotes/origin/main", "{path}");
        };
        let push = |refs: &[&str]| {
            lab.git(&[&["push", "--quiet", "origin"], refs].concat());
        };
        push(&["main:refs/heads/fix"]);
        fetch();
        // A branch in the place of another one's folder, and names that mean two things.
        push(&[":refs/heads/fix", "main:refs/heads/fix/edge"]);
        push(&[
            "main:refs/tags/origin/main",
            "main:refs/tags/main",
            "main:refs/heads/origin/main",
        ]);
        std::fs::write(lab.path("runner/site/.git/index.lock"), "").unwrap();
        lab.write("edge/notes.txt", "More.\n");
        lab.commit("More");
        push(&["main:refs/heads/main"]);
        fetch();
    }
}
