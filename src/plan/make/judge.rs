//! Judges the nodes of a site, each by itself.

use super::Terms;
use super::subjects::Subjects;
use super::warnings::Notes;
use crate::design::{GroupName, NodeDesign, NodeName};
use crate::plan::action::Action;
use crate::plan::input::Input;
use crate::plan::item::Item;
use crate::plan::rules::Retired;
use crate::plan::service::leave_to_next_plan;
use crate::plan::subject::Subject;
use crate::reservation::Reservation;
use crate::threads;

/// The nodes that have to be changed, and what was noticed about all of them.
#[derive(Default)]
pub(super) struct Judged<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// Machines that are out of service, and why.
    pub(super) down: Vec<(&'a NodeDesign, &'static str)>,
    pub(super) notes: Notes<'a>,
}

impl<'a> Judged<'a> {
    /// Adds the nodes behind these.
    fn add(&mut self, next: Self) {
        self.items.extend(next.items);
        self.down.extend(next.down);
        self.notes.add(next.notes);
    }
}

/// Judges each node by itself.
pub(super) fn each<'a>(terms: &Terms<'a>, names: impl Iterator<Item = &'a NodeName>) -> Judged<'a> {
    let names: Vec<&NodeName> = names.collect();
    let mut judged = Judged::default();
    for part in threads::halves(&names, |names| part(terms, names)) {
        judged.add(part);
    }
    judged
}

/// Judges some nodes.
fn part<'a>(terms: &Terms<'a>, names: &[&'a NodeName]) -> Judged<'a> {
    let mut judged = Judged::default();
    let mut subjects = Subjects::of(terms.input);
    for &name in names {
        let subject = subjects.get(name);
        if let (Some(node), Some(why)) = (subject.missed_as(), subject.down())
            && !terms.is_retired(name)
            && !(terms.gives_up() && subject.is_torn_down())
            && !terms.is_of_resumed_run(&subject)
        {
            judged.down.push((node, why));
        }
        let item = match terms.is_targeted() {
            true => terms.asked(subject),
            false => terms.designed(subject, &mut judged.notes),
        };
        let Some(item) = item else { continue };
        if item.unwiped && item.work.destroy {
            judged.notes.unwiped.push(name);
        }
        judged.items.push(item);
    }
    judged
}

impl<'a> Terms<'a> {
    /// Whether a node is retired, and so not missed if it is out of service.
    pub(super) fn is_retired(&self, name: &NodeName) -> bool {
        self.retired(name).is_retired()
    }

    /// Whether a machine is out of service by the run that the plan is compared with, which holds the place itself.
    fn is_of_resumed_run(&self, subject: &Subject<'_>) -> bool {
        self.input.resumes.contains(subject.name)
    }

    /// Whether machines are torn down on purpose: others that were are not missed then.
    fn gives_up(&self) -> bool {
        matches!(
            self.input.request.action,
            Action::Teardown | Action::Destroy
        )
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

    fn group_name(&self, name: &NodeName) -> Option<GroupName> {
        self.group_of(name)
            .map(|position| self.groups[position].name.clone())
    }

    /// The reservation of a machine, under the name that its record or the design has.
    fn reservation(&self, name: &NodeName) -> Option<&'a Reservation> {
        let Input {
            reservations,
            renames,
            ..
        } = self.input;
        let other = renames.before(name).or(renames.now(name));
        let mut names = [Some(name), other].into_iter().flatten();
        names.find_map(|name| reservations.of(name.as_str()))
    }

    /// Judges a node by what the action asks for; `None` if it does not ask for this node.
    fn asked(&self, subject: Subject<'a>) -> Option<Item<'a>> {
        let name = subject.name;
        if !self.selection.asked.contains(name) {
            return None;
        }
        let is_ungrouped = self.is_ungrouped(&subject);
        let request = &self.input.request;
        let mut item = self.rules.asked(request, subject, self.retired(name));
        leave_to_next_plan(&mut item);
        if let Some(reservation) = self.reservation(name) {
            item.leave_reserved(reservation, !request.nodes.is_empty());
        }
        if request.action == Action::Redeploy {
            item.change.group = self.group_name(name);
            if is_ungrouped {
                item.because("no deployment group selects it: it is built again by itself");
            }
        }
        Some(item)
    }

    /// Judges a node by its design; `None` if nothing is to be done.
    fn designed(&self, subject: Subject<'a>, notes: &mut Notes<'a>) -> Option<Item<'a>> {
        let name = subject.name;
        notes.about(self.input, &subject, self.retired(name));
        let is_ungrouped = self.is_ungrouped(&subject);
        if is_ungrouped {
            notes.ungrouped.push(name);
        }
        let mut item = self.rules.judge(subject, self.retired(name))?;
        leave_to_next_plan(&mut item);
        if let Some(reservation) = self.reservation(name) {
            item.leave_reserved(reservation, false);
        }
        item.change.group = self.group_name(name);
        if is_ungrouped && (item.work.prepare || item.work.deploy || item.work.service.is_some()) {
            item.because("no deployment group selects it");
            item.show_only();
        }
        let is_targeted = self.options.targets.is_empty() || self.selection.targets.contains(name);
        if !is_targeted || self.selection.excludes.contains(name) {
            item.exclude();
        }
        Some(item)
    }
}
