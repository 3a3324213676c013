//! What happens to each node, and why: the table of changes, one node at a time.
//!
//! Every way through ends in an [`Item`]: the change as it is shown, and the work, which is what steps
//! are built of. What is blocked, excluded or only shown has no work.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::drift::{Drift, labels_to_set};
use super::leaving::Leave;
use super::options::Leaving;
use super::remediate::Remedy;
use super::select::Allowed;
use super::subject::{Membership, Seen, Subject};
use super::work::Work;
use super::{Block, Cause, Change, ChangeKind, Standing};
use crate::design::{
    Class, DIGEST_VERSION, Design, NodeDesign, NodeName, RedeployPolicy, Retirement, Section,
    WipePolicy,
};
use crate::diff::Reasons;
use crate::identity::Proof;
use crate::observed::{Capability, Fact};
use crate::record::{NodeRecord, Phase};
use crate::step::{Effect, StepKind};

/// A change and its work.
pub(super) struct Item<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) change: Change,
    pub(super) work: Work,
    /// It is torn down though its backend cannot erase its disks.
    pub(super) unwiped: bool,
}

/// What holds for all nodes.
pub(super) struct Rules<'a> {
    pub(super) design: &'a Design,
    pub(super) records: &'a BTreeMap<NodeName, NodeRecord>,
    pub(super) reasons: &'a dyn Reasons,
    pub(super) allow_redeploy: Allowed<'a>,
    pub(super) allow_destroy: Allowed<'a>,
    pub(super) adopt: Allowed<'a>,
    pub(super) allow_unverified: Allowed<'a>,
    pub(super) leaving: &'a Leaving,
    pub(super) gone: Allowed<'a>,
    /// Nodes that look as if they ran etcd, and do not.
    pub(super) no_etcd_here: Allowed<'a>,
    /// How failed machines are brought back.
    pub(super) remedy: Remedy<'a>,
}

/// How a node stands to retirement.
#[derive(Clone, Copy)]
pub(super) enum Retired<'a> {
    /// It is not retired.
    No,
    /// By an entry of the design.
    By(&'a Retirement),
    /// By a flag that no entry accounts for; it is left as it is.
    ByHand,
    /// The entry that retired it is gone.
    NoLonger,
}

impl Retired<'_> {
    /// Whether it is retired now.
    pub(super) fn is_retired(self) -> bool {
        matches!(self, Self::By(_) | Self::ByHand)
    }
}

impl<'a> Rules<'a> {
    /// What happens to a node; `None`: nothing.
    pub(super) fn judge(&self, subject: Subject<'a>, retired: Retired<'a>) -> Option<Item<'a>> {
        let Some(after) = subject.after else {
            return self.left(subject);
        };
        match retired {
            Retired::By(entry) => return retire(subject, entry),
            Retired::ByHand => return drift_of_retired(subject),
            Retired::No | Retired::NoLonger => {}
        }
        let mut item = if subject.is_recorded_deployed() {
            self.deployed(subject, after)
        } else if is_there(subject) {
            Some(self.adopt(subject))
        } else {
            Some(create(subject, after))
        };
        if matches!(retired, Retired::NoLonger) {
            let item = item.get_or_insert_with(|| Item::new(subject, ChangeKind::Unretire));
            item.because("no retirement names it any more");
            item.work.unset_retired = true;
        }
        item.map(|mut item| {
            self.guard(&mut item);
            item
        })
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
        self.guard(&mut item);
        Some(item)
    }

    /// A machine that is there although no record says what it is.
    fn adopt(&self, subject: Subject<'a>) -> Item<'a> {
        let mut item = Item::new(subject, ChangeKind::Adopt);
        item.because(match subject.record {
            None => "is deployed, and no record says by what".to_owned(),
            Some(record) => format!("is deployed, and run {} did not see it through", record.run),
        });
        if self.adopt.contains(subject.name) {
            item.work.adopt = true;
            // Only its record is brought up to date.
            item.change.counts_as = Standing::Deployed;
        } else if subject.record.is_some() && self.allow_redeploy.contains(subject.name) {
            item.redeploy();
        } else {
            item.block("it is never deployed over", Some("--adopt"));
        }
        item
    }

    /// A machine that was deployed: what differs in its design, and what in the world.
    fn deployed(&self, subject: Subject<'a>, after: &'a NodeDesign) -> Option<Item<'a>> {
        let sections = subject.differing().unwrap_or_default();
        let worst = sections.iter().map(|section| section.class()).max();
        let drift = Drift::of(subject, after);
        let unfinished = subject
            .record
            .is_some_and(|record| record.phase != Phase::Deployed);
        let kind = match worst {
            _ if drift.gone.is_some() => ChangeKind::Redeploy,
            Some(Class::Redeploy) => ChangeKind::Redeploy,
            Some(Class::Relabel) => ChangeKind::Relabel,
            _ if drift.is_some() => ChangeKind::Drift,
            Some(Class::Record) => ChangeKind::Record,
            None if unfinished => ChangeKind::Record,
            None => return None,
        };
        let mut item = Item::new(subject, kind);
        item.change.counts_as = Standing::Deployed;
        if unfinished {
            item.because("is deployed as recorded, though a later step on it did not succeed");
        }
        if !sections.is_empty() {
            let fields = self
                .reasons
                .fields(subject.name, subject.before, after, &sections);
            item.change.fields = fields;
        }
        drift.tell(&mut item);
        if kind == ChangeKind::Redeploy {
            item.redeploy();
            if self.design.policy.redeploy_on_change == RedeployPolicy::Never {
                item.block("the policy says that nothing is redeployed", None);
            } else if !self.allow_redeploy.contains(subject.name) {
                item.block(
                    "it would be torn down and built again",
                    Some("--allow-redeploy"),
                );
            }
            return Some(item);
        }
        item.work.power_on = drift.off;
        item.work.relabel = labels_to_set(subject, after, sections.contains(&Section::Labels));
        let only_recorded = |section: &Section| section.class() == Class::Record;
        item.work.record = unfinished || sections.iter().any(only_recorded);
        if kind == ChangeKind::Relabel && item.work.relabel.is_none() {
            // The cluster has them already; only the record does not.
            item.work.record = true;
            item.change.kind = ChangeKind::Record;
        }
        Some(item)
    }

    /// What stands above all flags: a machine that is held, protection, and what a backend can do.
    fn guard(&self, item: &mut Item<'a>) {
        let subject = item.subject;
        let touches = item.work.is_in_a_group() || item.work.destroy;
        if touches && let Some(why) = subject.held() {
            if item.change.kind == ChangeKind::Redeploy
                && subject.differing().is_none_or(|s| s.is_empty())
            {
                item.change.kind = ChangeKind::Drift;
            }
            item.because(why);
            item.show_only();
            return;
        }
        if item.work.destroy
            && let Some(why) = subject.protection(self.design)
        {
            item.block(why, None);
        }
        if item.work.destroy
            && let Some(why) = subject.not_to_be_torn_down()
        {
            item.block(&why, None);
        }
        if item.work.destroy {
            self.leave(item);
            self.preserve(item);
        }
        super::deploy_steps::take(item);
        self.able(item);
        self.clean(item);
    }

    /// Blocks what would change a machine that is another one than is meant, or of which nothing proves that
    /// it is the one, unless that is allowed.
    pub(super) fn prove(&self, item: &mut Item<'a>) {
        let Some(machine) = item.subject.machine else {
            return;
        };
        if !item.work.touches_machine(machine.kept_by_records) {
            return;
        }
        match &machine.proof {
            Proof::Proven => {}
            Proof::Refused(why) => item.block(
                &format!(
                    "{why} (after its board was replaced: `trueup accept {} --identity`)",
                    item.subject.name
                ),
                None,
            ),
            Proof::Unverified(why) => {
                let after = item.subject.after.or(item.subject.before);
                let by_policy = after.is_some_and(|node| {
                    let unverified = &self.design.policy.unverified;
                    unverified.iter().any(|selector| selector.matches(node))
                });
                if by_policy || self.allow_unverified.contains(item.subject.name) {
                    item.change.unverified = true;
                    item.because(format!("unverified: {why}"));
                } else {
                    item.block(
                        &format!("it is unverified: {why}"),
                        Some("--allow-unverified"),
                    );
                }
            }
        }
    }

    /// Keeps all disks but that of the operating system, where that was asked for.
    pub(super) fn preserve(&self, item: &mut Item<'a>) {
        if !item.work.destroy || !self.leaving.preserve_local_storage {
            return;
        }
        match item.subject.system_disk() {
            Some(disk) => item.change.disks = vec![disk],
            None => item.block(
                "which disk carries its operating system is not known, so that no other can be kept",
                None,
            ),
        }
    }

    /// Blocks what the backend cannot do.
    pub(super) fn able(&self, item: &mut Item<'a>) {
        let subject = item.subject;
        let able = subject.seen.node().map(|node| &node.capabilities);
        let Some(able) = able.filter(|able| !able.is_empty()) else {
            return;
        };
        let missing: Vec<_> = item
            .work
            .needs(self.leaving.preserve_local_storage)
            .filter(|(capability, _)| !able.contains(capability))
            .collect();
        for (capability, words) in missing {
            if capability == Capability::Wipe && self.design.policy.wipe == WipePolicy::Skip {
                item.unwiped = true;
            } else if item.change.kind == ChangeKind::Drift {
                item.because(format!("its backend cannot {words}"));
                item.show_only();
                return;
            } else {
                item.block(&format!("its backend cannot {words}"), None);
            }
        }
    }
}

impl<'a> Item<'a> {
    pub(super) fn new(subject: Subject<'a>, kind: ChangeKind) -> Self {
        Self {
            subject,
            change: Change {
                node: subject.name.clone(),
                kind,
                does: None,
                group: None,
                blocked: None,
                excluded: false,
                shown_only: false,
                unverified: false,
                destructive: false,
                disks: Vec::new(),
                cleaning: None,
                reasons: Vec::new(),
                fields: Vec::new(),
                counts_as: subject.standing(),
            },
            work: Work::default(),
            unwiped: false,
        }
    }

    /// How much harm its deploy can do: less where the inventory shows that there is nothing to lose.
    pub(super) fn deploy_effect(&self) -> Effect {
        let inventory = self.subject.seen.node().map(|node| &node.disks);
        let empty = matches!(inventory, Some(Fact::Known(_))) && !self.change.destructive;
        if empty {
            Effect::Reversible
        } else {
            Effect::Destructive
        }
    }

    /// Whether it is built again.
    pub(super) fn comes_back(&self) -> bool {
        let single = self.work.single.as_ref();
        self.work.deploy || single.is_some_and(|single| single.kind == StepKind::Remediate)
    }

    pub(super) fn because(&mut self, reason: impl Into<Arc<str>>) {
        self.change.reasons.reserve_exact(1);
        self.change.reasons.push(reason.into());
    }

    /// Blocks it; what no flag allows wins over what a flag would.
    pub(super) fn block(&mut self, reason: &str, flag: Option<&str>) {
        let flag = flag.map(|flag| format!("{flag} {}", self.change.node));
        self.block_as(reason, flag.as_deref());
    }

    /// Blocks it since something that it depends on could not be read.
    pub(super) fn block_unreadable(&mut self, reason: &str, flag: Option<&str>) {
        let flag = flag.map(|flag| format!("{flag} {}", self.change.node));
        self.block_for(Cause::Unreadable, reason, flag.as_deref());
    }

    /// Blocks it; `flag` is all that is to be given.
    pub(super) fn block_as(&mut self, reason: &str, flag: Option<&str>) {
        self.block_for(Cause::Rule, reason, flag);
    }

    /// Blocks it; `flag` is all that is to be given.
    pub(super) fn block_for(&mut self, cause: Cause, reason: &str, flag: Option<&str>) {
        if self
            .change
            .blocked
            .as_ref()
            .is_some_and(|block| block.flag.is_none())
        {
            return;
        }
        self.change.blocked = Some(Block {
            reason: Arc::from(reason),
            flag: flag.map(Arc::from),
            cause,
        });
    }

    /// Shows it without ever carrying it out.
    pub(super) fn show_only(&mut self) {
        self.change.shown_only = true;
        self.change.blocked = None;
        self.change.destructive = false;
        self.change.cleaning = None;
        self.rest();
    }

    /// Leaves it out.
    pub(super) fn exclude(&mut self) {
        self.change.excluded = true;
        self.change.blocked = None;
        self.rest();
    }

    /// Nothing is done; a record that is not brought up to date says what it said.
    fn rest(&mut self) {
        if self.work.adopt {
            self.change.counts_as = self.subject.standing();
        }
        self.work = Work::default();
    }

    pub(super) fn redeploy(&mut self) {
        self.change.kind = ChangeKind::Redeploy;
        self.change.destructive = true;
        self.change.disks = self.subject.all_disks();
        self.work = Work::REDEPLOY;
    }
}

/// Whether a machine, or its Kubernetes node, is there though no record says that it is deployed.
fn is_there(subject: Subject<'_>) -> bool {
    let of_cluster = || {
        let cluster = subject.seen.node().map(|node| &node.cluster);
        subject.record.is_none() && matches!(cluster, Some(Fact::Known(Some(_))))
    };
    subject.seen.is_deployed() || of_cluster()
}

/// The reason of every machine of a new site.
static NO_RECORD: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("no record"));

/// A machine that is not deployed, or of which nobody can tell.
fn create<'a>(subject: Subject<'a>, after: &'a NodeDesign) -> Item<'a> {
    let phase = subject.record.map(|record| record.phase);
    let unseen = match subject.seen {
        Seen::Unknown(reason) => Some(format!("it could not be observed: {reason}")),
        Seen::NotAsked if phase == Some(Phase::Unknown) => {
            Some("what was asked of it may still go on, and nobody looked".to_owned())
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
            (Some(Phase::Failed), None) => item.because(format!("failed in run {}", record.run)),
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

/// Whether the inventory shows a partition table on a disk that is written; where the designed names
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
    if able.is_some_and(|able| !able.is_empty() && !able.contains(&Capability::Retire)) {
        item.block("its backend cannot hold its retired flag", None);
    }
    Some(item)
}

/// What the world did to a retired node, which is shown and never mended.
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
