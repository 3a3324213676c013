//! The page of a plan in Chromium: it opens, search and filters work, axe-core finds nothing, and nothing leaves it.
//!
//! Needs `chromium` and `node` with `npm`, which gets puppeteer-core and axe-core once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use trueup::design::{Digest, GroupName, NodeName, Section, SiteName, SuccessCriteria};
use trueup::diagnostic::Place;
use trueup::plan::{
    Change, ChangeKind, CommitHistory, FieldChange, Forecast, Link, Options, Plan, PlannedGroup,
    Request, Standing, StepTimes, Summary, Target, TimeForecast, Verdict, Verdicts,
};
use trueup::report::plan::html;
use trueup::step::{Need, Step, StepId, StepIndex, StepKind, Wait};

use super::harness::{modules, skip};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/browser/look.mjs");

/// The modules and the browser; `None`, said loudly, if they cannot be had.
pub(super) fn browser() -> Option<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH")?;
    let find = |program: &str| {
        let folders = std::env::split_paths(&path);
        folders
            .map(|folder| folder.join(program))
            .find(|file| file.is_file())
    };
    let names = [
        "chromium",
        "chromium-headless-shell",
        "chromium-browser",
        "google-chrome",
    ];
    let Some(chromium) = names.into_iter().find_map(find) else {
        skip("there is no Chromium");
        return None;
    };
    let modules = modules("browser", &["puppeteer-core@25", "axe-core@4"])?;
    Some((modules, chromium))
}

/// What the browser saw of a page, with a search for a text.
fn look(plan: &Plan, wanted: &str) -> Option<Value> {
    let (modules, chromium) = browser()?;
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("plan.html");
    let mut text = String::new();
    html(&mut text, plan, None).unwrap();
    std::fs::write(&page, text).unwrap();
    let ended = Command::new("node")
        .args([Path::new(SCRIPT), &modules, &chromium, &page])
        .arg(wanted)
        .env("HOME", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}

/// What holds of every page.
fn assert_sound(seen: &Value) {
    for nothing in ["requests", "errors", "violations", "dialogs"] {
        assert_eq!(seen[nothing], Value::Array(Vec::new()), "{nothing}");
    }
    for look in ["light", "dark", "narrow"] {
        assert_eq!(seen["axe"][look], Value::Array(Vec::new()), "{look}");
    }
    for is in ["closed", "unfolded", "zoomed", "toolsHidden"] {
        assert_eq!(seen[is], Value::Bool(true), "{is}");
    }
}

/// The builder of a plan: groups of machines in waves of ten, a third of them built again, each named by a function.
struct Draft<'n> {
    plan: Plan,
    name: &'n dyn Fn(&str) -> String,
}

impl Draft<'_> {
    fn text(&self, text: &str) -> Arc<str> {
        (self.name)(text).into()
    }

    fn step(&mut self, id: StepId, needs: &[(usize, Wait)], times: StepTimes) -> usize {
        self.plan.steps.push(Step {
            timeout: 3_600,
            effect: id.kind.facts().effect,
            id,
            standby: false,
            parameters: None,
            needs: needs
                .iter()
                .map(|(step, wait)| Need {
                    step: StepIndex::from_position(*step),
                    wait: *wait,
                })
                .collect(),
        });
        self.plan.forecast.schedule.push(times);
        self.plan.steps.len() - 1
    }

    fn change(&mut self, node: &NodeName, group: &GroupName, number: usize) {
        let redeploys = number.is_multiple_of(3);
        let field = FieldChange {
            section: Section::OperatingSystem,
            path: self.text("platform.kernel"),
            before: Some(self.text("quiet splash ga-22.04")),
            after: Some(self.text("quiet splash hwe-22.04")),
            accepted: Some(self.text("a reason")),
            chain: vec![Link {
                document: self.text("drydock/HostProfile/v1/worker"),
                by: self.text("edited"),
                place: Place {
                    path: self.text("profiles.yaml"),
                    line: 31,
                    column: 3,
                },
            }],
        };
        let kind = if redeploys {
            ChangeKind::Redeploy
        } else {
            ChangeKind::Create
        };
        *self.plan.summary.changes.entry(kind).or_default() += 1;
        let change = Change {
            node: node.clone(),
            kind,
            rung: None,
            does: None,
            group: Some(group.clone()),
            rack: Some(self.text(&format!("rack-{}", number / 40))),
            blocked: None,
            excluded: false,
            shown_only: false,
            unverified: false,
            destructive: redeploys,
            disks: vec![self.text("sda")],
            cleaning: None,
            reasons: vec![self.text("no record")],
            fields: if redeploys { vec![field] } else { Vec::new() },
            counts_as: Standing::NotStarted,
            machine: None,
            inventory: None,
        };
        self.plan.changes.push(change);
    }

    fn group(
        &mut self,
        number: usize,
        machines: std::ops::Range<usize>,
        before: Option<usize>,
    ) -> usize {
        let group = GroupName::from((self.name)(&format!("group-{number}")).as_str());
        let id = |kind, node: Option<&NodeName>, wave| StepId {
            kind,
            group: Some(group.clone()),
            node: node.cloned(),
            wave,
        };
        let begin = number as u32 * 1_000;
        let needs: Vec<(usize, Wait)> = before
            .map(|gate| (gate, Wait::Success))
            .into_iter()
            .collect();
        let mut last = self.step(
            id(StepKind::StartGroup, None, None),
            &needs,
            StepTimes(begin, begin),
        );
        let mut ends = Vec::new();
        let mut nodes = Vec::new();
        for (wave, machine) in machines.clone().enumerate() {
            if wave.is_multiple_of(10) {
                let wave = Some(wave as u32 / 10 + 1);
                last = self.step(
                    id(StepKind::StartWave, None, wave),
                    &[(last, Wait::Done)],
                    StepTimes(begin, begin),
                );
            }
            let node = NodeName::from((self.name)(&format!("node-{machine:06}")).as_str());
            let prepare = self.step(
                id(StepKind::Prepare, Some(&node), None),
                &[(last, Wait::Success)],
                StepTimes(begin, begin + 300),
            );
            ends.push((
                self.step(
                    id(StepKind::Deploy, Some(&node), None),
                    &[(prepare, Wait::Success)],
                    StepTimes(begin + 300, begin + 1_000),
                ),
                Wait::Done,
            ));
            self.change(&node, &group, machine);
            nodes.push(node);
        }
        self.plan.groups.push(PlannedGroup {
            name: group.clone(),
            critical: number == 0,
            depends_on: Vec::new(),
            success_criteria: SuccessCriteria {
                percent_successful_nodes: Some(90),
                minimum_successful_nodes: None,
                maximum_failed_nodes: None,
            },
            nodes,
            not_deployed: std::collections::BTreeMap::new(),
            retired: 0,
            waves: None,
        });
        self.step(
            id(StepKind::GateDeployed, None, None),
            &ends,
            StepTimes(begin + 1_000, begin + 1_000),
        )
    }
}

fn verdict(text: String) -> Verdict {
    Verdict {
        rule: text.as_str().into(),
        message: text.into(),
    }
}

/// A plan of so many machines in groups of so many.
pub(super) fn plan(machines: usize, of_group: usize, name: &dyn Fn(&str) -> String) -> Plan {
    let mut draft = Draft {
        plan: Plan {
            site: SiteName::from(name("site").as_str()),
            request: Request::default(),
            target: Target {
                revision: Some(name("revision").into()),
                site_digest: Digest::from("d"),
                dirty: Vec::new(),
                repositories: Default::default(),
            },
            base: None,
            options: Options {
                as_of: name("2026-11-23").into(),
                parallelism: 10,
                ..Options::default()
            },
            intermediate_commits: Vec::new(),
            history: CommitHistory::default(),
            changes: Vec::new(),
            unchanged: 7,
            groups: Vec::new(),
            steps: Vec::new(),
            relies_on: Vec::new(),
            records_digest: Digest::from("r"),
            notices: vec![name("a notice").into()],
            way_back: None,
            unfinished: None,
            warnings: vec![name("a warning").into()],
            guards: trueup::plan::PlanGuards::default(),
            approvals: trueup::plan::Approvals::default(),
            policies: Verdicts {
                denied: vec![verdict(name("denied"))],
                warned: vec![verdict(name("warned"))],
            },
            summary: Summary::default(),
            forecast: Forecast {
                time: Some(TimeForecast {
                    median: 5_000,
                    percentile_5: 4_000,
                    percentile_90: 6_000,
                    percentile_95: 7_000,
                    timeouts: 90_000,
                    runs: 99,
                }),
                ..Forecast::default()
            },
            checked: None,
            rehearsal: None,
        },
        name,
    };
    let mut gate = None;
    for (number, first) in (0..machines).step_by(of_group).enumerate() {
        let last = machines.min(first + of_group);
        gate = Some(draft.group(number, first..last, gate));
    }
    draft.plan
}

#[test]
fn a_plan_of_two_hundred_machines_is_read_searched_and_filtered() {
    let plan = plan(200, 40, &str::to_owned);
    let Some(seen) = look(&plan, "node-00004") else {
        return;
    };
    assert_sound(&seen);
    assert_eq!(seen["all"], "200 machines");
    assert_eq!(seen["searched"], "10 of 200 machines");
    assert_eq!(seen["found"].as_array().unwrap().len(), 10);
    assert_eq!(seen["shown"], "node-000040");
    let about = seen["about"].as_str().unwrap();
    assert!(about.contains("group-1 · rack rack-1 · wave 1"), "{about}");
    assert_eq!(seen["byRack"], "40 of 200 machines");
    assert_eq!(seen["plain"], "67 machines are wiped or taken away");
}

#[test]
fn a_plan_of_a_hundred_thousand_machines_opens_folded() {
    let plan = plan(100_000, 1_000, &str::to_owned);
    let Some(seen) = look(&plan, "node-09999") else {
        return;
    };
    assert_sound(&seen);
    assert_eq!(seen["all"], "100000 machines");
    assert_eq!(seen["searched"], "10 of 100000 machines");
    assert_eq!(seen["byRack"], "40 of 100000 machines");
    assert_eq!(seen["plain"], "33334 machines are wiped or taken away");
    // What is in the document does not grow with the machines.
    assert!(
        seen["elements"].as_u64().unwrap() < 10_000,
        "{}",
        seen["elements"]
    );
    println!("opened in {} ms", seen["open"]);
}

#[test]
fn no_value_of_a_hostile_site_runs_or_loads_anything() {
    let evil = |text: &str| {
        format!(
            "{text}\"'><script>alert(1)</script><img src=https://example.org/x onerror=alert(2)></script><svg/onload=alert(3)><!--"
        )
    };
    let plan = plan(30, 10, &evil);
    let Some(seen) = look(&plan, "node-000001") else {
        return;
    };
    assert_sound(&seen);
    assert_eq!(seen["searched"], "1 of 30 machines");
    assert_eq!(seen["shown"], evil("node-000001"));
}
