//! Rules above all flags: a machine that is held, protection, proof of identity, the capabilities of a backend.

use super::allowance::Allowed;
use super::item::Item;
use super::rules::Rules;
use super::service::raid;
use super::subject::{Observation, Subject};
use super::{ChangeKind, deploy_steps};
use crate::design::{NodeDesign, OpenField, Rung, Section, WipePolicy};
use crate::guard;
use crate::identity::Proof;
use crate::observed::Capability;

/// Whether something is under way on a machine that no maintenance keeps there.
fn is_under_way(subject: Subject<'_>) -> bool {
    matches!(
        subject.seen,
        Observation::Known(node, state) if state.is_transient() && node.maintenance.is_none()
    )
}

impl<'a> Rules<'a> {
    /// Applies the rules above all flags: a machine that is held, protection, and the capabilities of its backend.
    pub(super) fn guard(&self, mut item: Item<'a>) -> Item<'a> {
        let subject = item.subject;
        let touches = item.work.is_in_a_group() || item.work.destroy;
        if touches && let Some(why) = subject.held() {
            if is_under_way(subject) {
                // It ends by itself: a run without it would take the rest for the whole site.
                item.block(&why, None);
                return item;
            }
            item.leave_alone(why);
            return item;
        }
        if item.work.destroy {
            item.block_if_protected(self.guards);
        }
        if item.work.destroy
            && let Some(why) = subject.not_to_be_torn_down()
        {
            item.block(&why, None);
        }
        if item.work.destroy {
            item = self.leave(item);
        }
        self.complete(self.preserve(item))
    }

    /// Adds what a deploy runs, what the backend cannot do, and how the machine is cleaned.
    pub(super) fn complete(&self, item: Item<'a>) -> Item<'a> {
        self.clean(self.able(self.filled(raid::take(deploy_steps::take(item)))))
    }

    /// Blocks the deploy of a machine of which no document tells any more what it gets: of one that was adopted, and of one
    /// that was built with an image.
    fn filled(&self, mut item: Item<'a>) -> Item<'a> {
        let open = match item.work.deploy {
            true => self.open_fields(item.subject),
            false => Vec::new(),
        };
        if !open.is_empty() {
            let reason = format!(
                "what it had when it was adopted is in no document: {}; give it there, or list it as `assumed` in the Adoption document",
                OpenField::in_words(&open)
            );
            item.block(&reason, None);
        }
        let names_image = |node: &NodeDesign| OpenField::Image.is_filled(node);
        let subject = item.subject;
        if item.work.deploy
            && subject.installed.is_some_and(names_image)
            && !subject.after.is_some_and(names_image)
        {
            item.block(
                "it has an image, and its documents name none any more (`platform.image`)",
                None,
            );
        }
        item
    }

    /// Blocks a change of the documents that goes further than the policy and the flags allow; `sections`: those that it
    /// brings true. What has left the design has a flag of its own.
    pub(super) fn keep_to_rung(&self, mut item: Item<'a>, sections: &[Section]) -> Item<'a> {
        item.preserves = self.leaving.preserve_local_storage;
        let Some(rung) = item.rung() else {
            return item;
        };
        let policy = &self.guards.policy.disruption;
        // A section whose fields cannot be shown is held to the lowest rung of all: no reader could tell which one counts.
        let shown = item.change.open_sections();
        let on_machine = sections
            .iter()
            .filter(|each| each.lowest_rung() > Rung::Record);
        let is_shown = on_machine.clone().all(|section| shown.contains(section));
        let shown = shown.into_iter().filter(|_| is_shown);
        let by_policy = policy.most(shown, rung);
        let flags = [
            (Rung::Restart, &self.allow_restart),
            (Rung::Reinstall, &self.allow_reinstall),
            (Rung::Wipe, &self.allow_redeploy),
        ];
        let is_given = |allowed: &Allowed<'_>| allowed.contains(item.subject.name);
        let mut flags = flags.into_iter();
        if rung <= by_policy || flags.any(|(most, allowed)| rung <= most && is_given(allowed)) {
            return item;
        }
        let (does, flag) = match rung {
            Rung::Record | Rung::Live => ("it would be changed while it runs", "--allow-restart"),
            Rung::Restart => ("it would be restarted", "--allow-restart"),
            Rung::Reinstall => (
                "its system would be installed again, and its other disks kept",
                "--allow-reinstall",
            ),
            Rung::Wipe => ("it would be torn down and built again", "--allow-redeploy"),
        };
        match policy.is_default() {
            true => item.block(does, Some(flag)),
            false => item.block(
                &format!("{does}, and Policy `disruption` allows `{by_policy}`"),
                Some(flag),
            ),
        }
        item
    }

    /// Blocks what would change a machine that is another one than is meant, or of which nothing proves that
    /// it is the one, unless that is allowed.
    pub(super) fn prove(&self, mut item: Item<'a>) -> Item<'a> {
        let Some(machine) = item.subject.machine else {
            return item;
        };
        if !item.work.touches_machine(machine.kept_by_records) {
            return item;
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
                    let unverified = &self.guards.policy.unverified;
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
        item
    }

    /// Keeps all disks but that of the operating system, if that was asked for, or if the run that tore it down has kept them
    /// and no one lets them be erased.
    pub(super) fn preserve(&self, mut item: Item<'a>) -> Item<'a> {
        let is_asked = item.work.destroy && self.leaving.preserve_local_storage;
        let is_built = !item.work.destroy && (item.work.prepare || item.work.deploy);
        let may_erase = self.allow_redeploy.contains(item.subject.name);
        let is_kept = is_built && item.subject.has_kept_disks() && !may_erase;
        if !is_asked && !is_kept {
            return item;
        }
        if is_kept {
            let run = item
                .subject
                .record
                .and_then(|record| record.torn_down.as_ref());
            let by = run.map_or_else(String::new, |run| format!(" by run {run}"));
            let name = item.subject.name;
            item.because(format!(
                "its other disks were kept{by}, and are: `--allow-redeploy {name}` erases them"
            ));
        }
        let changed = item.subject.other_disks_that_change();
        if is_asked && item.work.deploy && !changed.is_empty() {
            let changed = changed.join(", ");
            let reason = format!(
                "its design lays out {changed} anew, which `--preserve-local-storage` would leave as it is"
            );
            item.block(&reason, None);
        }
        (item.preserves, item.keeps_disks) = (true, true);
        match item.subject.system_disk() {
            Some(disk) => item.change.disks = vec![disk],
            None => item.block(
                "which disk carries its operating system is not known, so that no other can be kept",
                None,
            ),
        }
        item
    }

    /// Blocks what the backend cannot do.
    fn able(&self, mut item: Item<'a>) -> Item<'a> {
        let subject = item.subject;
        if let Some(node) = subject.seen.node().filter(|_| item.work.deploy) {
            for part in node.unsupported.iter() {
                item.block(
                    &format!("its backend does not support a part of its design: {part}"),
                    None,
                );
            }
            for why in guard::unexpected(self.guards, subject.name, node) {
                match why.is_unread {
                    true => item.block_unreadable(&why.reason, None),
                    false => item.block(&why.reason, None),
                }
            }
            for part in node.left_out.iter() {
                item.because(format!("left out: {part}"));
            }
        }
        let able = subject.seen.node().map(|node| &node.capabilities);
        let Some(able) = able.filter(|able| !able.is_empty()) else {
            return item;
        };
        let missing: Vec<_> = item
            .work
            .needs(self.leaving.preserve_local_storage)
            .filter(|(capability, _)| !able.contains(*capability))
            .collect();
        for (capability, words) in missing {
            if capability == Capability::Wipe && self.guards.policy.wipe == WipePolicy::Skip {
                item.unwiped = true;
            } else if item.change.kind == ChangeKind::Drift {
                item.because(format!("its backend cannot {words}"));
                item.show_only();
                return item;
            } else {
                item.block(&format!("its backend cannot {words}"), None);
            }
        }
        item
    }
}
