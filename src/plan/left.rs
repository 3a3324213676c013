//! Machines that are not as designed once a plan is carried out, or are not known to be.

use super::{Change, ChangeKind, Plan};
use crate::design::{NodeName, Section};
use crate::record::Unproven;

impl Change {
    /// Whether the machine differs from its design or from what was applied, and still does once this is carried out.
    fn leaves_differences(&self) -> bool {
        match self.kind {
            // What is repaired of it is the power or labels, and no field.
            ChangeKind::Drift => self.shown_only || !self.fields.is_empty(),
            // Only a service sets firmware and settings.
            ChangeKind::Create | ChangeKind::Redeploy | ChangeKind::Relabel => {
                self.shown_only || self.open_sections().contains(&Section::Firmware)
            }
            ChangeKind::Service | ChangeKind::Destroy => self.shown_only,
            ChangeKind::Adopt
            | ChangeKind::Unknown
            | ChangeKind::Record
            | ChangeKind::AwaitReady
            | ChangeKind::Rename
            | ChangeKind::Retire
            | ChangeKind::Unretire
            | ChangeKind::Operation
            | ChangeKind::Accept
            | ChangeKind::None => false,
        }
    }
}

impl Plan {
    /// The machines that are not as designed or as applied, and still are not once it is carried out, sorted.
    #[must_use]
    pub fn left_differing(&self) -> Vec<NodeName> {
        let left = self
            .changes
            .iter()
            .filter(|change| change.leaves_differences());
        let mut left: Vec<_> = left.map(|change| change.node.clone()).collect();
        left.sort_unstable();
        left
    }

    /// The machines that it would change and leaves out: blocked, or not among those that were asked for; sorted.
    #[must_use]
    pub fn left_out(&self) -> Vec<NodeName> {
        let left_out = |change: &&Change| change.is_left_out() && !change.leaves_differences();
        let left = self.changes.iter().filter(left_out);
        let mut left: Vec<_> = left.map(|change| change.node.clone()).collect();
        left.sort_unstable();
        left
    }

    /// How many machines are not known to be as designed once it is carried out.
    #[must_use]
    pub fn left_unproven(&self) -> Unproven {
        Unproven {
            differing: self.left_differing().len(),
            ..self.summary.unproven
        }
    }
}
