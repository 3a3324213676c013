//! The tags of site actions: which run makes one, its name and its words.
//!
//! airship-node-teardown, "Shipyard Tag Releases": success and failure are tagged, one commit may carry
//! both from different runs, and the words carry `dag_id: <run>`. The state of the site is the
//! authority; the tags publish it.

use std::sync::Arc;

use crate::design::NodeName;
use crate::plan::{ChangeKind, Plan};
use crate::record::{Annotation, Outcome, RunRecord, Signing, SiteState};
use crate::repository::{NewTag, Signature};

/// Most failed nodes that the words of a tag name.
const MOST_NAMES: usize = 50;

/// The action that brings the whole site true. The others are targeted and make no tag.
pub(super) const SITE_ACTION: &str = "update";

/// The facts about a plan and its run that decide its tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagFacts {
    /// Whether verify-site succeeded, so that something could have been changed.
    pub(super) past_verification: bool,
    /// Whether the plan changes nothing.
    pub(super) is_no_op: bool,
}

/// The name of the tag that a run makes, below `refs/tags/`; `None` if it makes none.
pub(super) fn name(run: &RunRecord, before: &SiteState, facts: TagFacts) -> Option<String> {
    if &*run.action != SITE_ACTION {
        return None;
    }
    let kind = match run.outcome {
        Outcome::Succeeded | Outcome::SucceededWithFailures => {
            if run.partial || (facts.is_no_op && is_applied(run, before)) {
                return None;
            }
            "success"
        }
        Outcome::Failed | Outcome::Abandoned if facts.past_verification => "failure",
        Outcome::Failed | Outcome::Abandoned | Outcome::Running | Outcome::Interrupted => {
            return None;
        }
    };
    Some(format!("site-action-{kind}/{}/{}", run.site, run.run))
}

/// Whether the last action was a success with the same commit.
fn is_applied(run: &RunRecord, before: &SiteState) -> bool {
    before.last_action == before.last_success
        && before
            .last_success
            .as_ref()
            .is_some_and(|success| success.revision == run.revision)
}

/// The annotation of the tag of a run that names one.
pub(super) fn annotation<'n>(
    run: &RunRecord,
    failed: impl IntoIterator<Item = &'n NodeName>,
    tagger: Signature,
) -> Option<Box<Annotation>> {
    run.tag.as_ref()?;
    let counts = run.counts;
    let broken = run.break_glass.as_ref().map_or_else(String::new, |broken| {
        let reason = broken.reason.replace(char::is_control, " ");
        format!("break-glass: by {}: {reason}\n", broken.by)
    });
    let ticket = run
        .ticket
        .as_ref()
        .map_or_else(String::new, |ticket| format!("ticket: {ticket}\n"));
    let half_done = match counts.half_done {
        0 => String::new(),
        number => format!("{number} half-done, "),
    };
    let unverified = match run.unverified {
        0 => String::new(),
        number => format!("unverified: {number}\n"),
    };
    let halted = run
        .halted
        .as_ref()
        .map_or_else(String::new, |why| format!("halted: {why}\n"));
    let unproven: String = run
        .unproven
        .words()
        .map(|words| format!("{words}\n"))
        .collect();
    Some(Box::new(Annotation {
        name: Arc::from(tagger.name),
        email: Arc::from(tagger.email),
        seconds: tagger.seconds,
        message: Arc::from(format!(
            "dag_id: {}\naction: {}\noutcome: {}\nplan: sha256:{}\nsite: {} sha256:{}\nnodes: {} succeeded, {} failed, {half_done}{} not started\n{halted}{}{unproven}{unverified}{broken}{ticket}",
            run.run,
            run.action,
            run.outcome,
            run.plan_digest,
            run.site,
            run.site_digest,
            counts.succeeded,
            counts.failed,
            counts.not_started,
            failures(failed),
        )),
        signature: None,
    }))
}

/// Signs the tag of a run that names one; gives why it stays without a signature.
pub(super) fn sign(run: &mut RunRecord, signing: Option<&dyn Signing>) -> Option<String> {
    let signing = signing.filter(|signing| signing.has_key())?;
    let annotation = run.annotation.as_mut()?;
    let bound = format!(
        "{}repository: {}\n",
        annotation.message,
        signing.repository()
    );
    annotation.message = Arc::from(bound);
    let text = tag(run)?.text();
    match signing.sign(&text) {
        Ok(signature) => {
            let annotation = run.annotation.as_mut()?;
            annotation.signature = Some(Arc::from(signature));
            None
        }
        Err(why) => Some(why),
    }
}

/// The line that names the nodes that failed.
fn failures<'n>(failed: impl IntoIterator<Item = &'n NodeName>) -> String {
    let mut failed = failed.into_iter();
    let names: Vec<&str> = failed
        .by_ref()
        .take(MOST_NAMES)
        .map(NodeName::as_str)
        .collect();
    match (names.is_empty(), failed.count()) {
        (true, _) => String::new(),
        (_, 0) => format!("failed: {}\n", names.join(", ")),
        (_, more) => format!("failed: {}, and {more} more\n", names.join(", ")),
    }
}

/// The tag of a run that names one, with all its bytes: the same in every clone.
pub(super) fn tag(run: &RunRecord) -> Option<NewTag> {
    let annotation = run.annotation.as_ref()?;
    Some(NewTag {
        name: run.tag.as_ref()?.to_string(),
        target: run.revision.parse().ok()?,
        tagger: Signature {
            name: annotation.name.to_string(),
            email: annotation.email.to_string(),
            seconds: annotation.seconds,
        },
        message: annotation.message.to_string(),
        signature: annotation.signature.as_deref().map(str::to_owned),
    })
}

/// Whether a plan changes nothing.
pub(super) fn is_no_op(plan: &Plan) -> bool {
    plan.changes
        .iter()
        .all(|change| change.kind == ChangeKind::None)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Counts, SiteAction, Unproven};

    pub(crate) fn run(outcome: Outcome, action: &str, partial: bool) -> RunRecord {
        RunRecord {
            run: "R2".into(),
            site: "one".into(),
            action: Arc::from(action),
            revision: Arc::from("c2"),
            site_digest: Arc::from("d"),
            plan_digest: Arc::from("p"),
            started: Arc::from("2026-01-01T00:00:00Z"),
            ended: None,
            outcome,
            partial,
            unverified: 0,
            counts: Counts::default(),
            unproven: Unproven::default(),
            halted: None,
            tag: None,
            annotation: None,
            tag_owed: false,
            actor: None,
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

    fn state(action: Option<(&str, &str)>, success: Option<(&str, &str)>) -> SiteState {
        let action_of = |(run, revision): (&str, &str)| SiteAction {
            run: run.into(),
            revision: Arc::from(revision),
            site_digest: Arc::from("d"),
            repositories: Default::default(),
            policy_asks: false,
        };
        SiteState {
            last_action: action.map(action_of),
            last_success: success.map(action_of),
            ..SiteState::default()
        }
    }

    #[test]
    fn which_run_makes_which_tag() {
        const SUCCESS: Option<&str> = Some("site-action-success/one/R2");
        const FAILURE: Option<&str> = Some("site-action-failure/one/R2");
        let nothing = state(None, None);
        let done = state(Some(("R1", "c2")), Some(("R1", "c2")));
        let older = state(Some(("R1", "c1")), Some(("R1", "c1")));
        let failed_since = state(Some(("R1", "c2")), Some(("R0", "c1")));
        use Outcome::{Abandoned, Failed, Interrupted, Running, Succeeded, SucceededWithFailures};
        // outcome, action, partial, before, past verification, no-op, tag
        #[rustfmt::skip]
        let table = [
            (Succeeded, "update", false, &nothing, true, false, SUCCESS),
            (SucceededWithFailures, "update", false, &nothing, true, false, SUCCESS),
            (Succeeded, "update", false, &nothing, true, true, SUCCESS),
            (Succeeded, "update", false, &older, true, true, SUCCESS),
            (Succeeded, "update", false, &done, true, true, None),
            (Succeeded, "update", false, &done, true, false, SUCCESS),
            (Succeeded, "update", false, &failed_since, true, true, SUCCESS),
            (Succeeded, "update", true, &nothing, true, false, None),
            (SucceededWithFailures, "update", true, &nothing, true, false, None),
            (Failed, "update", false, &nothing, true, false, FAILURE),
            (Failed, "update", true, &nothing, true, false, FAILURE),
            (Failed, "update", false, &nothing, false, false, None),
            (Abandoned, "update", false, &done, true, false, FAILURE),
            (Abandoned, "update", false, &done, false, false, None),
            (Interrupted, "update", false, &nothing, true, false, None),
            (Running, "update", false, &nothing, true, false, None),
            (Succeeded, "redeploy", false, &nothing, true, false, None),
            (Failed, "drain", false, &nothing, true, false, None),
        ];
        for (row, (outcome, action, partial, before, past_verification, is_no_op, wanted)) in
            table.into_iter().enumerate()
        {
            let facts = TagFacts {
                past_verification,
                is_no_op,
            };
            let found = name(&run(outcome, action, partial), before, facts);
            assert_eq!(found.as_deref(), wanted, "row {row}");
        }
    }
}
