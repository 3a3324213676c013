//! Each format over one hand-made plan, over hostile values, and over ten thousand nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use insta::assert_snapshot;

use super::*;
use crate::design::{Section, SuccessCriteria};
use crate::diagnostic::Place;
use crate::diff::{FieldChange, Link};
use crate::observed::PodName;
use crate::plan::{
    Base, Block, Change, ChangeKind, CommitHistory, Forecast, NodeForecast, Options, Plan,
    PlannedGroup, Request, Standing, Summary, Target, TimeForecast,
};
use crate::step::{Need, Step, StepId, StepIndex, StepKind, Wait};

pub(super) fn change(node: &str, kind: ChangeKind, group: Option<&str>) -> Change {
    let destructive = matches!(kind, ChangeKind::Redeploy | ChangeKind::Destroy);
    Change {
        node: node.into(),
        kind,
        rung: None,
        does: None,
        group: group.map(Into::into),
        rack: None,
        blocked: None,
        excluded: false,
        shown_only: false,
        unverified: false,
        destructive,
        disks: Vec::new(),
        cleaning: None,
        reasons: Vec::new(),
        fields: Vec::new(),
        counts_as: Standing::NotStarted,
        machine: None,
        inventory: None,
    }
}

pub(super) fn link(document: &str, by: &str, path: &str, line: u32) -> Link {
    Link {
        document: document.into(),
        by: by.into(),
        place: Place {
            path: path.into(),
            line,
            column: 3,
        },
    }
}

pub(super) fn redeploy(node: &str, blocked: bool) -> Change {
    let mut change = change(node, ChangeKind::Redeploy, Some("compute"));
    change.disks = vec!["sda".into(), "sdb".into()];
    change.fields = vec![FieldChange {
        section: Section::OperatingSystem,
        path: "platform.kernel".into(),
        before: Some("ga-22.04".into()),
        after: Some("hwe-22.04".into()),
        accepted: None,
        chain: vec![
            link(
                "drydock/HostProfile/v1/cp_r720",
                "edited",
                "site/x/profiles/host.yaml",
                31,
            ),
            link(
                &format!("drydock/BaremetalNode/v1/{node}"),
                "host_profile",
                "site/x/nodes.yaml",
                node.len() as u32 * 7,
            ),
        ],
    }];
    if blocked {
        change.blocked = Some(Block {
            reason: format!("`{node}` would be torn down and its disks wiped").into(),
            flag: Some(format!("--allow-redeploy {node}").into()),
            cause: Default::default(),
        });
    }
    change
}

pub(super) fn step(
    kind: StepKind,
    group: Option<&str>,
    node: Option<&str>,
    needs: &[(u32, Wait)],
) -> Step {
    Step {
        id: StepId {
            kind,
            group: group.map(Into::into),
            node: node.map(Into::into),
            wave: None,
        },
        timeout: if node.is_some() { 3_600 } else { 0 },
        effect: kind.facts().effect,
        standby: false,
        parameters: None,
        needs: needs
            .iter()
            .map(|(step, wait)| Need {
                step: StepIndex(*step),
                wait: *wait,
            })
            .collect(),
    }
}

pub(super) fn group(name: &str, nodes: &[&str]) -> PlannedGroup {
    PlannedGroup {
        name: name.into(),
        critical: name == "control",
        depends_on: Vec::new(),
        success_criteria: SuccessCriteria {
            percent_successful_nodes: Some(90),
            ..SuccessCriteria::default()
        },
        nodes: nodes.iter().map(|node| (*node).into()).collect(),
        not_deployed: BTreeMap::new(),
        retired: 0,
        waves: None,
    }
}

pub(super) fn empty() -> Plan {
    Plan {
        site: "x".into(),
        request: Request::default(),
        way_back: None,
        unfinished: None,
        target: Target {
            revision: Some("1111111111111111111111111111111111111111".into()),
            site_digest: "aa".into(),
            dirty: Vec::new(),
            repositories: BTreeMap::new(),
        },
        base: Some(Base {
            run: "01J".into(),
            revision: "2222222222222222222222222222222222222222".into(),
            site_digest: "bb".into(),
        }),
        options: Options {
            as_of: "2026-11-21".into(),
            parallelism: 10,
            ..Options::default()
        },
        intermediate_commits: Vec::new(),
        history: CommitHistory::default(),
        changes: Vec::new(),
        unchanged: 40,
        groups: vec![group("control", &["c1", "c2", "c3"])],
        steps: Vec::new(),
        relies_on: Vec::new(),
        records_digest: "cc".into(),
        notices: Vec::new(),
        warnings: Vec::new(),
        policies: crate::plan::Verdicts::default(),
        guards: crate::plan::PlanGuards::default(),
        approvals: crate::plan::Approvals::default(),
        summary: Summary::default(),
        forecast: Forecast {
            time: Some(TimeForecast {
                median: 20_450,
                percentile_5: 19_000,
                percentile_90: 24_990,
                percentile_95: 26_000,
                timeouts: 341_500,
                runs: 99,
            }),
            ..Forecast::default()
        },
        checked: None,
        rehearsal: None,
    }
}

pub(super) fn plan() -> Plan {
    use Wait::{Done, Success};
    let mut plan = empty();
    plan.groups
        .push(group("compute", &["n1", "n2", "n3", "n4"]));
    plan.groups.push(group("storage", &["s1"]));
    plan.changes = vec![
        change("c1", ChangeKind::Create, Some("control")),
        change("c2", ChangeKind::Create, Some("control")),
        redeploy("n1", false),
        redeploy("n2", true),
        redeploy("n3", true),
        redeploy("n4", true),
        Change {
            reasons: vec!["is off".into()],
            ..change("o1", ChangeKind::Drift, None)
        },
        change("gone", ChangeKind::Destroy, None),
    ];
    plan.warnings = vec!["no group selects `o1`".into()];
    plan.summary = Summary {
        changes: BTreeMap::from([
            (ChangeKind::Create, 2),
            (ChangeKind::Redeploy, 1),
            (ChangeKind::Destroy, 1),
            (ChangeKind::Drift, 1),
        ]),
        blocked: BTreeMap::from([(ChangeKind::Redeploy, 3)]),
        unproven: crate::record::Unproven::default(),
        highest_rung: None,
        wiped_disks: 4,
        retired: 2,
        waves: None,
        excluded: 0,
        longest_path: 7_800,
    };
    plan.steps = vec![
        step(StepKind::VerifySite, None, None, &[]),
        step(StepKind::StartGroup, Some("control"), None, &[(0, Success)]),
        step(
            StepKind::Prepare,
            Some("control"),
            Some("c1"),
            &[(1, Success)],
        ),
        step(
            StepKind::Prepare,
            Some("control"),
            Some("c2"),
            &[(1, Success)],
        ),
        step(
            StepKind::GatePrepared,
            Some("control"),
            None,
            &[(1, Success), (2, Done), (3, Done)],
        ),
        step(
            StepKind::Deploy,
            Some("control"),
            Some("c1"),
            &[(2, Success), (4, Success)],
        ),
        step(StepKind::CriticalCheck, None, None, &[(5, Done)]),
        step(StepKind::Tag, None, None, &[(6, Done)]),
    ];
    plan
}

fn as_text(plan: &Plan, full: bool, steps: bool) -> String {
    let mut out = String::new();
    let view = View {
        full,
        steps,
        ..View::default()
    };
    text(&mut out, plan, view).unwrap();
    out
}

fn as_markdown(plan: &Plan, max_bytes: usize) -> String {
    let mut out = String::new();
    let digest = Some("0123456789abcdef");
    markdown(&mut out, plan, &Comment { max_bytes, digest }).unwrap();
    out
}

#[test]
fn text_shows_what_changes_why_in_which_order_and_what_is_blocked() {
    assert_snapshot!(as_text(&plan(), false, false), @r"
    Site x: update 222222222222 → 111111111111, as of 2026-11-21
    Cannot be applied as it stands: the changes of `n2` and 2 more are blocked

    2 machines are wiped or taken away
        - destroy: gone
      -/+ redeploy, wipes sda, sdb: n1

      + deploy   -/+ tear down and build again   - tear down   ! drifted

    Group control (critical, 3 nodes, 90 % must succeed)
        + c1: deploy
        + c2: deploy

    Group compute (4 nodes, 90 % must succeed)
      -/+ n1: redeploy, wipes sda, sdb
          ~ operating-system platform.kernel: ga-22.04 → hwe-22.04
            because site/x/profiles/host.yaml:31 HostProfile cp_r720 (edited) → site/x/nodes.yaml:14 BaremetalNode n1 (host_profile)
      -/+ n2: redeploy, wipes sda, sdb BLOCKED
          ~ operating-system platform.kernel: ga-22.04 → hwe-22.04
            because site/x/profiles/host.yaml:31 HostProfile cp_r720 (edited) → site/x/nodes.yaml:14 BaremetalNode n2 (host_profile)
          blocked: `n2` would be torn down and its disks wiped; allow it with --allow-redeploy n2
          … and 2 more like this: n3, n4

    In no group
        ! o1: drift
          is off

    No longer in the design
        - gone: destroy

    Nothing to do in: storage

    Steps (8; --steps shows all)
      verify-site
      control: start
      control: prepare 2 nodes, at most 1 h each
      control: gate-prepared
      control: deploy 1 node, at most 1 h each
      critical-check
      tag

    BLOCKED
      -/+ redeploy n2, n3, n4: `n2` would be torn down and its disks wiped; allow them with --allow-redeploy NODE, or all

    warning: no group selects `o1`

    Plan: 2 to deploy, 0 to relabel, 1 to redeploy, 1 to destroy, 1 drifted, wipes 4 disks in all, 2 retired left out, 40 unchanged.
    BLOCKED: 3 to redeploy; nothing is applied until they are allowed or skipped.
    Takes about 5 h 40 min (90 %: under 7 h; timeouts allow 3 d 23 h).
    Effect: c6bbf74a58db3063
    ");
}

#[test]
fn every_step_is_shown_on_request() {
    let text = as_text(&plan(), false, true);
    let steps = text.split_once("Steps").unwrap().1;
    assert_snapshot!(steps.split_once("\n\n").unwrap().0, @r"
    (8)
     verify-site
     start/control, after success of verify-site
     prepare/control/c1, at most 1 h, after success of start/control
     prepare/control/c2, at most 1 h, after success of start/control
     gate-prepared/control, after success of start/control, after the end of prepare/control/c1 and 1 more
     deploy/control/c1 destructive, at most 1 h, after success of prepare/control/c1 and 1 more
     critical-check, after the end of deploy/control/c1
     tag, after the end of critical-check, tags no success, since machines are left out
    ");
}

#[test]
fn with_full_every_node_has_its_own_lines() {
    let text = as_text(&plan(), true, false);
    for node in ["n2", "n3", "n4"] {
        assert!(text.contains(&format!("-/+ {node}: redeploy")), "{text}");
    }
    assert!(!text.contains("more like this"));
}

#[test]
fn a_plan_without_changes_says_so_on_one_line() {
    assert_snapshot!(as_text(&empty(), false, false), @r"
    Site x: update 222222222222 → 111111111111, as of 2026-11-21

    No changes: the site is as designed, 40 unchanged.
    ");
    assert_snapshot!(as_markdown(&empty(), DEFAULT_MAX_BYTES), @r"
    <!-- trueup:plan site=x -->
    ### Plan for `x`: update

    **No changes: the site is as designed, 40 unchanged.**

    `222222222222` → `111111111111`, as of 2026-11-21, plan `0123456789ab`

    The plan holds until the documents, the last site action or the machines that it is about change.
    Apply the saved plan to carry out exactly this.
    ");
}

#[test]
fn the_comment_has_everything_destructive_before_the_first_fold() {
    assert_snapshot!(as_markdown(&plan(), DEFAULT_MAX_BYTES), @r#"
    <!-- trueup:plan site=x -->
    ### Plan for `x`: update

    > **Cannot be applied as it stands: the changes of \`n2\` and 2 more are blocked**

    **Plan: 2 to deploy, 0 to relabel, 1 to redeploy, 1 to destroy, 1 drifted, wipes 4 disks in all, 2 retired left out, 40 unchanged.**

    **BLOCKED: 3 to redeploy; nothing is applied until they are allowed or skipped.**

    **Takes about 5 h 40 min (90 %: under 7 h; timeouts allow 3 d 23 h).**

    `222222222222` → `111111111111`, as of 2026-11-21, plan `0123456789ab`, effect `c6bbf74a58db3063`

    > [!CAUTION]
    > **5 machines are wiped or taken away (3 of them blocked):**
    > - `-` **destroy**: `gone`
    > - `-/+` **redeploy, wipes sda, sdb**: `n1`
    >   because site/x/profiles/host.yaml:31 HostProfile cp\_r720 (edited)
    > - `-/+` **redeploy, wipes sda, sdb** (BLOCKED): `n2`, `n3`, `n4`
    >   because site/x/profiles/host.yaml:31 HostProfile cp\_r720 (edited)

    **Blocked**
    - `-/+` redeploy `n2`, `n3`, `n4`: \`n2\` would be torn down and its disks wiped; allow them with --allow-redeploy NODE, or all

    ⚠ no group selects \`o1\`

    <details><summary>Group control (critical, 3 nodes, 90 % must succeed): 2 changes</summary>

    ```diff
    + c1, c2: deploy
    ```

    </details>

    <details><summary>Group compute (4 nodes, 90 % must succeed): 4 changes</summary>

    ```diff
    - n1: redeploy, wipes sda, sdb
        operating-system platform.kernel: ga-22.04 → hwe-22.04
          because site/x/profiles/host.yaml:31 HostProfile cp_r720 (edited) → site/x/nodes.yaml:14 BaremetalNode n1 (host_profile)
    - n2, n3, n4: redeploy, wipes sda, sdb BLOCKED
        operating-system platform.kernel: ga-22.04 → hwe-22.04
          because site/x/profiles/host.yaml:31 HostProfile cp_r720 (edited) → site/x/nodes.yaml:14 BaremetalNode n2 (host_profile)
    ```

    </details>

    <details><summary>In no group: 1 change</summary>

    ```diff
    ! o1: drift
        is off
    ```

    </details>

    <details><summary>No longer in the design: 1 change</summary>

    ```diff
    - gone: destroy
    ```

    </details>

    <details><summary>Order of the steps</summary>

    ```mermaid
    flowchart LR
      s0["verify-site"]
      s6{"critical-check"}
      s7["tag"]
      subgraph g0["control"]
        s1{"start"}
        s2["prepare c1"]
        s3["prepare c2"]
        s4{"gate-prepared"}
        s5["deploy c1"]
      end
      s0 --> s1
      s1 --> s2
      s1 --> s3
      s1 --> s4
      s2 -.-> s4
      s3 -.-> s4
      s2 --> s5
      s4 --> s5
      s5 -.-> s6
      s6 -.-> s7
      classDef destructive stroke:#d1242f,stroke-width:3px
      class s5 destructive
    ```

    </details>

    The plan holds until the documents, the last site action or the machines that it is about change.
    "#);
}

#[test]
fn the_graph_is_drawn_whole_and_folded() {
    let mut out = String::new();
    dot(&mut out, &plan(), 100).unwrap();
    assert_snapshot!(out, @r#"
    digraph "x" {
      rankdir=LR;
      node [shape=box, fontname="sans-serif"];
      s0 [label="verify-site"];
      s6 [label="critical-check", shape=diamond];
      s7 [label="tag"];
      subgraph cluster_0 {
        label="control";
        s1 [label="start", shape=diamond];
        s2 [label="prepare c1"];
        s3 [label="prepare c2"];
        s4 [label="gate-prepared", shape=diamond];
        s5 [label="deploy c1", color=red, penwidth=2];
      }
      s0 -> s1;
      s1 -> s2;
      s1 -> s3;
      s1 -> s4;
      s2 -> s4 [style=dashed];
      s3 -> s4 [style=dashed];
      s2 -> s5;
      s4 -> s5;
      s5 -> s6 [style=dashed];
      s6 -> s7 [style=dashed];
    }
    "#);
    let mut out = String::new();
    dot(&mut out, &plan(), 4).unwrap();
    assert!(out.contains("s2 [label=\"prepare × 2\"];"), "{out}");
    assert!(
        out.contains("  s2 -> s3 [style=dashed];\n  s2 -> s4;\n"),
        "{out}"
    );
    assert_eq!(out.matches("label=").count(), 8, "{out}");
    let mut out = String::new();
    mermaid(&mut out, &plan(), 4).unwrap();
    assert_snapshot!(out, @r#"
    flowchart LR
      s0["verify-site"]
      s5{"critical-check"}
      s6["tag"]
      subgraph g0["control"]
        s1{"start"}
        s2["prepare × 2"]
        s3{"gate-prepared"}
        s4["deploy × 1"]
      end
      s0 --> s1
      s1 --> s2
      s1 --> s3
      s2 -.-> s3
      s2 --> s4
      s3 --> s4
      s4 -.-> s5
      s5 -.-> s6
      classDef destructive stroke:#d1242f,stroke-width:3px
      class s4 destructive
    "#);
}

/// Ten thousand nodes, no two of which change alike.
pub(super) fn large() -> Plan {
    let mut plan = empty();
    plan.groups.push(group("compute", &[]));
    plan.changes = (0..10_000)
        .map(|index| {
            let mut change = redeploy(
                &format!("rack-{}-node-{index:05}", index / 40),
                index % 2 == 0,
            );
            change.fields[0].after = Some(format!("kernel-{index}").into());
            change.disks = vec![format!("disk-{index}").into()];
            change
        })
        .collect();
    plan.summary.changes = BTreeMap::from([(ChangeKind::Redeploy, 5_000)]);
    plan.summary.blocked = BTreeMap::from([(ChangeKind::Redeploy, 5_000)]);
    plan.summary.wiped_disks = 10_000;
    plan
}

#[test]
fn a_comment_on_ten_thousand_nodes_keeps_to_its_bound_and_counts_every_wiped_machine() {
    let plan = large();
    for most in [200, 2_000, 10_000, DEFAULT_MAX_BYTES] {
        let text = as_markdown(&plan, most);
        assert!(text.len() <= most, "{} > {most}", text.len());
        if most < 2_000 {
            continue;
        }
        let before_folds = text.split("<details>").next().unwrap();
        assert!(before_folds.contains("10000 machines are wiped"));
        assert!(before_folds.contains("more: "));
        assert_eq!(
            text.matches("<details>").count(),
            text.matches("</details>").count()
        );
        assert_eq!(text.matches("\n```").count() % 2, 0);
    }
    // The same with nodes that change alike: all of them are counted in a few lines.
    let mut alike = plan;
    for change in &mut alike.changes {
        *change = redeploy(change.node.as_str(), false);
    }
    let text = as_markdown(&alike, DEFAULT_MAX_BYTES);
    assert!(text.len() <= DEFAULT_MAX_BYTES);
    assert!(text.contains("redeploy, wipes sda, sdb"));
}

#[test]
fn nothing_from_a_document_drives_a_terminal_or_means_anything_to_markdown() {
    let evil: Arc<str> = "\u{1b}[2J```\n</details><!-- --> @all #1 `| \u{202e}".into();
    let mut plan = plan();
    plan.warnings = vec![evil.clone()];
    plan.options.as_of = evil.clone();
    let mut change = redeploy("n1", true);
    change.node = evil.as_ref().into();
    change.disks = vec![evil.clone()];
    change.reasons = vec![evil.clone()];
    change.fields[0].path = evil.clone();
    change.fields[0].after = Some(evil.clone());
    change.fields[0].chain[0].document = evil.clone();
    change.fields[0].chain[0].place.path = evil.clone();
    change.blocked = Some(Block {
        reason: evil.clone(),
        flag: Some(evil.clone()),
        cause: Default::default(),
    });
    plan.changes = vec![change];
    plan.groups[1].name = evil.as_ref().into();
    plan.steps[1].id.group = Some(evil.as_ref().into());
    let (mut graph, mut flow) = (String::new(), String::new());
    dot(&mut graph, &plan, 100).unwrap();
    mermaid(&mut flow, &plan, 100).unwrap();
    let comment = as_markdown(&plan, DEFAULT_MAX_BYTES);
    for text in [&as_text(&plan, true, true), &comment, &graph, &flow] {
        let bad = |c: char| c != '\n' && crate::document::is_hidden(c);
        assert!(!text.chars().any(bad), "{text}");
    }
    // Outside of code, which takes everything as it is, nothing of it is left.
    let mut fence: Option<String> = None;
    for line in comment.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if *open == ticks => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                let own = line.starts_with("<!-- trueup:plan")
                    || line.starts_with("<details><summary>")
                    || line == "</details>";
                let code_free: String = line.split("`` ").step_by(2).collect();
                assert!(own || !code_free.contains("</details>"), "{line}");
                assert!(!code_free.contains("@all"), "{line}");
            }
        }
    }
    assert_eq!(fence, None);
    assert_eq!(marker("a-->b"), "<!-- trueup:plan site=a--%3Eb -->");
}

#[test]
fn a_large_plan_is_written_in_time_that_grows_with_it() {
    let plan = large();
    let text = as_text(&plan, true, false);
    assert!(text.lines().count() >= 10_000);
}

/// A plan of a thousand groups of ten nodes each, after one that is critical.
pub(super) fn a_thousand_groups(kind: ChangeKind) -> Plan {
    let mut plan = empty();
    plan.groups = vec![group("control", &[])];
    for number in 0..1_000 {
        let name = format!("group-{number}");
        plan.groups.push(group(&name, &[]));
        plan.steps
            .push(step(StepKind::StartGroup, Some(&name), None, &[]));
        for node in 0..10 {
            let node = format!("node-{number}-{node}");
            let mut changed = change(&node, kind, Some(&name));
            changed.disks = vec!["sda".into()];
            plan.changes.push(changed);
            plan.steps
                .push(step(StepKind::Deploy, Some(&name), Some(&node), &[]));
        }
    }
    plan.changes
        .push(change("c1", ChangeKind::Create, Some("control")));
    plan
}

#[test]
fn groups_to_which_the_same_happens_are_shown_once_with_all_that_they_destroy() {
    let plan = a_thousand_groups(ChangeKind::Redeploy);
    let text = as_text(&plan, false, false);
    assert!(text.lines().count() < 60, "{text}");
    for line in [
        "… and 999 more groups like this, 9990 to redeploy (wipes 9990 disks): group-1, group-2",
        "… and 999 more groups like this, deploy 9990 nodes: group-1, group-2",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let full = as_text(&plan, true, false);
    assert!(full.contains("Group group-999 ") && !full.contains('…'));
    let comment = as_markdown(&plan, DEFAULT_MAX_BYTES);
    assert_eq!(comment.matches("<details>").count(), 2);
    assert!(!comment.contains("Left out for length"), "{comment}");
    assert!(comment.contains("10000 machines are wiped"), "{comment}");
    assert!(comment.len() < 10_000, "{}", comment.len());
}

#[test]
fn groups_that_differ_in_what_happens_stay_apart_up_to_a_bound() {
    let mut plan = a_thousand_groups(ChangeKind::Create);
    // The last group loses its data, and is shown although a thousand before it are folded.
    for change in plan.changes.iter_mut().rev().skip(1).take(10) {
        *change = redeploy(change.node.as_str(), false);
        change.group = Some("group-999".into());
    }
    let text = as_text(&plan, false, false);
    assert!(text.contains("Group group-999 "), "{text}");
    assert!(text.contains("redeploy, wipes sda, sdb"), "{text}");
    // Each is different: so many are shown, and the others counted by what happens in them.
    for (number, change) in plan.changes.iter_mut().enumerate() {
        change.reasons = vec![format!("reason {}", number / 10).into()];
    }
    let text = as_text(&plan, false, false);
    assert!(text.lines().count() < 300, "{}", text.lines().count());
    assert!(text.contains("Group group-999 "), "{text}");
    let counted = "970 more groups, 9700 to deploy: group-29, ";
    assert!(text.contains(counted), "{text}");
}

#[test]
fn changes_of_the_same_fields_fold_whatever_their_values() {
    let plan = large();
    let text = as_text(&plan, false, false);
    assert!(text.lines().count() < 60, "{text}");
    let folded = "… and 4997 more with the same fields, 4997 to redeploy (wipes 4997 disks): ";
    assert_eq!(text.matches(folded).count(), 2, "{text}");
    assert!(text.contains("allow them with --allow-redeploy NODE, or all"));
    let comment = as_markdown(&plan, DEFAULT_MAX_BYTES);
    assert!(comment.contains(folded), "{comment}");
}

#[test]
fn drains_that_wait_or_lose_something_come_before_those_that_only_take_long() {
    let mut plan = empty();
    let node = |number: usize| NodeForecast {
        node: format!("n{number:03}").as_str().into(),
        evicted: 2,
        blocked: Vec::new(),
        uncontrolled: Vec::new(),
        skipped: Vec::new(),
        awaited: Vec::new(),
        local_data: Vec::new(),
    };
    plan.forecast.nodes = (0..100).map(node).collect();
    plan.forecast.nodes[99].uncontrolled = vec![PodName {
        namespace: "default".into(),
        name: "alone".into(),
        uid: "u".into(),
    }];
    plan.forecast.nodes[98].skipped = plan.forecast.nodes[99].uncontrolled.clone();
    plan.forecast.nodes[97].awaited = plan.forecast.nodes[99].uncontrolled.clone();
    let text = as_text(&plan, false, false);
    for line in [
        "n098: evicts 2 pods; left where they are: default/alone",
        "n097: evicts 2 pods; waited for until they complete: default/alone",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let at = |what: &str| text.find(what).unwrap_or(usize::MAX);
    assert!(
        at("n099: evicts 2 pods; not started again:") < at("n000: "),
        "{text}"
    );
    assert!(
        text.contains("… and 80 more nodes: evict 160 pods; --full"),
        "{text}"
    );
    assert!(as_text(&plan, true, false).contains("n098: "));
    for node in &mut plan.forecast.nodes[..40] {
        node.evicted = 0;
    }
    for full in [false, true] {
        let text = as_text(&plan, full, false);
        assert_eq!(
            text.matches("40 nodes: no pods to evict").count(),
            1,
            "{text}"
        );
        assert!(!text.contains("evicts 0 pods"), "{text}");
    }
}

#[test]
fn waves_that_go_through_the_same_phases_are_shown_once() {
    let mut plan = empty();
    plan.groups = vec![group("compute", &[])];
    let mut add = |kind, node: Option<&str>, wave| {
        let mut step = step(kind, Some("compute"), node, &[]);
        step.id.wave = wave;
        plan.steps.push(step);
    };
    add(StepKind::StartGroup, None, None);
    for wave in 1..=100 {
        add(StepKind::StartWave, None, Some(wave));
        for kind in [StepKind::Destroy, StepKind::Deploy] {
            for node in 0..10 {
                add(kind, Some(&format!("n{wave}-{node}")), Some(wave));
            }
        }
    }
    add(StepKind::GateDeployed, None, None);
    let text = as_text(&plan, false, false);
    assert!(text.lines().count() < 20, "{text}");
    let folded = "… and 99 more waves of compute like this, of 990 nodes; --full shows all";
    assert!(text.contains(folded), "{text}");
    assert!(text.contains("gate-deployed"), "{text}");
    assert!(as_text(&plan, true, false).contains("compute wave 100: destroy 10 nodes"));
}
