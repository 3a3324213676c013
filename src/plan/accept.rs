//! Taking the machine that is there now for the one of the document: its board was replaced, or it was
//! first changed without proof.

use std::collections::BTreeMap;

use super::ChangeKind;
use super::item::Item;
use super::subject::{Observation, Subject};
use super::work::Single;
use crate::design::{NodeDesign, NodeName};
use crate::identity::{Identity, Match, Shared};
use crate::record::NodeRecord;
use crate::step::{Parameters, StepKind};

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
        parameters: Parameters {
            identity: Some(Box::new(accepted)),
            ..Parameters::default()
        },
    }));
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
