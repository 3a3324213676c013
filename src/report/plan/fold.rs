//! The parts of a plan of many groups or of many different changes that only `--full` shows: groups with the same changes as
//! one that is shown, and changes that differ from those shown in values only.
//!
//! A plan with few of both is shown as it is. Folded parts are counted, and their destructive effects are listed.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use super::outline::{Alike, OutlinePart, Stage, kinship, likeness};
use super::words;
use crate::plan::{Change, ChangeKind};
use crate::report::counted;

/// Groups with changes that are all shown.
const FEW_STAGES: usize = 10;
/// Groups to which something different happens that are shown at most.
const MOST_STAGES: usize = 30;
/// Different changes of a group that are all shown.
const FEW_CHANGES: usize = 10;
/// Changes of the same fields that are shown if there are more.
const MOST_OF_A_KIND: usize = 3;
/// Kinds of changes that are shown of a group.
const MOST_KINDS: usize = 20;

/// A stage that is shown, and the later ones to which the same happens.
pub(super) struct Shown<'p, 'a> {
    pub(super) part: &'p OutlinePart<'a>,
    pub(super) like: Vec<&'p OutlinePart<'a>>,
}

/// The stages that have changes, in order, and those that there are too many to show.
pub(super) fn stages<'p, 'a>(
    parts: &'p [OutlinePart<'a>],
    full: bool,
) -> (Vec<Shown<'p, 'a>>, Vec<&'p OutlinePart<'a>>) {
    let busy: Vec<&OutlinePart<'_>> = parts.iter().filter(|part| part.nodes > 0).collect();
    let folds = !full && busy.len() > FEW_STAGES;
    let mut shown: Vec<Shown<'p, 'a>> = Vec::new();
    let mut rest = Vec::new();
    let mut lost = 0;
    let mut positions: FxHashMap<String, usize> = FxHashMap::default();
    for part in busy {
        let group = match &part.stage {
            Stage::Group(group) if folds => group,
            _ => {
                let like = Vec::new();
                shown.push(Shown { part, like });
                continue;
            }
        };
        let mut changes: Vec<String> = part
            .alike
            .iter()
            .filter_map(|alike| alike.first().map(likeness))
            .collect();
        changes.sort_unstable();
        let mut key = words::conditions(group);
        for change in changes {
            key.push('\u{1d}');
            key.push_str(&change);
        }
        match positions.get(&key) {
            Some(position) => shown[*position].like.push(part),
            // What destroys something is not among the others for as long as can be.
            None if shown.len() < MOST_STAGES || (destroys(&[part]) && lost < MOST_STAGES) => {
                lost += usize::from(destroys(&[part]));
                positions.insert(key, shown.len());
                let like = Vec::new();
                shown.push(Shown { part, like });
            }
            None => rest.push(part),
        }
    }
    (shown, rest)
}

/// The line for folded stages: how many, their changes, and the first of their names.
pub(super) fn said_of(parts: &[&OutlinePart<'_>], what: &str, most: usize) -> String {
    let changes = || {
        let alike = parts.iter().flat_map(|part| &part.alike);
        alike.flat_map(|alike| alike.changes.iter().copied())
    };
    let names = parts.iter().filter_map(|part| match &part.stage {
        Stage::Group(group) => Some(group.name.as_str()),
        _ => None,
    });
    let names = words::first_of(&names.collect::<Vec<&str>>(), most);
    let groups = counted(parts.len(), "more group", "more groups");
    format!("{groups}{what}, {}: {names}", sum(changes()))
}

/// `9000 to deploy, 600 to redeploy (wipes 1200 disks)`.
pub(super) fn sum<'a>(changes: impl Iterator<Item = &'a Change>) -> String {
    let mut kinds: Vec<(ChangeKind, usize)> = Vec::new();
    let mut disks = 0;
    for change in changes {
        match kinds.iter_mut().find(|(kind, _)| *kind == change.kind) {
            Some((_, number)) => *number += 1,
            None => kinds.push((change.kind, 1)),
        }
        if change.destructive {
            disks += change.disks.len();
        }
    }
    let kinds = kinds.iter();
    let kinds = kinds.map(|(kind, number)| format!("{number} {}", words::outlook(*kind)));
    let mut text = kinds.collect::<Vec<_>>().join(", ");
    if disks > 0 {
        let _ = write!(text, " (wipes {})", counted(disks, "disk", "disks"));
    }
    text
}

/// Whether any of some changes destroys something.
pub(super) fn destroys(parts: &[&OutlinePart<'_>]) -> bool {
    let mut alike = parts.iter().flat_map(|part| &part.alike);
    alike.any(|alike| alike.first().is_some_and(|first| first.destructive))
}

/// The pieces of a stage, in order.
pub(super) enum Piece<'p, 'a> {
    /// Changes that are alike.
    Alike(&'p Alike<'a>),
    /// Changes of the same fields as the ones before, with values of their own.
    SameFields(Vec<&'a Change>),
    /// Changes of more kinds than are shown.
    Others(Vec<&'a Change>),
}

impl<'a> Piece<'_, 'a> {
    /// The changes of it.
    pub(super) fn changes(&self) -> &[&'a Change] {
        match self {
            Self::Alike(alike) => &alike.changes,
            Self::SameFields(changes) | Self::Others(changes) => changes,
        }
    }
}

/// The pieces of a stage.
pub(super) fn pieces<'p, 'a>(part: &'p OutlinePart<'a>, full: bool) -> Vec<Piece<'p, 'a>> {
    let alike = &part.alike;
    if full || alike.len() <= FEW_CHANGES {
        return alike.iter().map(Piece::Alike).collect();
    }
    let mut kinds: Vec<Vec<&Alike<'a>>> = Vec::new();
    let mut positions: FxHashMap<String, usize> = FxHashMap::default();
    for each in alike {
        let Some(first) = each.first() else {
            continue;
        };
        let position = *positions.entry(kinship(first)).or_insert_with(|| {
            kinds.push(Vec::new());
            kinds.len() - 1
        });
        kinds[position].push(each);
    }
    let all = |folded: &[&Alike<'a>]| -> Vec<&'a Change> {
        let changes = folded.iter().flat_map(|alike| alike.changes.iter());
        changes.copied().collect()
    };
    let mut pieces = Vec::new();
    for kind in kinds.iter().take(MOST_KINDS) {
        // One more line is no longer than the line that folds it.
        let whole = match kind.len() <= MOST_OF_A_KIND + 1 {
            true => kind.len(),
            false => MOST_OF_A_KIND,
        };
        pieces.extend(kind[..whole].iter().copied().map(Piece::Alike));
        if whole < kind.len() {
            pieces.push(Piece::SameFields(all(&kind[whole..])));
        }
    }
    if kinds.len() > MOST_KINDS {
        let others = kinds[MOST_KINDS..].iter().flat_map(|kind| all(kind));
        pieces.push(Piece::Others(others.collect()));
    }
    pieces
}
