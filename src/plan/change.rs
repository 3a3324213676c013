//! The change of each node, and its reason: the table of changes, one node at a time.
//!
//! Every way through ends in an [`Item`].

use std::sync::{Arc, LazyLock};

use super::accepted::Accepting;
use super::drift::{Drift, labels_to_set};
use super::item::Item;
use super::joining::JoinWork;
use super::leave::Leave;
use super::rules::{Retired, Rules};
use super::service::{HardwareStanding, leave_until_on, raid, tell_hidden};
use super::subject::{Membership, NO_REDEPLOYS, Observation, Subject};
use super::{ChangeKind, Standing};
use crate::design::{
    Class, DIGEST_VERSION, NodeDesign, NodeName, OpenField, RedeployPolicy, Retirement, Section,
};
use crate::diff::FieldChange;
use crate::identity::Proof;
use crate::observed::{Capability, Fact, PartDrift};
use crate::record::{Known, NodeRecord, Phase};

impl<'a> Rules<'a> {
    /// The change of a node; `None`: none.
    pub(super) fn judge(&self, subject: Subject<'a>, retired: Retired<'a>) -> Option<Item<'a>> {
        let Some(after) = subject.after else {
            return match self.renames.now(subject.name) {
                Some(_) => None,
                None => self.left(subject),
            };
        };
        if let Some(old) = self.renames.before(subject.name) {
            return Some(self.renamed(subject, after, old));
        }
        match retired {
            Retired::By(entry) => {
                return retire(subject, entry).map(|item| self.keep_to_rung(item, &[]));
            }
            Retired::ByHand => return drift_of_retired(subject),
            Retired::No | Retired::NoLonger => {}
        }
        let mut item = if subject.is_recorded_deployed() {
            let answered = self.answered(subject);
            match self.deployed(subject, after, &answered) {
                None if !answered.is_empty() || !self.assumed_since(subject).is_empty() => {
                    Some(self.adopt(subject, &answered))
                }
                item => item,
            }
        } else if is_there(subject) {
            Some(self.adopt(subject, &[]))
        } else {
            Some(create(subject, after))
        };
        if matches!(retired, Retired::NoLonger) {
            let item = item.get_or_insert_with(|| Item::new(subject, ChangeKind::Unretire));
            item.because("no retirement names it any more");
            item.work.unset_retired = true;
        }
        item.map(|item| self.guard(item))
    }

    /// A node that left the design.
    fn left(&self, subject: Subject<'a>) -> Option<Item<'a>> {
        let record = subject.record?;
        let mut item = Item::new(subject, ChangeKind::Destroy);
        item.because("is no longer in the design");
        if record.phase == Phase::NotStarted {
            let Membership::In(node) = subject.membership else {
                return None;
            };
            item.because("its machine was torn down, and its node in the cluster is left");
            item.work.leave = Some(Box::new(Leave::of_a_torn_down(node)));
            return Some(item);
        }
        item.work.destroy = true;
        item.change.destructive = true;
        item.change.disks = subject.all_disks();
        if !self.allow_destroy.contains(subject.name) {
            item.block("it would be torn down", Some("--allow-destroy"));
        }
        if let Observation::Unknown(why) = subject.seen {
            let reason = format!("it could not be observed: {why}; {}", self.if_gone(subject));
            match subject.left_half_done() {
                // Nothing tells what is on it, so that no flag allows more.
                Some(_) => item.block(&reason, None),
                None => item.because(reason),
            }
        }
        Some(self.guard(item))
    }

    /// A machine that exists without a record; or one whose documents tell now what was open in these sections when it was
    /// adopted.
    fn adopt(&self, subject: Subject<'a>, answered: &[Section]) -> Item<'a> {
        if let Some(record) = subject.left_half_done() {
            return self.build_again(subject, record);
        }
        let mut item = Item::new(subject, ChangeKind::Adopt);
        let assumed = self.assumed_since(subject);
        let is_known = !answered.is_empty() || !assumed.is_empty();
        if !assumed.is_empty() {
            item.because(format!(
                "is assumed to be as its documents have it: {}",
                OpenField::in_words(&assumed)
            ));
        }
        item.because(match subject.record {
            _ if !answered.is_empty() => {
                "its documents tell what was open when it was adopted".to_owned()
            }
            Some(_) if is_known => "what was open when it was adopted is open no more".to_owned(),
            None => "is deployed, and no record says by what".to_owned(),
            Some(record) if record.phase == Phase::NotStarted => format!(
                "is deployed, and no record says by what; run {} worked on it last",
                record.run
            ),
            Some(record) => format!("is deployed, and run {} did not complete it", record.run),
        });
        if let Some(after) = subject.after.filter(|_| !answered.is_empty()) {
            item.change.fields = self.fields(subject, after, answered);
        }
        let drift = subject.seen.node().map_or(&[][..], |node| &node.drift);
        for part in drift {
            item.because(part.to_string());
        }
        // Firmware and settings are brought true once it is adopted, or are only reported.
        let is_on_it = |part: &PartDrift| Section::ON_MACHINE.contains(&part.section);
        let labels = other_labels(subject);
        if let Some(labels) = &labels {
            item.because(format!("labels of its node: {labels}"));
        }
        if labels.is_some() || drift.iter().any(is_on_it) {
            item.block(
                "it differs from its design: its documents have to hold what is there before it is adopted",
                None,
            );
        } else if is_known && !subject.seen.is_deployed() {
            item.block("it was not observed to carry a system", None);
        } else if let Some(why) = not_in_service(subject) {
            item.block(
                &format!("{why}, and a machine that is adopted counts as deployed"),
                None,
            );
        } else if self.adopt.contains(subject.name) {
            item.work.adopt = true;
            let open = self.open_at_adoption(subject);
            if !open.is_empty() {
                let open = OpenField::in_words(&open);
                item.because(format!(
                    "it is not built again before its documents have or assume: {open}"
                ));
            }
            item.work.open = Some(open.into());
            // Only its record is brought up to date.
            item.promise(Standing::Deployed);
        } else if is_known {
            item.block(
                "its record would take the word of its documents",
                Some("--adopt"),
            );
        } else if subject.record.is_some() && self.allow_redeploy.contains(subject.name) {
            item.redeploy();
        } else {
            item.block(
                "an unrecorded deployment is not overwritten",
                Some("--adopt"),
            );
        }
        item
    }

    /// The fields of a machine that no document fills.
    pub(super) fn open_fields(&self, subject: Subject<'_>) -> Vec<OpenField> {
        let before = subject.record.map_or(&[][..], NodeRecord::open);
        self.after.open_fields(subject.name, before)
    }

    /// The fields that are open when a machine is adopted.
    fn open_at_adoption(&self, subject: Subject<'_>) -> Vec<OpenField> {
        match subject.record.map(|record| &record.known) {
            Some(Some(Known::Adopted(_))) => self.open_fields(subject),
            _ => self.after.open_fields(subject.name, &OpenField::NEEDED),
        }
    }

    /// The fields that were open when a machine was adopted, and that are assumed now.
    fn assumed_since(&self, subject: Subject<'_>) -> Vec<OpenField> {
        let (Some(record), Some(after)) = (subject.record, subject.after) else {
            return Vec::new();
        };
        let open = self.open_fields(subject);
        let is_assumed = |field: &&OpenField| !field.is_filled(after) && !open.contains(field);
        record.open().iter().filter(is_assumed).copied().collect()
    }

    /// The sections in which documents tell now what was open when a machine was adopted. What is told of them besides
    /// counts with that as long as it takes the place of nothing: it is on the machine already. Any other difference is a change.
    fn answered(&self, subject: Subject<'a>) -> Vec<Section> {
        let open = subject.record.map_or(&[][..], NodeRecord::open);
        let Some(after) = subject.after.filter(|_| !open.is_empty()) else {
            return Vec::new();
        };
        let is_told = |section: &Section| {
            let mut fields = open.iter().filter(|field| field.section() == *section);
            fields.any(|field| field.is_filled(after))
        };
        let is_addition = |section: &Section| {
            let fields = self
                .reasons
                .fields(subject.name, subject.installed, after, &[*section]);
            fields.iter().all(|field| field.before.is_none())
        };
        let mut sections = subject.differing().unwrap_or_default();
        sections.retain(|section| section.class() == Class::Redeploy);
        sections.retain(|section| is_told(section) && is_addition(section));
        sections
    }

    /// A machine that a run had begun to change, and that carries a system: whether its old or its new one is not known.
    fn build_again(&self, subject: Subject<'a>, record: &NodeRecord) -> Item<'a> {
        let name = subject.name;
        let mut item = Item::new(subject, ChangeKind::Redeploy);
        let error = record.last_error.as_deref().unwrap_or("it was not ended");
        item.because(format!(
            "is deployed, and run {} had begun to change it: {error}",
            record.run
        ));
        item.because(format!(
            "which system it has is not known; a redeploy ends that, or, where its operator has looked, \
             `trueup accept {name} --as-is --reason WHY`"
        ));
        item.redeploy();
        let mut item = self.keep_to_rung(item, &[]);
        if item.change.blocked.is_none() {
            // Its wave may be a later one: until then the gates before may hold.
            item.promise(Standing::Prepared);
        }
        item
    }

    /// A machine that was deployed: what differs in its design, and what in the world; without the sections that a later plan
    /// adopts, in which its documents tell what is on it.
    fn deployed(
        &self,
        subject: Subject<'a>,
        after: &'a NodeDesign,
        answered: &[Section],
    ) -> Option<Item<'a>> {
        let mut sections = subject.differing().unwrap_or_default();
        sections.retain(|section| !answered.contains(section));
        let accepting = Accepting::of(self, subject, after, &sections);
        // Volumes are made anew for nothing but another design that the machine was observed not to meet.
        let raid = raid::standing(subject, after, &sections);
        let open = sections.iter().copied();
        let open: Vec<Section> = open
            .filter(|section| !accepting.covers(*section))
            .filter(|section| *section != Section::Raid || raid.differs())
            .collect();
        let is_other = |section: &&Section| section.class() != Class::Service;
        let worst = open.iter().filter(is_other);
        let worst = worst.map(|section| section.class()).max();
        let drift = Drift::of(subject, after);
        let is_edited = sections.contains(&Section::Firmware);
        let firmware = HardwareStanding::of(subject, after, Section::Firmware, is_edited);
        let outdated = subject.is_outdated();
        let unfinished = subject
            .record
            .is_some_and(|record| record.phase != Phase::Deployed);
        let (join, join_reason) = self.joins.judge(&subject, after, unfinished);
        let record = (unfinished, outdated, accepting.is_some());
        let kind = kind_of(worst, (&drift, join), [&firmware, &raid], record)?;
        let mut item = Item::new(subject, kind);
        item.change.counts_as = Standing::Deployed;
        if unfinished {
            item.because(UNFINISHED);
        }
        if let Some(reason) = join_reason {
            item.because(reason);
        }
        if kind == ChangeKind::Record && sections.is_empty() && outdated {
            item.because(
                "a file was edited that holds a secret of it, with the same values as before",
            );
        }
        if let ChangeKind::Record | ChangeKind::Drift = kind {
            add_standings(&mut item, [&firmware, &raid], after);
        }
        if kind == ChangeKind::Redeploy {
            sections.retain(|section| *section != Section::Raid || raid.differs());
        }
        if !sections.is_empty() {
            item.change.fields = self.fields(subject, after, &sections);
            accepting.mark(&mut item.change.fields);
        }
        drift.tell(&mut item);
        add_error(&mut item);
        if kind == ChangeKind::Redeploy {
            item.redeploy();
            raid::show(&mut item, &raid);
            if self.guards.policy.redeploy_on_change == RedeployPolicy::Never {
                item.block(NO_REDEPLOYS, None);
            }
            return Some(self.keep_to_rung(item, &open));
        }
        self.bring_up(&mut item, after, &drift, join);
        item.work.uncordon = drift.cordoned && kind != ChangeKind::Service;
        item.work.relabel = labels_to_set(subject, after, sections.contains(&Section::Labels));
        let only_recorded = |section: &Section| section.class() == Class::Record;
        item.work.verified = verified(&firmware, &raid);
        let is_renewed = sections.iter().any(only_recorded) || item.work.verified.is_some();
        item.work.record = unfinished || outdated || is_renewed;
        if kind == ChangeKind::AwaitReady {
            // Once it has joined, its record is one of a finished machine by that alone.
            item.work.record = outdated || is_renewed;
            item.work.rejoins = Some(self.joins.wait(after));
            if unfinished {
                item.change.counts_as = Standing::Prepared;
            }
        }
        if sections.contains(&Section::Labels) && item.work.relabel.is_none() {
            // The cluster has them already; only the record does not.
            item.work.record = true;
            if kind == ChangeKind::Relabel {
                item.change.kind = ChangeKind::Record;
            }
        }
        let is_renewed = item.work.record || item.work.relabel.is_some();
        let is_kept = match accepting.is_some() {
            true => accepting.is_new() || is_renewed,
            // What is answered is not in the record before it is adopted.
            false => !answered.is_empty() && is_renewed,
        };
        if is_kept {
            item.work.record = false;
            item.work.accept = accepting.recorded(subject);
        } else if item.change.kind == ChangeKind::Accept
            || item.change.kind == ChangeKind::Drift
                && !drift.is_repaired()
                && !is_renewed
                && item.change.blocked.is_none()
        {
            item.show_only();
        }
        leave_until_on(&mut item, drift.off, &firmware);
        if let (ChangeKind::Service, HardwareStanding::Differs(settings)) = (kind, firmware) {
            item = self.service(item, after, settings);
            item.work.uncordon = drift.cordoned && item.work.serves_meanwhile();
            return Some(self.keep_to_rung(item, &with_firmware(open)));
        }
        Some(self.keep_to_rung(item, &open))
    }

    /// Switches a machine on, and awaits it in its clusters: a run that switches it on is no success without that.
    fn bring_up(&self, item: &mut Item<'a>, after: &NodeDesign, drift: &Drift, join: JoinWork) {
        item.work.power_on = drift.off;
        item.work.lock = drift.unlocked;
        if drift.off && join != JoinWork::None {
            item.work.rejoins = Some(self.joins.wait(after));
        }
    }

    /// The fields that differ: from what is on the machine, and for the rest from what was recorded last.
    fn fields(
        &self,
        subject: Subject<'a>,
        after: &NodeDesign,
        sections: &[Section],
    ) -> Vec<FieldChange> {
        let (installed, rest): (Vec<Section>, Vec<Section>) = sections
            .iter()
            .partition(|section| section.class() == Class::Redeploy);
        let of = |before, sections: &[Section]| {
            self.reasons.fields(subject.name, before, after, sections)
        };
        let mut fields = of(subject.installed, &installed);
        fields.append(&mut of(subject.before, &rest));
        fields
    }
}

/// The change of a deployed machine, by the worst class of what differs in its design, by its drift, its firmware and its volumes;
/// `record`: whether a later step did not succeed, the record is of other files, and differences are accepted. `None`: none.
fn kind_of(
    worst: Option<Class>,
    (drift, join): (&Drift, JoinWork),
    [firmware, raid]: [&HardwareStanding; 2],
    (unfinished, outdated, accepts): (bool, bool, bool),
) -> Option<ChangeKind> {
    Some(match worst {
        _ if drift.gone.is_some() => ChangeKind::Redeploy,
        Some(Class::Redeploy) => ChangeKind::Redeploy,
        _ if join == JoinWork::Await => ChangeKind::AwaitReady,
        // What is off is switched on first.
        _ if firmware.differs() && !drift.off => ChangeKind::Service,
        Some(Class::Relabel) => ChangeKind::Relabel,
        _ if drift.is_some() || join == JoinWork::Away => ChangeKind::Drift,
        Some(Class::Record | Class::Service) => ChangeKind::Record,
        None if firmware.is_to_be_recorded() || raid.is_to_be_recorded() => ChangeKind::Record,
        None if unfinished => ChangeKind::Record,
        None if outdated && !accepts => ChangeKind::Record,
        None if accepts => ChangeKind::Accept,
        None if firmware.is_hidden() || raid.is_hidden() => ChangeKind::Drift,
        None => return None,
    })
}

/// The sections of Hardware documents that the record of a machine is to have as designed.
fn verified(firmware: &HardwareStanding, raid: &HardwareStanding) -> Option<Box<[Section]>> {
    let standings = [(Section::Firmware, firmware), (Section::Raid, raid)];
    let standings = standings.into_iter();
    let verified = standings.filter(|(_, standing)| standing.is_to_be_recorded());
    let verified: Box<[Section]> = verified.map(|(section, _)| section).collect();
    (!verified.is_empty()).then_some(verified)
}

/// Adds how firmware, settings and volumes stand to what is enforced.
fn add_standings(item: &mut Item<'_>, standings: [&HardwareStanding; 2], after: &NodeDesign) {
    let [firmware, raid] = standings;
    let reasons = [firmware.reason(), raid::reason(raid)];
    for why in reasons.into_iter().flatten() {
        item.because(why);
    }
    if firmware.is_hidden() {
        tell_hidden(item, after);
    }
}

/// Why a machine that is deployed as recorded is not done.
const UNFINISHED: &str = "is deployed as recorded, though a later step on it did not succeed";

/// Adds in which run that was, and why, unless another reason tells it.
fn add_error(item: &mut Item<'_>) {
    let record = item.subject.record;
    let Some((run, error)) =
        record.and_then(|record| Some((&record.run, record.last_error.as_ref()?)))
    else {
        return;
    };
    let reasons = &mut item.change.reasons;
    if reasons.iter().any(|reason| reason.contains(&**error)) {
        return;
    }
    if let Some(reason) = reasons.iter_mut().find(|reason| &***reason == UNFINISHED) {
        *reason = Arc::from(format!("{UNFINISHED} in run {run}: {error}"));
    }
}

/// The labels of a machine's node that are otherwise than designed; `None`: there are none, or its node is not known.
fn other_labels(subject: Subject<'_>) -> Option<String> {
    let (Some(after), Membership::In(node)) = (subject.after, subject.membership) else {
        return None;
    };
    let differing = after.labels.iter().filter_map(|(key, value)| {
        let observed = node.labels.get(key);
        (observed != Some(value)).then(|| match observed {
            Some(observed) => format!("{key}: {observed}, designed {value}"),
            None => format!("{key}: none, designed {value}"),
        })
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty()).then(|| differing.join("; "))
}

/// The sections that a service brings true, also if only the machine differs from them.
fn with_firmware(mut sections: Vec<Section>) -> Vec<Section> {
    if !sections.contains(&Section::Firmware) {
        sections.push(Section::Firmware);
    }
    sections
}

/// Why a machine that has a system is not in service.
fn not_in_service(subject: Subject<'_>) -> Option<&'static str> {
    if subject.seen.is_off() {
        return Some("it is off");
    }
    match subject.membership {
        Membership::In(node) if !node.ready => Some("its node is not Ready"),
        _ => None,
    }
}

/// Whether a machine, or its Kubernetes node, exists without a record of its deploy.
fn is_there(subject: Subject<'_>) -> bool {
    let of_cluster = || {
        let cluster = subject.seen.node().map(|node| &node.cluster);
        subject.record.is_none() && matches!(cluster, Some(Fact::Known(Some(_))))
    };
    subject.seen.is_deployed() || of_cluster()
}

/// The reason of every machine of a new site.
static NO_RECORD: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("no record"));

/// A machine that is not deployed, or in an unknown state.
fn create<'a>(subject: Subject<'a>, after: &'a NodeDesign) -> Item<'a> {
    let phase = subject.record.map(|record| record.phase);
    let unseen = match subject.seen {
        Observation::Unknown(reason) => Some(format!("it could not be observed: {reason}")),
        Observation::NotAsked if phase == Some(Phase::Unknown) => {
            Some("a request to it may still be running, and it was not observed".to_owned())
        }
        _ => None,
    };
    let kind = if unseen.is_some() {
        ChangeKind::Unknown
    } else {
        ChangeKind::Create
    };
    let mut item = Item::new(subject, kind);
    match subject.record {
        None => item.because(NO_RECORD.clone()),
        Some(record) => match (phase, &record.last_error) {
            (Some(Phase::Failed), Some(error)) => {
                item.because(format!("failed in run {}: {error}", record.run));
            }
            // A run that did something else to it has written its record since.
            (Some(Phase::Failed), None) => item.because("its last deploy or teardown failed"),
            (Some(Phase::Unknown), _) => {
                item.because(format!("how run {} left it is not known", record.run));
            }
            (Some(Phase::Prepared), _) => item.because(format!("prepared by run {}", record.run)),
            _ => item.because("not deployed"),
        },
    }
    item.work.prepare = true;
    item.change.counts_as = Standing::NotStarted;
    if let Some(reason) = unseen {
        let reason: Arc<str> = reason.into();
        item.because(reason.clone());
        item.work.refused = Some(reason);
        return item;
    }
    item.work.deploy = true;
    item.change.disks = after.disks.to_vec();
    item.change.destructive = is_partitioned(subject, after);
    let as_prepared = || {
        subject
            .differing()
            .is_some_and(|sections| sections.is_empty())
    };
    if phase == Some(Phase::Prepared) && subject.seen.not_deployed().is_some() && as_prepared() {
        item.work.prepare = false;
        item.change.counts_as = Standing::Prepared;
    }
    item
}

/// Whether the inventory shows a partition table on a disk that is written; if the designed names
/// are none of the inventory's, on any disk.
fn is_partitioned(subject: Subject<'_>, after: &NodeDesign) -> bool {
    let Some(Fact::Known(disks)) = subject.seen.node().map(|node| &node.disks) else {
        return false;
    };
    let written = |name: &Arc<str>| after.disks.contains(name);
    let named = disks.iter().any(|disk| written(&disk.name));
    disks
        .iter()
        .any(|disk| disk.partitioned && (!named || written(&disk.name)))
}

/// A node that an entry of the design retires.
fn retire<'a>(subject: Subject<'a>, entry: &Retirement) -> Option<Item<'a>> {
    let recorded = subject.record.and_then(|record| record.retired.as_ref());
    if (subject.is_flagged() || subject.was_forgotten()) && recorded == Some(&entry.reason) {
        return drift_of_retired(subject);
    }
    let mut item = Item::new(subject, ChangeKind::Retire);
    item.because(format!("retired: {}", entry.reason));
    item.work.set_retired = Some(entry.reason.clone());
    let able = subject.seen.node().map(|node| &node.capabilities);
    if able.is_some_and(|able| !able.is_empty() && !able.contains(Capability::Retire)) {
        item.block("its backend does not support the retired flag", None);
    }
    Some(item)
}

/// The drift of a retired node, which is shown and never repaired.
fn drift_of_retired(subject: Subject<'_>) -> Option<Item<'_>> {
    let after = subject.after?;
    if !subject.is_recorded_deployed() {
        return None;
    }
    let drift = Drift::of(subject, after);
    drift.is_some().then(|| {
        let mut item = Item::new(subject, ChangeKind::Drift);
        drift.tell(&mut item);
        item.because("is retired");
        item.show_only();
        item
    })
}

/// Whether a record's digests could not be compared, since they are of other rules and the design of
/// their revision is not at hand.
pub(super) fn cannot_be_compared(subject: &Subject<'_>) -> bool {
    subject.after.is_some()
        && subject.is_recorded_deployed()
        && subject.before.is_none()
        && subject
            .record
            .is_some_and(|record| record.digest_version != DIGEST_VERSION)
}

impl<'a> Rules<'a> {
    /// The change of a node that had another name before: its record gets the new one, if its identity proves that it is
    /// the same machine. Nothing else is done to it in the same plan.
    pub(super) fn renamed(
        &self,
        subject: Subject<'a>,
        after: &NodeDesign,
        old: &'a NodeName,
    ) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Rename);
        item.because(format!(
            "was `{old}`, which has left the design: by the documents both are one machine"
        ));
        if let Some(record) = self.records.get(old) {
            item.change.counts_as = Standing::of(Some(record));
            let differing = Section::ALL
                .into_iter()
                .filter(|section| record.digests.get(section) != after.digests.get(section));
            let differing: Vec<&str> = differing.map(Section::as_str).collect();
            if !record.digests.is_empty() && !differing.is_empty() {
                item.because(format!(
                    "differs in {}, which is planned once it has its name",
                    differing.join(", ")
                ));
            }
        }
        match why_not(&subject) {
            None => {
                item.because(format!(
                    "its record moves to this name; its system was installed as `{old}`"
                ));
                item.work.renamed_from = Some(old.clone());
            }
            Some(why) => {
                let reason = format!(
                    "nothing proves that it is the machine of `{old}`: {why}; where it is another one, \
                     `trueup apply forget {old}` drops the old record"
                );
                item.block(&reason, None);
            }
        }
        item
    }
}

/// Why a machine is not proven to be the one that its old name's record knows.
fn why_not(subject: &Subject<'_>) -> Option<Arc<str>> {
    let Some(machine) = subject.machine else {
        return Some(Arc::from("it was not observed"));
    };
    match (&machine.proof, subject.seen) {
        (Proof::Refused(why) | Proof::Unverified(why), _) => Some(why.clone()),
        (Proof::Proven, Observation::Unknown(why)) => Some(Arc::from(why)),
        (Proof::Proven, _) if machine.identity.is_none() => {
            Some(Arc::from("it shows nothing that it could be known by"))
        }
        (Proof::Proven, _) => None,
    }
}
