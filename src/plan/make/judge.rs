//! Judges the nodes of a site: each by itself, then all of them together.

use rustc_hash::FxHashMap;

use super::subjects::Subjects;
use super::warnings::Notes;
use super::{Carried, Selection};
use crate::design::{NodeDesign, NodeName};
use crate::guard::Limits;
use crate::plan::action::Action;
use crate::plan::etcd::Clusters;
use crate::plan::input::Input;
use crate::plan::item::Item;
use crate::plan::rules::{Retired, Rules};
use crate::plan::subject::Subject;
use crate::plan::{Options, PlannedGroup, cluster, unavailable};

/// What nodes are judged by.
pub(super) struct Judge<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) options: &'a Options,
    /// All groups, in run order.
    pub(super) groups: &'a [PlannedGroup],
    pub(super) first_groups: FxHashMap<&'a NodeName, usize>,
    pub(super) retired: &'a FxHashMap<&'a NodeName, Retired<'a>>,
    pub(super) selection: &'a Selection<'a>,
    pub(super) rules: Rules<'a>,
}

/// The nodes that have to be changed, and what was noticed about all of them.
#[derive(Default)]
pub(super) struct Judged<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// Deployed machines that are out of service, and why.
    pub(super) down: Vec<(&'a NodeDesign, &'static str)>,
    pub(super) notes: Notes<'a>,
}

impl<'a> Judge<'a> {
    /// Returns the position of the first group, in run order, that holds a node.
    pub(super) fn group_of(&self, name: &NodeName) -> Option<usize> {
        self.first_groups.get(name).copied()
    }

    /// Judges each node by itself.
    pub(super) fn each(&self, names: impl Iterator<Item = &'a NodeName>) -> Judged<'a> {
        let mut judged = Judged::default();
        let mut subjects = Subjects::of(self.input);
        let mut settled = self.input.settled.iter().peekable();
        for name in names {
            if settled.next_if(|next| *next == name).is_some() {
                if self.group_of(name).is_none() {
                    judged.notes.ungrouped.push(name);
                }
                continue;
            }
            let subject = subjects.get(name);
            if let (Some(after), Some(why)) = (subject.after, subject.down())
                && subject.is_recorded_deployed()
            {
                judged.down.push((after, why));
            }
            let item = match self.input.request.action.is_targeted() {
                true => self.asked(subject),
                false => self.designed(subject, &mut judged.notes),
            };
            let Some(item) = item else { continue };
            if item.unwiped && item.work.destroy {
                judged.notes.unwiped.push(name);
            }
            judged.items.push(item);
        }
        judged
    }

    fn retired(&self, name: &NodeName) -> Retired<'a> {
        self.retired.get(name).copied().unwrap_or(Retired::No)
    }

    /// Whether a node is designed, not retired, and selected by no group.
    fn is_ungrouped(&self, subject: &Subject<'a>) -> bool {
        subject.after.is_some()
            && self.group_of(subject.name).is_none()
            && !self.retired(subject.name).is_retired()
    }

    fn group_name(&self, name: &NodeName) -> Option<crate::design::GroupName> {
        self.group_of(name)
            .map(|position| self.groups[position].name.clone())
    }

    /// Judges a node by what the action asks for; `None` where it does not ask for this node.
    fn asked(&self, subject: Subject<'a>) -> Option<Item<'a>> {
        let name = subject.name;
        if !self.selection.asked.contains(name) {
            return None;
        }
        let is_ungrouped = self.is_ungrouped(&subject);
        let request = &self.input.request;
        let mut item = self.rules.asked(request, subject, self.retired(name));
        if request.action == Action::Redeploy {
            item.change.group = self.group_name(name);
            if is_ungrouped {
                item.because("no deployment group selects it: it is built again by itself");
            }
        }
        Some(item)
    }

    /// Judges a node by its design; `None` where nothing is to be done.
    fn designed(&self, subject: Subject<'a>, notes: &mut Notes<'a>) -> Option<Item<'a>> {
        let name = subject.name;
        notes.about(self.input, &subject);
        let is_ungrouped = self.is_ungrouped(&subject);
        if is_ungrouped {
            notes.ungrouped.push(name);
        }
        let mut item = self.rules.judge(subject, self.retired(name))?;
        item.change.group = self.group_name(name);
        if is_ungrouped && (item.work.prepare || item.work.deploy) {
            item.because("no deployment group selects it");
            item.show_only();
        }
        let Selection {
            targets, excludes, ..
        } = self.selection;
        let is_targeted = self.options.targets.is_empty() || targets.contains(name);
        if !is_targeted || excludes.contains(name) {
            item.exclude();
        }
        Some(item)
    }

    /// Holds the changes against what must hold for all of them at once: proven identities, API servers,
    /// quorums, rights, and the limits on machines out of service, which are returned.
    pub(super) fn together(
        &self,
        judged: &mut Judged<'a>,
        clusters: &mut Clusters<'a>,
        names: impl Iterator<Item = &'a NodeName>,
    ) -> Limits<'a> {
        let Judged { items, down, .. } = judged;
        let (design, leaving) = (self.input.after, &self.options.leaving);
        for item in items.iter_mut() {
            self.rules.prove(item);
        }
        let observed = self.input.observations;
        let facts = observed.and_then(|observed| observed.cluster.as_ref());
        cluster::keep_api_servers(facts, items, clusters, leaving);
        clusters.settle(items, leaving, &self.rules.no_etcd_here);
        cluster::await_joining(design, facts, items);
        cluster::need_rights(facts, items);
        let is_remediation = self.input.request.action == Action::Remediate;
        let mut limits = match is_remediation {
            true => {
                let mut subjects = Subjects::of(self.input);
                let all = names.map(|name| subjects.get(name));
                self.rules.remedy.breaker(all, items);
                Limits::new(design, Some(self.rules.remedy.max_at_once))
            }
            false => Limits::new(design, self.options.max_unavailable),
        };
        limits.see_etcd(clusters.places());
        if !is_remediation {
            unavailable::judge(items, &mut limits, down);
        }
        limits
    }

    /// Whether there is anything to do: a change, a check, or a revision that is reached without one.
    pub(super) fn has_steps(&self, carried: &Carried<'_>, is_partial: bool) -> bool {
        let Input {
            request,
            base,
            target,
            ..
        } = self.input;
        let base_digest = base.as_ref().map(|base| &base.site_digest);
        let is_reached =
            request.action.is_targeted() || is_partial || base_digest == Some(&target.site_digest);
        let checks_site = request.action == Action::CheckEtcd && self.selection.asked.is_empty();
        !carried.is_empty() || !is_reached || checks_site
    }
}
