//! Differences of a deployed machine from its design that are left as they are: accepted before, or by a rule of
//! the policy.

use std::sync::Arc;

use super::rules::Rules;
use super::subject::Subject;
use crate::design::{Acceptance, AcceptedDesign, Class, DIGEST_VERSION, NodeDesign, Section};
use crate::diff::{FieldChange, ValueDifference};

/// The differences that would need a redeploy, and how each is accepted, if it is.
#[derive(Default)]
pub(super) struct Accepting {
    differences: Vec<(ValueDifference, Option<How>)>,
}

/// How a difference is accepted.
enum How {
    /// By its record; the reason, the person and the run.
    Recorded { reason: Arc<str>, shown: Arc<str> },
    /// By a rule of the policy; the reason.
    ByRule { reason: Arc<str>, shown: Arc<str> },
}

impl How {
    fn reason(&self) -> &Arc<str> {
        let (Self::Recorded { reason, .. } | Self::ByRule { reason, .. }) = self;
        reason
    }

    fn shown(&self) -> &Arc<str> {
        let (Self::Recorded { shown, .. } | Self::ByRule { shown, .. }) = self;
        shown
    }
}

/// The differences in the sections that need a redeploy.
pub(super) fn differences(
    rules: &Rules<'_>,
    installed: &NodeDesign,
    after: &NodeDesign,
    sections: &[Section],
) -> Vec<ValueDifference> {
    let sections = sections.iter().copied().filter(needs_redeploy);
    let values = sections.flat_map(|section| rules.reasons.values(installed, after, section));
    values.collect()
}

fn needs_redeploy(section: &Section) -> bool {
    section.class() == Class::Redeploy
}

/// The contents of a record with these differences accepted; `is_rest_reached`: in all that needs no
/// redeploy the machine is as designed.
pub(super) fn recorded(
    subject: Subject<'_>,
    differences: Vec<Acceptance>,
    is_rest_reached: bool,
) -> Option<Box<AcceptedDesign>> {
    let record = subject.record?;
    let old = match record.digest_version {
        DIGEST_VERSION => &record.digests,
        _ => &subject.before?.digests,
    };
    let rest = match subject.after {
        Some(after) if is_rest_reached => &after.digests,
        _ => old,
    };
    let installed = match record.digest_version {
        DIGEST_VERSION => old,
        _ => &subject.installed?.digests,
    };
    let differing = subject.differing().unwrap_or_default();
    let digests = Section::ALL.into_iter().filter_map(|section| {
        let digests = match (section.class(), subject.after) {
            // It is on the machine as it is designed, whatever stands for its secrets.
            (Class::Redeploy, Some(after)) if !differing.contains(&section) => &after.digests,
            (Class::Redeploy, _) => installed,
            (Class::Service | Class::Relabel | Class::Record, _) => rest,
        };
        Some((section, *digests.get(&section)?))
    });
    Some(Box::new(AcceptedDesign {
        revision: record.installed()?.clone(),
        digests: digests.collect(),
        differences,
    }))
}

impl Accepting {
    /// How the differences of a machine in these sections are accepted.
    pub(super) fn of(
        rules: &Rules<'_>,
        subject: Subject<'_>,
        after: &NodeDesign,
        sections: &[Section],
    ) -> Self {
        let (Some(record), Some(installed)) = (subject.record, subject.installed) else {
            return Self::default();
        };
        let ignored = &rules.guards.policy.ignored;
        let ignored: Vec<_> = ignored.iter().filter(|rule| rule.selects(after)).collect();
        if record.accepted.is_none() && ignored.is_empty() {
            return Self::default();
        }
        let how = |difference: &ValueDifference| {
            if difference.is_secret {
                return None;
            }
            let difference = &difference.difference;
            if let Some(known) = record.acceptance(difference) {
                let reason = known.acceptance.reason.clone();
                let shown = format!("by {} in run {}: {reason}", known.by, known.run).into();
                return Some(How::Recorded { reason, shown });
            }
            ignored.iter().find_map(|rule| {
                let pattern = rule.pattern_of(&difference.path)?.as_str();
                let reason = rule.reason.clone();
                let shown = format!("by the policy (`{pattern}`): {reason}").into();
                Some(How::ByRule { reason, shown })
            })
        };
        let differences = differences(rules, installed, after, sections).into_iter();
        let differences = differences.map(|difference| {
            let how = how(&difference);
            (difference, how)
        });
        Self {
            differences: differences.collect(),
        }
    }

    /// Whether a section that differs stays as it is: all that differs in it is accepted.
    pub(super) fn covers(&self, section: Section) -> bool {
        let of_section = || {
            let all = self.differences.iter();
            all.filter(move |(each, _)| each.difference.section == section)
        };
        needs_redeploy(&section)
            && of_section().next().is_some()
            && of_section().all(|(_, how)| how.is_some())
    }

    /// Whether any is accepted that its record does not list.
    pub(super) fn is_new(&self) -> bool {
        let mut all = self.differences.iter();
        all.any(|(_, how)| matches!(how, Some(How::ByRule { .. })))
    }

    /// Whether any is accepted.
    pub(super) fn is_some(&self) -> bool {
        self.differences.iter().any(|(_, how)| how.is_some())
    }

    /// Marks the fields that are accepted.
    pub(super) fn mark(&self, fields: &mut [FieldChange]) {
        for field in fields {
            let mut all = self.differences.iter();
            let same = all.find(|(each, _)| {
                each.difference.section == field.section && each.difference.path == field.path
            });
            field.accepted = same
                .and_then(|(_, how)| how.as_ref())
                .map(|how| how.shown().clone());
        }
    }

    /// The contents of its record from now on.
    pub(super) fn recorded(&self, subject: Subject<'_>) -> Option<Box<AcceptedDesign>> {
        let accepted = self.differences.iter().filter_map(|(each, how)| {
            Some(Acceptance {
                difference: each.difference.clone(),
                reason: how.as_ref()?.reason().clone(),
            })
        });
        recorded(subject, accepted.collect(), true)
    }
}
