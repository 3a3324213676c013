//! The ids of parts: readable, stable, and harmless whatever groups are called.

use std::fmt::Write as _;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest as _, Sha256};

use super::order::Order;
use super::pack::Cut;
use super::stage::{PartStage, Stages};
use super::{Part, PartKind};
use crate::design::GroupName;

/// How many characters of the name of a group are kept.
const LONGEST: usize = 60;
/// How many bytes of the digest of a name tell it from others.
const DIGEST: usize = 8;
/// How parts outside the groups, parts of several, and tasks that are no parts begin.
const RESERVED: [&str; 12] = [
    "begin",
    "critical-check",
    "deploy",
    "end",
    "groups",
    "nodes",
    "parts",
    "prepare",
    "site",
    "teardown",
    "wave",
    "waves",
];

/// The stages that a part has something of.
#[derive(Clone, Copy)]
struct Content<'p> {
    first: &'p PartStage<'p>,
    last: &'p PartStage<'p>,
    stages: usize,
    is_one_group: bool,
}

/// How the ids of the parts of each group begin.
pub(super) type GroupIds = FxHashMap<GroupName, Arc<str>>;

/// All parts by position, still without steps, and how those of each group begin.
pub(super) fn drafts(stages: &Stages<'_>, cut: &Cut, order: &Order) -> (Vec<Part>, GroupIds) {
    let mut contents: Vec<Option<Content<'_>>> = vec![None; order.len()];
    for (number, stage) in stages.all.iter().enumerate() {
        for part in cut.parts_of(number, stage.nodes) {
            let content = &mut contents[order.position(part)];
            let known = content.get_or_insert(Content {
                first: stage,
                last: stage,
                stages: 0,
                is_one_group: true,
            });
            known.is_one_group &= known.first.group == stage.group;
            known.stages += 1;
            known.last = stage;
        }
    }
    let mut names = Names::new(stages);
    let parts = contents.into_iter().flatten();
    let parts = parts.map(|content| names.part(&content)).collect();
    let groups = names.groups.into_iter();
    let ids = groups.map(|(group, (id, _))| (group.clone(), Arc::from(id)));
    (parts, ids.collect())
}

struct Names<'p> {
    /// For each group, how its parts begin, and its place among all groups.
    groups: FxHashMap<&'p GroupName, (String, usize)>,
    /// How many parts there are of each name.
    counts: FxHashMap<String, usize>,
    taken: FxHashSet<Arc<str>>,
}

impl<'p> Names<'p> {
    fn new(stages: &Stages<'p>) -> Self {
        let mut groups = FxHashMap::default();
        let mut taken = FxHashSet::default();
        for group in stages.all.iter().filter_map(|stage| stage.group) {
            let place = groups.len() + 1;
            groups.entry(group).or_insert_with(|| {
                let name = unlike(escaped(group.as_str()), |name| {
                    taken.insert(name.to_owned())
                });
                (name, place)
            });
        }
        Self {
            groups,
            counts: FxHashMap::default(),
            taken: FxHashSet::default(),
        }
    }

    fn part(&mut self, content: &Content<'_>) -> Part {
        let (first, last) = (content.first, content.last);
        let group = first.group.filter(|_| content.is_one_group);
        let is_one_wave = content.is_one_group && first.wave == last.wave;
        let id = match content.stages {
            1 => self.of_stage(first),
            _ => self.of_several(content, group),
        };
        let id = unlike(id, |id| self.taken.insert(Arc::from(id)));
        Part {
            id: Arc::from(id),
            kind: match content.stages {
                1 => first.kind,
                _ => PartKind::Several,
            },
            group: group.cloned(),
            wave: first.wave.filter(|_| is_one_wave),
            steps: Vec::new(),
            after: Vec::new(),
        }
    }

    fn prefix(&self, group: Option<&GroupName>) -> String {
        let known = group.and_then(|group| self.groups.get(group));
        known.map_or_else(String::new, |(name, _)| format!("{name}."))
    }

    fn of_stage(&mut self, stage: &PartStage<'_>) -> String {
        let mut id = self.prefix(stage.group);
        if let Some(wave) = stage.wave {
            let _ = write!(id, "wave-{wave}.");
        }
        id.push_str(stage.word);
        if stage.nodes > 0 {
            let count = self.counts.entry(id.clone()).or_default();
            *count += 1;
            let _ = write!(id, "-{count}");
        }
        id
    }

    fn of_several(&self, content: &Content<'_>, group: Option<&GroupName>) -> String {
        let prefix = self.prefix(group);
        let place =
            |group: Option<&GroupName>| group.and_then(|group| Some(self.groups.get(group)?.1));
        let (first, last) = (content.first, content.last);
        let waves = content.is_one_group.then_some((first.wave, last.wave));
        match (waves, place(first.group), place(last.group)) {
            (Some((Some(from), Some(to))), ..) if from == to => format!("{prefix}wave-{from}"),
            (Some((Some(from), Some(to))), ..) => format!("{prefix}waves-{from}-{to}"),
            (Some(_), Some(_), _) => format!("{prefix}all"),
            (None, Some(from), Some(to)) => format!("groups-{from}-{to}"),
            _ => "parts".to_owned(),
        }
    }
}

/// The name, with a number behind it where it was taken already.
fn unlike(name: String, mut take: impl FnMut(&str) -> bool) -> String {
    if take(&name) {
        return name;
    }
    let mut others = (2_usize..).map(|number| format!("{name}-{number}"));
    let free = others.find(|other| take(other));
    free.unwrap_or(name)
}

/// The name of a group as it is where nothing can be mistaken, else what can be kept of it and its digest.
fn escaped(name: &str) -> String {
    let is_kept = |char: char| matches!(char, 'a'..='z' | '0'..='9' | '_' | '-');
    let word = name.trim_end_matches(|char: char| char == '-' || char.is_ascii_digit());
    let is_reserved = RESERVED.contains(&word);
    if !name.is_empty() && name.len() <= LONGEST && name.chars().all(is_kept) && !is_reserved {
        return name.to_owned();
    }
    let lower = name
        .chars()
        .take(LONGEST)
        .map(|char| char.to_ascii_lowercase());
    let mut kept: String = lower
        .map(|char| if is_kept(char) { char } else { '-' })
        .collect();
    let digest = Sha256::digest(name.as_bytes());
    kept.push('.');
    kept.push_str(&HEXLOWER.encode(&digest[..DIGEST]));
    kept
}
