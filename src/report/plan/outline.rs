//! The changes of a plan in the order in which they are carried out, those that are alike gathered.
//!
//! Two changes are alike when they differ in nothing but the name of their node. One line in a host
//! profile that redeploys four hundred machines is one thing to read, not four hundred.

use rustc_hash::FxHashMap;

use crate::diff::FieldChange;
use crate::plan::{Change, ChangeKind, Plan, PlannedGroup};
use crate::report::natural;

/// Changes that are alike, in the order of their nodes' names.
pub(super) struct Alike<'a> {
    pub(super) changes: Vec<&'a Change>,
}

impl<'a> Alike<'a> {
    /// The first of them, which stands for all.
    pub(super) fn first(&self) -> Option<&'a Change> {
        self.changes.first().copied()
    }
}

/// Where changes are carried out.
pub(super) enum Stage<'a> {
    /// In a deployment group.
    Group(&'a PlannedGroup),
    /// In no group.
    Outside,
    /// For nodes that an action names, outside the groups.
    Asked,
    /// After the groups: machines that are no longer designed.
    Left,
}

/// A stage with its changes.
pub(super) struct OutlinePart<'a> {
    pub(super) stage: Stage<'a>,
    pub(super) alike: Vec<Alike<'a>>,
    /// How many changes there are in all.
    pub(super) nodes: usize,
}

/// All stages in order; groups without a change are in it, other stages only if they have one.
pub(super) fn outline(plan: &Plan) -> Vec<OutlinePart<'_>> {
    let parts = stages(plan)
        .into_iter()
        .map(|(stage, changes)| OutlinePart {
            stage,
            nodes: changes.len(),
            alike: gather(changes),
        });
    parts.collect()
}

/// All stages in order, each with its changes.
pub(super) fn stages(plan: &Plan) -> Vec<(Stage<'_>, Vec<&Change>)> {
    let positions: FxHashMap<&str, usize> = plan
        .groups
        .iter()
        .enumerate()
        .map(|(index, group)| (group.name.as_str(), index))
        .collect();
    let is_asked = plan.request.action.is_targeted();
    let (outside, left) = (plan.groups.len(), plan.groups.len() + 1);
    let mut stages: Vec<Vec<&Change>> = vec![Vec::new(); plan.groups.len() + 2];
    for change in visible_changes(plan) {
        let group = change
            .group
            .as_ref()
            .and_then(|group| positions.get(group.as_str()));
        let stage = match (group, change.kind) {
            (Some(index), _) => *index,
            (None, ChangeKind::Destroy) if !is_asked => left,
            (None, _) => outside,
        };
        stages[stage].push(change);
    }
    stages
        .into_iter()
        .enumerate()
        .filter(|(index, changes)| *index < outside || !changes.is_empty())
        .map(|(index, changes)| {
            let stage = match plan.groups.get(index) {
                Some(group) => Stage::Group(group),
                None if index == outside && is_asked => Stage::Asked,
                None if index == outside => Stage::Outside,
                None => Stage::Left,
            };
            (stage, changes)
        })
        .collect()
}

/// The changes that there is something to say about, in the order of names for people.
pub(super) fn visible_changes(plan: &Plan) -> impl Iterator<Item = &Change> {
    let changes = plan.changes.iter();
    let mut shown: Vec<&Change> = changes
        .filter(|change| change.kind != ChangeKind::None)
        .collect();
    shown.sort_by(|one, other| natural(one.node.as_str(), other.node.as_str()));
    shown.into_iter()
}

/// Puts changes that are alike together, in the order of the first of each.
pub(super) fn gather<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Vec<Alike<'a>> {
    gather_by(changes, likeness)
}

/// Gathers changes with equal keys.
pub(super) fn gather_by<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    key: impl Fn(&Change) -> String,
) -> Vec<Alike<'a>> {
    let mut positions: FxHashMap<String, usize> = FxHashMap::default();
    let mut result: Vec<Alike<'a>> = Vec::new();
    for change in changes {
        let position = *positions.entry(key(change)).or_insert_with(|| {
            result.push(Alike {
                changes: Vec::new(),
            });
            result.len() - 1
        });
        result[position].changes.push(change);
    }
    result
}

/// The kind of a change and the fields it is about, whatever their values, as a key.
pub(super) fn kinship(change: &Change) -> String {
    let mut key = format!(
        "{:?}{:?}{}{}{}\u{1f}{:?}",
        change.kind,
        change.rung,
        change.excluded,
        change.shown_only,
        change.destructive,
        block_key(change)
    );
    for field in &change.fields {
        key.push('\u{1f}');
        key.push_str(field.section.as_str());
        key.push('\u{1f}');
        key.push_str(&field.path);
    }
    key
}

/// Why a change is blocked, and the flag that allows it, without the name of its node and the flag's value.
fn block_key(change: &Change) -> Option<(String, Option<String>)> {
    let block = change.blocked.as_ref()?;
    let mut reason = String::new();
    nameless(&mut reason, &block.reason, change.node.as_str());
    let flag = block.flag.as_deref();
    let flag = flag.and_then(|flag| flag.split([' ', '=']).next());
    Some((reason, flag.map(str::to_owned)))
}

/// Changes that are blocked, once for each reason and flag, however they differ otherwise.
pub(super) fn blocked(plan: &Plan) -> Vec<Alike<'_>> {
    let blocked = visible_changes(plan).filter(|change| change.blocked.is_some());
    gather_by(blocked, |change| {
        format!("{:?}{:?}{:?}", change.kind, change.does, block_key(change))
    })
}

/// Everything of a change but the name of its node, as a key.
pub(super) fn likeness(change: &Change) -> String {
    let name = change.node.as_str();
    let mut key = String::with_capacity(128);
    let mut part = |text: &str| {
        nameless(&mut key, text, name);
        key.push('\u{1f}');
    };
    part(change.kind.sign());
    part(&format!(
        "{:?}{:?}{}{}{}",
        change.kind, change.rung, change.excluded, change.shown_only, change.destructive
    ));
    if let Some(block) = &change.blocked {
        part(&block.reason);
        part(block.flag.as_deref().unwrap_or("\u{1e}"));
    }
    change.disks.iter().for_each(|disk| part(disk));
    part("\u{1d}");
    change.reasons.iter().for_each(|reason| part(reason));
    if let Some(cleaning) = &change.cleaning {
        part(&cleaning.because);
        for step in &cleaning.steps {
            part(&format!(
                "{}{:?}{:?}{}",
                step.name(),
                step.arguments,
                step.priority,
                step.erases
            ));
        }
    }
    for FieldChange {
        section,
        path,
        before,
        after,
        chain,
        accepted,
    } in &change.fields
    {
        part(section.as_str());
        part(path);
        part(before.as_deref().unwrap_or("\u{1e}"));
        part(after.as_deref().unwrap_or("\u{1e}"));
        part(accepted.as_deref().unwrap_or("\u{1e}"));
        for link in chain {
            part(&link.by);
            part(&link.document);
            // The node's own document stands in a place of its own.
            if !is_own(&link.document, name) {
                part(&link.place.path);
                part(&link.place.line.to_string());
            }
        }
    }
    key
}

/// Whether a document is the node's own.
fn is_own(document: &str, name: &str) -> bool {
    document
        .strip_suffix(name)
        .is_some_and(|before| before.ends_with('/') && before.contains("BaremetalNode"))
}

/// Writes a text with a sign in place of each whole word that is the name.
fn nameless(out: &mut String, text: &str, name: &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut rest = text;
    let mut before = None;
    while let Some(at) = rest.find(name).filter(|_| !name.is_empty()) {
        let end = at + name.len();
        let left = rest[..at].chars().next_back().or(before);
        let right = rest[end..].chars().next();
        out.push_str(&rest[..at]);
        if left.is_some_and(is_part) || right.is_some_and(is_part) {
            out.push_str(name);
        } else {
            out.push('\u{1c}');
        }
        before = name.chars().next_back();
        rest = &rest[end..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_out_of_a_text_as_a_whole_word_only() {
        let table = [
            ("--allow-redeploy n1", "--allow-redeploy \u{1c}"),
            ("n1 and n12 and xn1", "\u{1c} and n12 and xn1"),
            ("n1n1", "n1n1"),
            ("`n1`", "`\u{1c}`"),
        ];
        for (text, expected) in table {
            let mut out = String::new();
            nameless(&mut out, text, "n1");
            assert_eq!(out, expected);
        }
    }
}
