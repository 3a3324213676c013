//! Events, reports and tables over hand-made values, and over hostile ones.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use indicatif::{ProgressDrawTarget, TermLike};
use insta::assert_snapshot;

use super::*;
use crate::journal::StepOutcome;
use crate::lifecycle::{PowerState, ProvisionState};
use crate::observed::{Capabilities, ClusterNode, Fact, ObservedNode};
use crate::plan::{Action, RunState, Standing, UnfinishedRun};
use crate::record::{Counts, NodeRecord, Phase, RunRecord, Unproven};
use crate::report::Palette;
use crate::report::airship::Heard;
use crate::run::{EventKind, GateStage, GroupResult, NodeResult, RunEvent, RunReport, Undrained};
use crate::step::{LeftPods, StepId, StepKind};

fn step(kind: StepKind, node: &str) -> StepId {
    StepId {
        kind,
        group: Some("compute".into()),
        node: Some(node.into()),
        wave: None,
    }
}

fn ending() -> RunReport {
    RunReport {
        run: "01J".into(),
        outcome: Outcome::SucceededWithFailures,
        groups: vec![GroupResult {
            group: "compute".into(),
            critical: false,
            succeeded: false,
            stopped: false,
            reason: Some("1 of 2 nodes, 90 % wanted".into()),
            standings: BTreeMap::from([(Standing::Deployed, 1), (Standing::Failed, 1)]),
        }],
        nodes: vec![
            NodeResult {
                node: "n1".into(),
                standing: Standing::Deployed,
                failed_step: None,
                message: None,
                unended_step: None,
                complete: true,
                begun: true,
                may_be_begun: false,
                duration_ms: 61_000,
            },
            NodeResult {
                node: "n2".into(),
                standing: Standing::Failed,
                failed_step: Some("deploy/compute/n2".into()),
                message: Some("the image cannot be read".into()),
                unended_step: None,
                complete: false,
                begun: true,
                may_be_begun: false,
                duration_ms: 4_200,
            },
        ],
        counts: Counts {
            succeeded: 1,
            failed: 1,
            half_done: 0,
            not_started: 0,
            may_be_begun: 0,
        },
        unverified: Vec::new(),
        drifted: Vec::new(),
        left_out: Vec::new(),
        undrained: Vec::new(),
        unproven: Unproven::default(),
        tag: Some("site-action-success/x/01J".into()),
        halted: None,
        undecided: Vec::new(),
        undelivered: Vec::new(),
        next: vec!["check n2, then plan again".into()],
        duration_ms: 754_000,
    }
}

fn events() -> Vec<RunEvent> {
    let kinds = vec![
        EventKind::RunStarted {
            run: "01J".into(),
            site: "x".into(),
            action: "update".into(),
            revision: "1111111111111111".into(),
            steps: 4,
            resumed: false,
        },
        EventKind::GroupStarted {
            group: "compute".into(),
            nodes: 2,
        },
        EventKind::StepStarted {
            step: step(StepKind::Deploy, "n2"),
            kind: StepKind::Deploy,
            node: Some("n2".into()),
            attempt: 1,
        },
        EventKind::StepRetried {
            step: step(StepKind::Deploy, "n2"),
            message: "the provisioner is busy".into(),
            delay_ms: 1_500,
        },
        EventKind::StepFinished {
            step: step(StepKind::Deploy, "n2"),
            kind: StepKind::Deploy,
            node: Some("n2".into()),
            outcome: StepOutcome::Failed {
                message: "the image cannot be read".into(),
            },
            duration_ms: 4_200,
        },
        EventKind::GateEvaluated {
            group: "compute".into(),
            stage: GateStage::Deployed,
            successful: 1,
            nodes: 2,
            passed: false,
            unmet: vec!["50 % of 90 %".into()],
        },
        EventKind::GroupFinished {
            result: ending().groups.remove(0),
        },
        EventKind::Checkpoint { nodes: 2 },
        EventKind::Stopping { running: 1 },
        EventKind::Warning {
            message: "the lock is old".into(),
        },
        EventKind::RunFinished {
            report: Box::new(ending()),
        },
    ];
    kinds
        .into_iter()
        .enumerate()
        .map(|(index, kind)| RunEvent {
            time: format!("2026-11-21T06:41:{index:02}.000Z").into(),
            elapsed_ms: index as u64 * 1_000,
            remaining_ms: None,
            kind,
        })
        .collect()
}

fn row(record: RunRecord) -> RunRow {
    RunRow {
        record,
        signature: None,
    }
}

pub(in crate::report) fn record() -> RunRecord {
    RunRecord {
        run: "01J".into(),
        site: "x".into(),
        action: "update".into(),
        revision: "1111111111111111".into(),
        site_digest: "aa".into(),
        plan_digest: "bb".into(),
        started: "2026-11-21T06:41:00.000Z".into(),
        ended: Some("2026-11-21T06:53:34.000Z".into()),
        outcome: Outcome::SucceededWithFailures,
        partial: true,
        unverified: 0,
        counts: ending().counts,
        unproven: Unproven::default(),
        halted: None,
        tag: None,
        annotation: None,
        tag_owed: false,
        actor: Some("Ada".into()),
        requested: None,
        journal: None,
        approvals: Vec::new(),
        ticket: None,
        break_glass: None,
        repositories: Default::default(),
        policy_asks: false,
        workers: None,
    }
}

fn heard(reporter: &mut dyn Reporter, events: &[RunEvent]) {
    for event in events {
        reporter.event(event).unwrap();
    }
}

#[test]
fn each_event_is_one_line_with_its_time() {
    let mut out = String::new();
    heard(&mut Lines::new(&mut out, Palette::Plain), &events());
    assert_snapshot!(out, @r"
    06:41:00 +00:00:00  run 01J starts: update of x to 111111111111, 4 steps
    06:41:01 +00:00:01  group compute starts, 2 nodes
    06:41:02 +00:00:02  deploy/compute/n2 starts
    06:41:03 +00:00:03  deploy/compute/n2 is retried in 1.5 s: the provisioner is busy
    06:41:04 +00:00:04  deploy/compute/n2 FAILED after 4.2 s: the image cannot be read
    06:41:05 +00:00:05  group compute gate deployed DOES NOT HOLD: 1 of 2; 50 % of 90 %
    06:41:06 +00:00:06  group compute FAILED: 1 of 2 nodes, 90 % wanted
    06:41:07 +00:00:07  records written, 2 nodes
    06:41:08 +00:00:08  stopping: nothing new starts, 1 step is still running; Ctrl-C again stops at once, and `trueup apply --resume` resumes the run
    06:41:09 +00:00:09  warning: the lock is old
    06:41:10 +00:00:10  run 01J succeeded with failures after 12 min
    ");
}

#[test]
fn each_event_is_one_versioned_json_object_on_a_line() {
    let mut out = String::new();
    heard(&mut JsonLines::new(&mut out), &events());
    assert_eq!(out.lines().count(), events().len());
    for line in out.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["format_version"], 1);
        assert!(value["event"].is_string() && value["time"].is_string());
    }
    assert_snapshot!(out.lines().nth(4).unwrap(), @r#"{"format_version":1,"time":"2026-11-21T06:41:04.000Z","elapsed_ms":4000,"event":"step-finished","step":"deploy/compute/n2","kind":"deploy","node":"n2","outcome":"failed","message":"the image cannot be read","duration_ms":4200}"#);
    assert_snapshot!(out.lines().nth(6).unwrap(), @r#"{"format_version":1,"time":"2026-11-21T06:41:06.000Z","elapsed_ms":6000,"event":"group-finished","group":"compute","critical":false,"succeeded":false,"reason":"1 of 2 nodes, 90 % wanted","standings":{"deployed":1,"failed":1}}"#);
}

/// A terminal that remembers all that was ever written on it.
#[derive(Clone, Debug, Default)]
struct Terminal(Arc<(Mutex<String>, Condvar)>);

impl Terminal {
    fn take(&self) -> String {
        std::mem::take(&mut self.0.0.lock().unwrap())
    }

    /// Waits until all of some texts were written, at most a minute; what is drawn is drawn at most so many times
    /// a second.
    fn shows(&self, texts: &[&str]) {
        let (written, more) = &*self.0;
        let lacks = |written: &mut String| !texts.iter().all(|text| written.contains(text));
        let limit = Duration::from_secs(60);
        let waited = more.wait_timeout_while(written.lock().unwrap(), limit, lacks);
        let (written, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "{texts:?}: {written}");
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        100
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)?;
        self.write_str("\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.0.lock().unwrap().push_str(text);
        self.0.1.notify_all();
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn on_a_terminal_nodes_in_work_have_lines_and_failures_stay() {
    let terminal = Terminal::default();
    let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
    let mut progress = Progress::new(target, Palette::Plain);
    let mut events = events();
    heard(&mut progress, &events[..2]);
    terminal.shows(&["0 of 4 steps, 0 running, 0s"]);
    assert!(!terminal.take().contains("left"), "nothing was estimated");
    events[2].remaining_ms = Some(20_400_000);
    heard(&mut progress, &events[2..3]);
    terminal.shows(&[
        "deploy/compute/n2",
        "0 of 4 steps, 1 running",
        ", about 5 h 40 min left",
    ]);
    terminal.take();
    events[2].remaining_ms = Some(0);
    heard(&mut progress, &events[2..3]);
    terminal.shows(&[", longer than expected"]);
    terminal.take();
    heard(&mut progress, &events[3..]);
    drop(progress);
    let shown = terminal.take();
    for kept in [
        "deploy/compute/n2 FAILED after 4.2 s: the image cannot be read",
        "group compute FAILED",
        "run 01J succeeded with failures",
    ] {
        assert!(shown.contains(kept), "{kept}: {shown}");
    }
}

#[test]
fn the_report_lists_groups_and_what_failed_and_what_to_do() {
    let mut out = String::new();
    report(&mut out, &ending(), Palette::Plain, false).unwrap();
    assert_snapshot!(out, @r"
    GROUP    RESULT  NODES                 REASON
    compute  FAILED  1 deployed, 1 failed  1 of 2 nodes, 90 % wanted

    NODE  STANDING  STEP               TIME   REASON
    n2    failed    deploy/compute/n2  4.2 s  the image cannot be read

    next: check n2, then plan again
    Tagged site-action-success/x/01J
    Run 01J succeeded with failures: 1 succeeded, 1 failed, in 12 min
    ");
}

#[test]
fn the_report_names_pods_that_drains_left() {
    let mut ended = ending();
    let left = LeftPods::new((1..=7).map(|number| format!("web/shop-{number}\u{1b}")));
    let node = "n1".into();
    ended.undrained = vec![Undrained { node, left }];
    let mut out = String::new();
    report(&mut out, &ended, Palette::Plain, false).unwrap();
    let line = "pods left: the drain of n1 ended with 7 pods on it, as `--on-drain-timeout continue` allows: web/shop-1";
    assert!(out.contains(line) && out.contains(" and 2 more\n"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
    let status = Heard::default().into_status(Action::Drain, &ended);
    let message = &status.messages.last().unwrap().message;
    assert!(message.contains("web/shop-7"), "{message}");
    let json = serde_json::to_value(&ended).unwrap();
    assert_eq!(json["undrained"][0]["count"], 7);
}

#[test]
fn the_report_names_machines_that_nothing_proves() {
    let mut ended = ending();
    ended.unverified = vec!["n1".into(), "n2".into()];
    let mut out = String::new();
    report(&mut out, &ended, Palette::Plain, false).unwrap();
    let line = "unverified: nothing proves that 2 machines changed by this run are the ones that are meant: n1, n2\n";
    assert!(out.contains(line), "{out}");
    let json = serde_json::to_value(&ended).unwrap();
    assert_eq!(json["unverified"], serde_json::json!(["n1", "n2"]));
    ended.drifted = vec!["n3".into()];
    out.clear();
    report(&mut out, &ended, Palette::Plain, false).unwrap();
    let line = "drift: this run left 1 machine other than designed or applied (`trueup plan` tells how): n3\n";
    assert!(out.contains(line), "{out}");

    ended.left_out = vec!["n4".into(), "n5".into()];
    out.clear();
    report(&mut out, &ended, Palette::Plain, false).unwrap();
    let line = "left out: this run did nothing to 2 machines that its plan would change (`trueup plan` tells why): n4, n5\n";
    assert!(out.contains(line), "{out}");

    ended.unverified = (0..1_000)
        .map(|number| format!("n{number}").into())
        .collect();
    out.clear();
    report(&mut out, &ended, Palette::Plain, false).unwrap();
    assert!(
        out.contains("meant: n0, n1, n2, n3, n4 and 995 more\n"),
        "{out}"
    );
}

#[test]
fn the_log_is_a_table_and_a_run_is_shown_in_full() {
    let mut out = String::new();
    log(&mut out, &[row(record())], None, Palette::Plain).unwrap();
    out.push('\n');
    log(&mut out, &[], None, Palette::Plain).unwrap();
    out.push('\n');
    show(&mut out, &row(record()), None, Palette::Plain, false).unwrap();
    assert_snapshot!(out, @r"
    STARTED           RUN  BY   ACTION  REVISION      OUTCOME                            NODES                  TAG
    2026-11-21 06:41  01J  Ada  update  111111111111  succeeded with failures (partial)  1 succeeded, 1 failed  -

    Nothing was applied yet

    Run 01J: succeeded with failures
      site      x
      action    update
      revision  1111111111111111
      documents aa
      plan      bb
      by        Ada
      started   2026-11-21T06:41:00.000Z
      ended     2026-11-21T06:53:34.000Z
      a part of the plan only, so no success of the site
      1 succeeded, 1 failed
    ");
    let mut json = String::new();
    log_json(&mut json, &[row(record())], None).unwrap();
    show_json(&mut json, &row(record()), Some(&ending())).unwrap();
    let mut values = serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>();
    assert_eq!(values.next().unwrap().unwrap()["runs"][0]["run"], "01J");
    assert_eq!(
        values.next().unwrap().unwrap()["report"]["nodes"][1]["node"],
        "n2"
    );
}

fn observed() -> ObservedNode {
    ObservedNode {
        provision: Fact::Known(ProvisionState::CleanFailed),
        power: Fact::Known(PowerState::Off),
        cluster: Fact::Known(Some(ClusterNode {
            uid: "u".into(),
            ready: true,
            unschedulable: true,
            ..ClusterNode::default()
        })),
        capabilities: Capabilities::default(),
        ..ObservedNode::unknown("not asked")
    }
}

fn unfinished(run: &str, state: RunState) -> UnfinishedRun {
    UnfinishedRun {
        run: run.into(),
        action: "redeploy".into(),
        state,
        started: "2026-11-29T05:00:00Z".into(),
        actor: None,
        host: None,
    }
}

#[test]
fn the_log_tells_why_a_run_has_not_ended() {
    for (state, word) in [
        (RunState::Running, "running"),
        (RunState::Interrupted, "interrupted"),
        (RunState::EndedElsewhere, "ended elsewhere"),
    ] {
        let open = RunRecord {
            outcome: Outcome::Running,
            partial: false,
            ..record()
        };
        let mut out = String::new();
        let unfinished = unfinished("01J", state);
        log(&mut out, &[row(open)], Some(&unfinished), Palette::Plain).unwrap();
        assert!(out.contains(word), "{state:?}: {out}");
    }
}

#[test]
fn a_site_is_not_called_as_designed_before_the_end_of_a_run() {
    let open = unfinished("01L", RunState::Running);
    let mut line = String::new();
    let settled = NodeRecord::blank("n1".into(), "01J".into());
    let designed = StatusRow {
        observed: None,
        record: Some(&settled),
        differs: Vec::new(),
        node: &settled.node,
        designed: true,
        reservation: None,
        owes_soak: false,
    };
    status(&mut line, &[designed], Some(&open), Palette::Plain).unwrap();
    assert!(
        line.ends_with("1 node, none known to differ, run 01L has not ended\n"),
        "{line}"
    );
}

#[test]
fn status_shows_each_node_from_all_sides() {
    let record = NodeRecord {
        phase: Phase::Deployed,
        maintenance: Some("disk swap".into()),
        ..NodeRecord::blank("n1".into(), "01J".into())
    };
    let unknown = ObservedNode::unknown("no answer");
    let observed = observed();
    let names: [crate::design::NodeName; 3] = ["n1".into(), "node-2".into(), "n3".into()];
    let row = |index: usize| StatusRow {
        reservation: None,
        node: &names[index],
        designed: index != 2,
        record: (index == 0).then_some(&record),
        observed: [Some(&observed), Some(&unknown), None][index],
        differs: match index {
            0 => vec!["is off".into()],
            _ => Vec::new(),
        },
        owes_soak: false,
    };
    let rows = [row(0), row(1), row(2)];
    let mut out = String::new();
    status(&mut out, &rows, None, Palette::Plain).unwrap();
    assert_snapshot!(out, @r"
    NODE    RECORD    MACHINE       POWER    CLUSTER   DIFFERS
    n1      deployed  clean failed  off      cordoned  is off; maintenance: disk swap
    n3      -         -             -        -         not in the design
    node-2  -         unknown       unknown  unknown   not observed: no answer
    3 nodes, 2 differ, 1 could not be observed
    ");
    let mut told = row(1);
    told.differs = vec!["it could not be observed: no answer".into()];
    let mut line = String::new();
    status(&mut line, &[told], None, Palette::Plain).unwrap();
    assert_eq!(line.matches("no answer").count(), 1, "{line}");
    // A reason that the plan and several states of the machine share.
    let mut failed = record.clone();
    failed.maintenance = Some("sdb is broken".into());
    failed.last_error = Some("sdb is broken".into());
    for (differs, notes) in [
        (
            "failed in run 1: sdb is broken",
            "failed in run 1: sdb is broken; maintenance: sdb is broken",
        ),
        (
            "is in maintenance (sdb is broken)",
            "is in maintenance (sdb is broken)",
        ),
        ("is off", "is off; maintenance: sdb is broken"),
    ] {
        let row = StatusRow {
            observed: None,
            record: Some(&failed),
            differs: vec![differs.into()],
            ..row(0)
        };
        let mut line = String::new();
        status(&mut line, &[row], None, Palette::Plain).unwrap();
        assert!(line.contains(&format!(" {notes}\n")), "{line}");
    }
    let mut soaking = NodeRecord::blank("n1".into(), "01J".into());
    soaking.soaking = Some("01K".into());
    let owing = StatusRow {
        observed: None,
        record: Some(&soaking),
        differs: Vec::new(),
        owes_soak: true,
        ..row(0)
    };
    let mut line = String::new();
    status(&mut line, &[owing], None, Palette::Plain).unwrap();
    assert!(line.contains(" owes the soak of run 01K\n"), "{line}");
    assert!(
        line.ends_with("1 node, all as designed, 1 owes a soak\n"),
        "{line}"
    );
    let (mut retired, mut kept) = (soaking.clone(), soaking);
    retired.retired = Some("old".into());
    kept.maintenance = Some("fan".into());
    let left_out = [&retired, &kept].map(|record| StatusRow {
        observed: None,
        record: Some(record),
        differs: Vec::new(),
        ..row(0)
    });
    let mut lines = String::new();
    status(&mut lines, &left_out, None, Palette::Plain).unwrap();
    assert!(
        lines.ends_with("2 nodes, 1 retired, 1 in maintenance\n"),
        "{lines}"
    );
    let mut json = String::new();
    status_json(&mut json, &rows, &crate::plan::Approvals::default(), None).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["nodes"][0]["differs"][0], "is off");
}

#[test]
fn no_event_report_or_table_lets_a_control_character_pass() {
    let evil: Arc<str> = "\u{1b}[2J\r\n\u{202e}x\u{9b}".into();
    let mut events = events();
    for event in &mut events {
        event.time = evil.clone();
        match &mut event.kind {
            EventKind::RunStarted { run, action, .. } => {
                *run = evil.as_ref().into();
                *action = evil.clone();
            }
            EventKind::StepStarted { step, .. } => step.node = Some(evil.as_ref().into()),
            EventKind::StepRetried { message, .. } | EventKind::Warning { message } => {
                *message = evil.clone();
            }
            EventKind::StepFinished { outcome, .. } => {
                *outcome = StepOutcome::Failed {
                    message: evil.clone(),
                };
            }
            EventKind::GateEvaluated { unmet, .. } => *unmet = vec![evil.clone()],
            EventKind::GroupFinished { result } => result.reason = Some(evil.clone()),
            _ => {}
        }
    }
    let mut ending = ending();
    ending.nodes[1].message = Some(evil.clone());
    ending.next = vec![evil.clone()];
    ending.tag = Some(evil.clone());
    let mut record = record();
    record.action = evil.clone();
    record.started = evil.clone();
    let mut out = String::new();
    heard(&mut Lines::new(&mut out, Palette::Plain), &events);
    heard(&mut JsonLines::new(&mut out), &events);
    report(&mut out, &ending, Palette::Plain, false).unwrap();
    log(&mut out, &[row(record.clone())], None, Palette::Plain).unwrap();
    show(
        &mut out,
        &row(record.clone()),
        Some(&ending),
        Palette::Plain,
        false,
    )
    .unwrap();
    show_json(&mut out, &row(record.clone()), Some(&ending)).unwrap();
    let bad = |c: char| c != '\n' && crate::document::is_hidden(c);
    assert!(!out.chars().any(bad), "{out}");
}

#[test]
fn groups_and_nodes_of_a_large_run_are_counted_where_they_have_something_in_common() {
    let mut large = ending();
    let (group, node) = (large.groups.remove(0), large.nodes.remove(1));
    large.nodes.clear();
    for number in 0..1_000 {
        let mut group = group.clone();
        group.group = format!("group-{number}").as_str().into();
        group.succeeded = number != 500;
        large.groups.push(group);
        let mut node = node.clone();
        node.node = format!("n{number}").as_str().into();
        if number == 700 {
            node.message = Some("its disk is gone".into());
        }
        large.nodes.push(node);
    }
    let mut out = String::new();
    report(&mut out, &large, Palette::Plain, false).unwrap();
    assert_snapshot!(out, @r"
    GROUP            RESULT     NODES                     REASON
    group-500        FAILED     1 deployed, 1 failed      1 of 2 nodes, 90 % wanted
    999 more groups  succeeded  999 deployed, 999 failed  -

    NODE            STANDING  STEP               TIME   REASON
    n0              failed    deploy/compute/n2  4.2 s  the image cannot be read
    n1              failed    deploy/compute/n2  4.2 s  the image cannot be read
    n2              failed    deploy/compute/n2  4.2 s  the image cannot be read
    n3              failed    deploy/compute/n2  4.2 s  the image cannot be read
    n4              failed    deploy/compute/n2  4.2 s  the image cannot be read
    … and 994 more  failed    -                  -      the image cannot be read
    n700            failed    deploy/compute/n2  4.2 s  its disk is gone

    `trueup show 01J --full` lists all

    next: check n2, then plan again
    Tagged site-action-success/x/01J
    Run 01J succeeded with failures: 1 succeeded, 1 failed, in 12 min
    ");
    out.clear();
    report(&mut out, &large, Palette::Plain, true).unwrap();
    assert!(out.lines().count() > 2_000);
}

#[test]
fn a_report_for_a_file_has_the_groups_and_what_is_not_done() {
    let mut report = ending();
    report.nodes[1].message = Some("no <image> ]]> |".into());
    let mut text = String::new();
    report_markdown(&mut text, &report).unwrap();
    assert_snapshot!(text, @r"
    ### Run `01J` succeeded with failures

    1 succeeded, 1 failed, in 12 min

    | group | result | reason |
    | --- | --- | --- |
    | `compute` | **FAILED** | 1 of 2 nodes, 90 % wanted |

    **Not done**

    - `n2` at `deploy/compute/n2`: no &lt;image&gt; \]\]&gt; \|

    Next: check n2, then plan again

    Tagged `site-action-success/x/01J`
    ");
    let mut text = String::new();
    report_junit(&mut text, &report).unwrap();
    assert_snapshot!(text, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites>
      <testsuite name="trueup apply: groups" tests="1" failures="1" errors="0" skipped="0" time="0.000">
        <testcase classname="groups" name="compute"><failure type="group" message="1 of 2 nodes, 90 % wanted">1 of 2 nodes, 90 % wanted</failure></testcase>
      </testsuite>
      <testsuite name="trueup apply: nodes" tests="2" failures="1" errors="0" skipped="0" time="754.000">
        <testcase classname="nodes" name="n1" time="61.000"/>
        <testcase classname="nodes" name="n2" time="4.200"><failure type="deploy/compute/n2" message="no &lt;image&gt; ]]&gt; |">deploy/compute/n2: no &lt;image&gt; ]]&gt; |</failure></testcase>
      </testsuite>
    </testsuites>
    "#);
}
