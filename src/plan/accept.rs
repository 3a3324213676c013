//! Taking the machine that is there now for the one of the document: its board was replaced, or it was
//! first changed without proof; or it differs from its design, and stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ChangeKind;
use super::accepted;
use super::action::{Action, Request};
use super::item::Item;
use super::rules::Rules;
use super::subject::{Observation, Subject};
use super::work::Single;
use crate::design::{Acceptance, DesignDifference, NodeDesign, NodeName};
use crate::diagnostic::nearest;
use crate::diff::ValueDifference;
use crate::identity::{Identity, Match, Shared};
use crate::record::NodeRecord;
use crate::step::{
    AcceptDifferencesParameters, AcceptIdentityParameters, AdoptParameters, Parameters, StepKind,
};

/// The change of a record when the identity of a node's machine is accepted.
pub(super) fn identity<'a>(
    subject: Subject<'a>,
    records: &BTreeMap<NodeName, NodeRecord>,
) -> Item<'a> {
    let mut item = Item::new(subject, ChangeKind::Operation);
    let observed = subject
        .machine
        .and_then(|machine| machine.identity.as_deref());
    let Some(observed) = observed.filter(|observed| !observed.is_empty()) else {
        let why = match subject.seen {
            Observation::NotAsked => "it was not observed",
            Observation::Unknown(why) => why,
            Observation::Known(..) => "it shows nothing that distinguishes it from other machines",
        };
        item.block(&format!("there is no identity to accept: {why}"), None);
        return item;
    };
    let designed = subject.after.map(NodeDesign::identity).unwrap_or_default();
    let accepted = observed.of_boot_interfaces(&designed);
    let recorded = subject.record.and_then(|record| record.identity.as_deref());
    if recorded == Some(&accepted) {
        item.because(format!("is known by it already: {accepted}"));
        item.show_only();
        return item;
    }
    item.because(match recorded {
        Some(recorded) => format!("recorded: {recorded}"),
        None => "recorded: nothing".to_owned(),
    });
    item.because(format!("observed now: {accepted}"));
    if let Match::Differs(how) = designed.compare(observed, &Shared::new()) {
        let reason =
            format!("its document names another machine: {how}; change the document first");
        item.block(&reason, None);
    }
    if let Some(other) = owner(subject.name, observed, records) {
        item.block(
            &format!("it is the machine that is recorded for `{other}`"),
            None,
        );
    }
    item.work.single = Some(Box::new(Single {
        kind: StepKind::AcceptIdentity,
        parameters: Some(Parameters::AcceptIdentity(AcceptIdentityParameters {
            identity: Some(Box::new(accepted)),
        })),
    }));
    item
}

/// The change of a record when a machine that a run had begun to change is taken as it is.
pub(super) fn as_is<'a>(request: &Request, subject: Subject<'a>) -> Item<'a> {
    let mut item = Item::new(subject, ChangeKind::Operation);
    let begun = subject.left_half_done();
    let Some(record) = begun.filter(|_| subject.after.is_some()) else {
        item.block(
            "no run has left it half done; a machine without a record is adopted (`trueup apply --adopt NODE`)",
            None,
        );
        return item;
    };
    if !subject.seen.is_deployed() {
        item.block("it was not observed to carry a system", None);
    }
    if let Some(error) = &record.last_error {
        item.because(format!("run {}: {error}", record.run));
    }
    item.because(format!(
        "is recorded as designed, and as assumed to be so: {}",
        request.reason.as_deref().unwrap_or_default()
    ));
    item.work.single = Some(Box::new(Single {
        kind: StepKind::Adopt,
        parameters: Some(Parameters::Adopt(AdoptParameters {
            reason: request.reason.clone(),
            verified: subject.compared(),
            ..AdoptParameters::default()
        })),
    }));
    item
}

/// The change of a record when differences of a node from its design are accepted, or are no more.
pub(super) fn differences<'a>(
    rules: &Rules<'a>,
    request: &Request,
    subject: Subject<'a>,
) -> Item<'a> {
    let mut item = Item::new(subject, ChangeKind::Operation);
    let (Some(after), Some(record)) = (subject.after, subject.record) else {
        item.block("it is not in the design, or has no record", None);
        return item;
    };
    if !subject.is_recorded_deployed() {
        item.block("it is not recorded as deployed", None);
        return item;
    }
    let sections = subject.differing().unwrap_or_default();
    let known = |difference: &DesignDifference| {
        let known = record.acceptance(difference)?;
        Some(known.acceptance.clone())
    };
    let selected = |path: &str| rules.fields.iter().any(|pattern| pattern.matches(path));
    let (mut kept, mut fields) = (Vec::new(), BTreeSet::new());
    let Some(installed) = subject.installed else {
        // Without any difference there is nothing to compare.
        return nothing_to_accept(item, request, &[]);
    };
    let all = accepted::differences(rules, installed, after, &sections);
    for each in &all {
        let difference = &each.difference;
        if !selected(&difference.path) {
            kept.extend(known(difference));
            continue;
        }
        let is_known = known(difference).is_some();
        if is_known == request.undo {
            fields.insert((difference.section, difference.path.clone()));
        }
        if request.undo {
            continue;
        }
        if each.is_secret {
            let path = &difference.path;
            let why = format!(
                "`{path}` is secret, or holds a secret, whose digest would be in the record"
            );
            item.block(&why, None);
        }
        kept.push(known(difference).unwrap_or_else(|| Acceptance {
            difference: difference.clone(),
            reason: request.reason.clone().unwrap_or_default(),
        }));
    }
    if fields.is_empty() {
        return nothing_to_accept(item, request, &all);
    }
    let mut changed = rules
        .reasons
        .fields(subject.name, Some(installed), after, &sections);
    changed.retain(|field| fields.contains(&(field.section, field.path.clone())));
    item.change.fields = changed;
    item.because(match request.undo {
        true => "needs a redeploy from now on, for the fields below".to_owned(),
        false => format!(
            "stays as it is: {}",
            request.reason.as_deref().unwrap_or_default()
        ),
    });
    let accepted = accepted::recorded(subject, kept, false);
    item.work.single = Some(Box::new(Single {
        kind: StepKind::AcceptDifferences,
        parameters: Some(AcceptDifferencesParameters { accepted }.into()),
    }));
    item
}

/// Blocks an acceptance of a field in which none of the nodes differs, though they differ in others: its name is a wrong one.
pub(super) fn refuse_unmatched<'a>(
    rules: &Rules<'_>,
    request: &Request,
    mut items: Vec<Item<'a>>,
) -> Vec<Item<'a>> {
    if request.action != Action::Accept || request.undo || rules.fields.is_empty() {
        return items;
    }
    let paths = items.iter().flat_map(|item| {
        let subject = item.subject;
        let (Some(after), Some(installed)) = (subject.after, subject.installed) else {
            return Vec::new();
        };
        let sections = subject.differing().unwrap_or_default();
        accepted::differences(rules, installed, after, &sections)
    });
    let paths: BTreeSet<Arc<str>> = paths.map(|each| each.difference.path).collect();
    let mut patterns = rules.fields.iter();
    let wrong = patterns.find(|pattern| !paths.iter().any(|path| pattern.matches(path)));
    if let (Some(wrong), false) = (wrong, paths.is_empty()) {
        let why = no_difference(wrong.as_str(), paths.iter().map(|path| &**path));
        for item in &mut items {
            item.block(&why, None);
        }
    }
    items
}

/// Why a field is not accepted in which nothing differs, with those that do.
#[must_use]
pub fn no_difference<'p>(field: &str, paths: impl Iterator<Item = &'p str> + Clone) -> String {
    let hint = match nearest(field, paths.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let paths: Vec<String> = paths.take(8).map(|path| format!("`{path}`")).collect();
            format!("they differ in {}", paths.join(", "))
        }
    };
    format!("none of the nodes differs in `{field}`; {hint}")
}

/// A node without a difference that is to be accepted, or is accepted.
fn nothing_to_accept<'a>(
    mut item: Item<'a>,
    request: &Request,
    all: &[ValueDifference],
) -> Item<'a> {
    let paths: Vec<String> = all
        .iter()
        .map(|each| format!("`{}`", each.difference.path))
        .collect();
    item.because(match (request.undo, paths.is_empty()) {
        (true, _) => "has no such difference that was accepted".to_owned(),
        (false, true) => "has no difference that needs a redeploy".to_owned(),
        (false, false) => format!(
            "has no such difference that is not accepted; it differs in {}",
            paths.join(", ")
        ),
    });
    item.show_only();
    item
}

/// The other node that is recorded to be this machine.
fn owner<'r>(
    name: &NodeName,
    observed: &Identity,
    records: &'r BTreeMap<NodeName, NodeRecord>,
) -> Option<&'r NodeName> {
    let others = records.iter().filter(|(other, _)| *other != name);
    let mut same = others.filter(|(_, record)| {
        record
            .identity
            .as_deref()
            .is_some_and(|recorded| recorded.compare(observed, &Shared::new()) == Match::Same)
    });
    same.next().map(|(other, _)| other)
}
