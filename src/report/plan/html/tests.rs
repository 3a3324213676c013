//! The page of a plan: its parts, hostile values in every field, and large plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::design::{NodeName, SuccessCriteria};
use crate::observed::{BlockedBudget, LocalData, PodName};
use crate::plan::{
    Block, Change, ChangeKind, EtcdForecast, IntermediateCommit, Lineage, NodeForecast, RunState,
    Standing, StepTimes, UnfinishedRun, Verdict, Verdicts,
};
use crate::record::{Counts, Outcome, Unproven};
use crate::report::plan::tests::{a_thousand_groups, large, plan, redeploy, step};
use crate::run::NodeResult;
use crate::step::{CleanStep, Cleaning, Effect, EtcdRemoval, Need, StepIndex, StepKind, Wait};

fn written(plan: &Plan, run: Option<RunPage<'_>>) -> String {
    let mut text = String::new();
    html(&mut text, plan, run).unwrap();
    text
}

/// The part of a page between its style and its script.
fn body(text: &str) -> &str {
    let start = text.find("<body>").unwrap();
    &text[start..text.rfind("<script>").unwrap()]
}

/// The tags of a page with the names of their attributes, and the texts between them.
fn tokens(text: &str) -> (Vec<String>, Vec<&str>) {
    let (mut tags, mut texts, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some(at) = rest.find('<') {
        texts.push(&rest[..at]);
        rest = &rest[at..];
        let (mut tag, mut quoted, mut end) = (String::new(), false, 0);
        for (at, letter) in rest.char_indices() {
            match letter {
                '"' => quoted = !quoted,
                '>' if !quoted => {
                    end = at + 1;
                    break;
                }
                other if !quoted => tag.push(other),
                _ => {}
            }
        }
        assert!(end > 0, "{rest}");
        tags.push(tag);
        rest = &rest[end..];
    }
    (tags, texts)
}

/// A plan in which every text that comes from a document, a commit or a machine is this one.
fn called(name: &str) -> Plan {
    let text: Arc<str> = name.into();
    let of = |number: usize| -> Arc<str> { format!("{name}{number}").into() };
    let mut plan = plan();
    plan.site = name.into();
    plan.options.as_of = text.clone();
    plan.options.targets.insert(text.clone());
    plan.target.revision = Some(text.clone());
    plan.target.repositories.insert(text.clone(), text.clone());
    plan.warnings = vec![text.clone()];
    let verdict = || Verdict {
        rule: text.clone(),
        message: text.clone(),
    };
    plan.policies = Verdicts {
        denied: vec![verdict()],
        warned: vec![verdict()],
    };
    plan.notices = vec![text.clone()];
    plan.history.lineage = Lineage::Rollback;
    plan.history.unpublished = Some(text.clone());
    plan.intermediate_commits = vec![IntermediateCommit {
        commit: text.clone(),
        subject: text.clone(),
    }];
    plan.unfinished = Some(UnfinishedRun {
        run: name.into(),
        action: text.clone(),
        state: RunState::Interrupted,
        started: text.clone(),
        actor: Some(text.clone()),
        host: Some(text.clone()),
    });
    for (number, group) in plan.groups.iter_mut().enumerate() {
        group.name = of(number).as_ref().into();
        group.depends_on = vec![name.into()];
    }
    let rename = |group: &crate::design::GroupName| match group.as_str() {
        "control" => of(0),
        _ => of(1),
    };
    for step in &mut plan.steps {
        step.id.group = step
            .id
            .group
            .as_ref()
            .map(|group| rename(group).as_ref().into());
        let node = step.id.node.as_ref();
        step.id.node = node.map(|node| format!("{name}{node}").as_str().into());
    }
    plan.forecast.schedule = (0..plan.steps.len() as u32)
        .map(|at| StepTimes(at, at + 60))
        .collect();
    plan.forecast.etcd = vec![EtcdForecast {
        cluster: name.into(),
        now: 3,
        meanwhile: 2,
        after: 3,
    }];
    plan.forecast.nodes = vec![NodeForecast {
        node: name.into(),
        evicted: 1,
        skipped: Vec::new(),
        awaited: Vec::new(),
        blocked: vec![BlockedBudget {
            namespace: text.clone(),
            name: text.clone(),
            pods: vec![text.clone()],
            healthy: 1,
            wanted: 2,
        }],
        uncontrolled: vec![PodName {
            namespace: text.clone(),
            name: text.clone(),
            uid: text.clone(),
        }],
        local_data: vec![LocalData {
            owner: text.clone(),
            kind: text.clone(),
            pods: 1,
        }],
    }];
    for change in &mut plan.changes {
        change.group = change
            .group
            .as_ref()
            .map(|group| rename(group).as_ref().into());
        hostile(change, name);
    }
    plan
}

fn hostile(change: &mut Change, name: &str) {
    let text: Arc<str> = name.into();
    change.node = format!("{name}{}", change.node).as_str().into();
    change.rack = Some(text.clone());
    change.does = Some(text.clone());
    change.disks = vec![text.clone()];
    change.reasons = vec![text.clone()];
    change.cleaning = Some(Arc::new(Cleaning {
        because: text.clone(),
        foreign: false,
        steps: vec![CleanStep {
            arguments: Some(text.clone()),
            ..CleanStep::new(name, name)
        }],
    }));
    if change.blocked.is_some() {
        change.blocked = Some(Block {
            reason: text.clone(),
            flag: Some(text.clone()),
            cause: Default::default(),
        });
    }
    for field in &mut change.fields {
        field.path = text.clone();
        field.accepted = Some(text.clone());
        (field.before, field.after) = (Some(text.clone()), Some(format!("{name} else").into()));
        for link in &mut field.chain {
            (link.document, link.by, link.place.path) = (text.clone(), text.clone(), text.clone());
        }
    }
}

#[test]
fn a_value_in_any_field_is_text_and_no_part_of_the_page() {
    let harmless = written(&called("word"), None);
    let (tags, _) = tokens(body(&harmless));
    for evil in [
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'><svg onload=alert(1)>",
        "<!--",
        "</title></style><iframe srcdoc=x>",
        "javascript:alert(1)",
        "&lt;script&gt;",
    ] {
        let text = written(&called(evil), None);
        let (found, texts) = tokens(body(&text));
        assert_eq!(found, tags, "{evil}");
        assert!(texts.iter().any(|text| !text.is_empty()));
        let head = &text[..text.find("<body>").unwrap()];
        assert_eq!(
            tokens(head).0,
            tokens(&harmless[..harmless.find("<body>").unwrap()]).0
        );
    }
    let hidden = written(&called("a\u{202e}b\u{1b}[31m\u{200b}##[x]"), None);
    let bad = |c: char| c != '\n' && crate::document::is_hidden(c);
    assert!(!hidden.chars().any(bad) && !hidden.contains("##["));
}

#[test]
fn the_verdict_comes_first_and_what_is_wiped_is_outside_of_any_fold() {
    let text = written(&plan(), None);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}"));
    assert!(text.contains(
        "<h1 class=\"grave\">2 machines are wiped or taken away, 3 more blocked or left out</h1>"
    ));
    assert!(text.contains(">Refused as it stands<"));
    let order = [
        "<h1",
        "class=\"figures\"",
        "id=\"h-destructive\"",
        "id=\"h-blocked\"",
        "id=\"h-warnings\"",
        "id=\"h-order\"",
        "id=\"h-machines\"",
        "id=\"h-others\"",
    ];
    let places: Vec<usize> = order.iter().map(|part| at(part)).collect();
    assert!(places.is_sorted(), "{places:?}");
    let section = &text[at("id=\"h-destructive\"")..at("id=\"h-blocked\"")];
    for part in [
        "<p class=\"names\"><span class=\"n\">gone</span></p>",
        "<p class=\"names\"><span class=\"n\">n1</span></p>",
        "<b>sda</b>, <b>sdb</b>",
        "<del>ga-22.04</del>",
        "<ins>hwe-22.04</ins>",
        "HostProfile cp_r720 <small>edited</small> <code>site/x/profiles/host.yaml:31</code>",
    ] {
        let place = section
            .find(part)
            .unwrap_or_else(|| panic!("no {part} in {section}"));
        let folds = section[..place].matches("<details").count();
        assert_eq!(
            folds,
            section[..place].matches("</details>").count(),
            "{part}"
        );
    }
}

#[test]
fn denials_stand_before_warnings_and_refuse_the_plan() {
    let mut plan = plan();
    plan.changes.clear();
    plan.summary = Default::default();
    assert!(!written(&plan, None).contains("id=\"h-denied\""));
    let verdict = |message: &str| Verdict {
        rule: "site.fridays".into(),
        message: message.into(),
    };
    plan.policies = Verdicts {
        denied: vec![verdict("it is Friday")],
        warned: vec![verdict("tomorrow is Friday")],
    };
    let text = written(&plan, None);
    assert!(text.contains(">Refused as it stands<"));
    let refusal = "Cannot be applied as it stands: rules of the site deny it: it is Friday";
    assert!(text.contains(refusal));
    let places = [
        "id=\"h-denied\"",
        "it is Friday (site.fridays)",
        "id=\"h-warnings\"",
        "tomorrow is Friday (site.fridays)",
    ]
    .map(|part| text.rfind(part).unwrap_or_else(|| panic!("no {part}")));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_same_plan_is_the_same_page() {
    let plan = called("word");
    assert_eq!(written(&plan, None), written(&plan, None));
}

#[test]
fn every_reference_leads_to_a_part_of_the_page() {
    for plan in [
        plan(),
        called("word"),
        a_thousand_groups(ChangeKind::Redeploy),
    ] {
        let text = written(&plan, None);
        let mut ids: Vec<&str> = text
            .split(" id=\"")
            .skip(1)
            .map(|rest| &rest[..rest.find('"').unwrap()])
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id occurs twice");
        for attribute in [" href=\"#", " aria-labelledby=\""] {
            for rest in text.split(attribute).skip(1) {
                let id = &rest[..rest.find('"').unwrap()];
                assert!(ids.binary_search(&id).is_ok(), "{attribute}{id}");
            }
        }
    }
}

/// Three machines, one after the other, each a member of an etcd cluster.
fn control_plane() -> Plan {
    let mut plan = plan();
    plan.changes = ["c1", "c2", "c3"]
        .map(|node| Change {
            group: Some("control".into()),
            ..redeploy(node, false)
        })
        .into();
    plan.steps = vec![step(StepKind::StartGroup, Some("control"), None, &[])];
    plan.forecast.schedule = vec![StepTimes(0, 0)];
    for (wave, node) in (1..).zip(["c1", "c2", "c3"]) {
        let last = plan.steps.len() as u32 - 1;
        let mut start = step(
            StepKind::StartWave,
            Some("control"),
            None,
            &[(last, Wait::Success)],
        );
        start.id.wave = Some(wave);
        plan.steps.push(start);
        let begin = (wave - 1) * 300;
        plan.forecast.schedule.push(StepTimes(begin, begin));
        for (number, kind) in (0..).zip([
            StepKind::RemoveEtcd,
            StepKind::Destroy,
            StepKind::AwaitReady,
        ]) {
            let mut work = step(
                kind,
                Some("control"),
                Some(node),
                &[(last + 1 + number, Wait::Success)],
            );
            let removal = EtcdRemoval {
                cluster: "kubernetes".into(),
                ..etcd_removal()
            };
            if kind != StepKind::Destroy {
                work.give("etcd_members", [removal]);
            }
            plan.steps.push(work);
            let from = begin + 100 * number;
            plan.forecast.schedule.push(StepTimes(from, from + 100));
        }
    }
    plan.forecast.etcd = vec![EtcdForecast {
        cluster: "kubernetes".into(),
        now: 3,
        meanwhile: 2,
        after: 3,
    }];
    plan
}

fn etcd_removal() -> EtcdRemoval {
    EtcdRemoval {
        cluster: "kubernetes".into(),
        cluster_id: "1".into(),
        member_id: "2".into(),
        name: "c".into(),
    }
}

#[test]
fn members_of_etcd_and_the_critical_path_are_told_along_the_plan() {
    let plan = control_plane();
    let text = written(&plan, None);
    let members = &text[text.find("Members of etcd kubernetes").unwrap()..];
    let wanted = [
        "after 0 s: 3 vote, 2 of them must be healthy",
        "after 1 min 40 s: 2 vote, 2 of them must be healthy",
        "after 5 min: 3 vote, 2 of them must be healthy",
    ];
    for line in wanted {
        assert!(members.contains(line), "{line}: {members}");
    }
    let path = critical::path(&plan);
    let ids: Vec<String> = path
        .iter()
        .map(|step| plan.steps[*step].id.to_string())
        .collect();
    assert_eq!(ids.len(), 9);
    assert_eq!(ids[0], "remove-etcd/control/c1");
    assert_eq!(ids[8], "await-ready/control/c3");
    for part in ["wave 1", "wave 3", "Wave 2: 1 machine"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn where_a_group_works_on_few_nodes_at_once_the_critical_path_leads_over_those_that_make_place() {
    let mut plan = plan();
    plan.steps = vec![step(StepKind::StartGroup, Some("control"), None, &[])];
    plan.forecast.schedule = vec![StepTimes(0, 0)];
    for (node, times) in [
        ("c1", StepTimes(0, 50)),
        ("c2", StepTimes(0, 70)),
        ("c3", StepTimes(50, 90)),
    ] {
        plan.steps.push(step(
            StepKind::Prepare,
            Some("control"),
            Some(node),
            &[(0, Wait::Success)],
        ));
        plan.forecast.schedule.push(times);
    }
    assert_eq!(critical::path(&plan), [1, 3]);
}

/// A schedule out of a file may say anything.
#[test]
fn a_schedule_that_contradicts_the_steps_is_drawn_all_the_same() {
    let mut plan = control_plane();
    for times in [
        StepTimes(9, 3),
        StepTimes(u32::MAX, u32::MAX),
        StepTimes(5, 5),
    ] {
        plan.forecast.schedule.fill(times);
        written(&plan, None);
    }
    plan.forecast.schedule.pop();
    assert!(!written(&plan, None).contains("h-time"));
}

#[test]
fn a_run_shows_how_each_machine_ended_and_what_failed_first() {
    let plan = plan();
    let result = |node: &str, complete: bool| NodeResult {
        node: NodeName::from(node),
        standing: if complete {
            Standing::Deployed
        } else {
            Standing::Failed
        },
        failed_step: (!complete).then(|| "deploy/control/c2".into()),
        message: (!complete).then(|| "no image <x>".into()),
        unended_step: None,
        complete,
        begun: true,
        may_be_begun: false,
        duration_ms: 1_000,
    };
    let report = RunReport {
        run: "01RUN".into(),
        outcome: Outcome::Failed,
        groups: Vec::new(),
        nodes: vec![result("c1", true), result("c2", false)],
        counts: Counts::default(),
        unverified: Vec::new(),
        drifted: Vec::new(),
        left_out: Vec::new(),
        undrained: Vec::new(),
        unproven: Unproven::default(),
        tag: None,
        halted: None,
        undecided: Vec::new(),
        undelivered: Vec::new(),
        next: vec!["check c2".into()],
        duration_ms: 2_000,
    };
    let record = crate::report::run::tests::record();
    let page = RunPage {
        ways_out: &[],
        explanation: None,
        signature: None,
        record: &record,
        report: Some(&report),
    };
    let text = written(&plan, Some(page));
    for part in [
        "<h1 class=\"grave\">1 machine done, 1 failed</h1>",
        "<code>deploy/control/c2</code></td><td>no image &lt;x&gt;</td>",
        "Next: check c2",
        "r-failed",
        "r-done",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.find("no image") < text.find("h-destructive"));
}

#[test]
fn ten_thousand_different_changes_name_every_machine_that_is_wiped_outside_of_folds() {
    let plan = large();
    let text = written(&plan, None);
    let section = &text[text.find("h-destructive").unwrap()..text.find("h-blocked").unwrap()];
    let outside: String = section
        .split("<details")
        .map(|part| part.rsplit("</details>").next().unwrap())
        .collect();
    let words: BTreeSet<&str> = outside.split([',', ' ', '(', ')', '<', '>']).collect();
    for change in &plan.changes {
        assert!(words.contains(change.node.as_str()), "{}", change.node);
        assert!(words.contains(&*change.disks[0]));
    }
    assert!(text.len() < 4_000_000, "{}", text.len());
    let many = "<p class=\"names many\" role=\"group\" aria-label=\"Names of ";
    assert!(section.contains(many), "names that are wiped scroll");
}

#[test]
fn a_large_plan_of_changes_that_are_alike_holds_each_name_a_few_times_and_no_more() {
    let mut plan = a_thousand_groups(ChangeKind::Redeploy);
    plan.groups
        .iter_mut()
        .for_each(|group| group.success_criteria = SuccessCriteria::default());
    let text = written(&plan, None);
    assert!(text.len() < 1_500_000, "{}", text.len());
    assert!(text.matches("node-7-3").count() <= 4);
    // What is in the document before any script runs stays small.
    assert!(text.matches("data-m=").count() == 0);
}

#[test]
fn the_needs_of_steps_are_told_without_the_name_of_one_machine() {
    let mut plan = control_plane();
    let other = plan
        .steps
        .iter()
        .position(|step| step.id.kind == StepKind::AwaitReady)
        .unwrap();
    let last = plan.steps.len() - 1;
    plan.steps[last].effect = Effect::Destructive;
    plan.steps[last].needs.push(Need {
        step: StepIndex(other as u32),
        wait: Wait::Done,
    });
    let text = written(&plan, None);
    assert!(text.contains("after the end of <code>await-ready</code> of other machines"));
    assert!(text.contains("after success of <code>remove-etcd</code>"));
    assert!(text.contains("after success of the start of its wave"));
}
