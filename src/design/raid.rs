//! RAID volumes of machines, as Hardware documents design them and as controllers show them.
//!
//! The name of a volume is given when it is made, and is not compared: many controllers have names of their own. Nor is
//! the order of volumes compared, nor what a controller does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::catalog::Catalog;
use super::read::{Findings, items, number, text, text_of, texts};
use super::{NodeDesign, Section, kind};
use crate::diagnostic::Diagnostic;
use crate::document::Node;

/// The value of the volumes of a machine, by the name that it has in plans.
pub const VOLUMES: &str = "raid.volumes";
/// The value of the number of its hot spares.
pub const HOT_SPARES: &str = "raid.hot_spares";

/// A RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RaidLevel {
    /// Striped.
    Raid0,
    /// Mirrored.
    Raid1,
    /// One parity.
    Raid5,
    /// Two parities.
    Raid6,
    /// Striped over mirrors.
    Raid10,
    /// Striped over RAID5.
    Raid50,
    /// Striped over RAID6.
    Raid60,
}

impl RaidLevel {
    const ALL: [Self; 7] = [
        Self::Raid0,
        Self::Raid1,
        Self::Raid5,
        Self::Raid6,
        Self::Raid10,
        Self::Raid50,
        Self::Raid60,
    ];

    /// The name, as Redfish and documents have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raid0 => "RAID0",
            Self::Raid1 => "RAID1",
            Self::Raid5 => "RAID5",
            Self::Raid6 => "RAID6",
            Self::Raid10 => "RAID10",
            Self::Raid50 => "RAID50",
            Self::Raid60 => "RAID60",
        }
    }

    /// The name, as Ironic and Metal3 have it.
    #[must_use]
    pub const fn of_ironic(self) -> &'static str {
        match self {
            Self::Raid0 => "0",
            Self::Raid1 => "1",
            Self::Raid5 => "5",
            Self::Raid6 => "6",
            Self::Raid10 => "1+0",
            Self::Raid50 => "5+0",
            Self::Raid60 => "6+0",
        }
    }

    /// The level of either name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|level| level.as_str() == name || level.of_ironic() == name)
    }

    /// The fewest drives that it is made of.
    const fn fewest(self) -> u64 {
        match self {
            Self::Raid0 => 1,
            Self::Raid1 => 2,
            Self::Raid5 => 3,
            Self::Raid6 | Self::Raid10 => 4,
            Self::Raid50 => 6,
            Self::Raid60 => 8,
        }
    }

    /// Whether it is made of two equal halves at least.
    const fn is_even(self) -> bool {
        matches!(self, Self::Raid10 | Self::Raid50 | Self::Raid60)
    }
}

/// The drives of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaidDrives {
    /// As many, chosen by what makes the volume.
    Count(u64),
    /// These, by the names that their controller has for them.
    Named(Arc<[Arc<str>]>),
}

impl RaidDrives {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Named(names) => names.len() as u64,
        }
    }

    /// Their names, sorted, if they are named.
    fn sorted(&self) -> Option<Vec<&str>> {
        let Self::Named(names) = self else {
            return None;
        };
        let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
        names.sort_unstable();
        Some(names)
    }
}

/// A volume that a machine is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaidVolume {
    /// The name that it is given when it is made.
    pub name: Arc<str>,
    /// Its level.
    pub level: RaidLevel,
    /// Its drives.
    pub drives: RaidDrives,
    /// Its size in GiB; absent: all the space of its drives.
    pub size_gib: Option<u64>,
    /// Its controller; absent: chosen by what makes the volume.
    pub controller: Option<Arc<str>>,
}

impl RaidVolume {
    /// Reads a volume; what is not of its form is an error of its schema.
    fn read(node: &Node) -> Option<Self> {
        let drives = match node.get("drives")?.as_list() {
            Some(_) => RaidDrives::Named(texts(node, "drives").collect()),
            None => RaidDrives::Count(number(node, "drives")?),
        };
        Some(Self {
            name: text(node, "name")?,
            level: RaidLevel::named(&text(node, "level")?)?,
            drives,
            size_gib: number(node, "size_gib"),
            controller: text(node, "controller"),
        })
    }

    fn as_shown(&self) -> ShownVolume {
        ShownVolume {
            level: Some(self.level.as_str().into()),
            drives: Some(self.drives.clone()),
            size_gib: self.size_gib,
            controller: self.controller.clone(),
        }
    }
}

/// The volumes and hot spares of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raid {
    /// Its volumes; none: no document names any.
    pub volumes: Vec<RaidVolume>,
    /// The number of its hot spares, if a document has it.
    pub hot_spares: Option<u64>,
}

/// A volume as a controller shows it; what it does not show is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownVolume {
    /// Its level, in the words of the controller if it is no known one.
    pub level: Option<Arc<str>>,
    /// Its drives.
    pub drives: Option<RaidDrives>,
    /// Its size in GiB.
    pub size_gib: Option<u64>,
    /// Its controller.
    pub controller: Option<Arc<str>>,
}

impl ShownVolume {
    /// Whether all is shown of it that its design has.
    fn shows_all_of(&self, designed: &RaidVolume) -> bool {
        let shows_drives = match (&self.drives, &designed.drives) {
            (None, _) => false,
            (Some(RaidDrives::Count(_)), RaidDrives::Named(_)) => false,
            (Some(RaidDrives::Count(_)), RaidDrives::Count(_)) => true,
            (Some(RaidDrives::Named(_)), _) => true,
        };
        shows_drives
            && (self.size_gib.is_some() || designed.size_gib.is_none())
            && (self.controller.is_some() || designed.controller.is_none())
    }

    /// Whether it is as designed, as far as it is shown.
    fn fits(&self, designed: &RaidVolume) -> bool {
        let has_level = self.level.as_deref() == Some(designed.level.as_str());
        let has_drives = self.drives.as_ref().is_none_or(|drives| {
            let is_named = match (drives.sorted(), designed.drives.sorted()) {
                (Some(shown), Some(designed)) => shown == designed,
                _ => true,
            };
            is_named && drives.count() == designed.drives.count()
        });
        let has_size = match (self.size_gib, designed.size_gib) {
            // Controllers round down to whole stripes.
            (Some(shown), Some(size)) => shown.abs_diff(size) <= (size / 100).max(1),
            _ => true,
        };
        let has_controller = match (&self.controller, &designed.controller) {
            (Some(shown), Some(designed)) => shown == designed,
            _ => true,
        };
        has_level && has_drives && has_size && has_controller
    }
}

impl fmt::Display for ShownVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.as_deref().unwrap_or("no RAID level"))?;
        match &self.drives {
            None => {}
            Some(RaidDrives::Count(1)) => f.write_str(" of 1 drive")?,
            Some(RaidDrives::Count(count)) => write!(f, " of {count} drives")?,
            Some(RaidDrives::Named(names)) => write!(f, " of {}", names.join(" + "))?,
        }
        if let Some(size) = self.size_gib {
            write!(f, ", {size} GiB")?;
        }
        match &self.controller {
            Some(controller) => write!(f, ", on {controller}"),
            None => Ok(()),
        }
    }
}

/// Volumes in one line, as they stand in plans; the order in which they are written does not count.
fn in_words(volumes: impl Iterator<Item = ShownVolume>) -> Arc<str> {
    let mut volumes: Vec<String> = volumes.map(|volume| volume.to_string()).collect();
    volumes.sort_unstable();
    match volumes.is_empty() {
        true => Arc::from("none"),
        false => volumes.join("; ").into(),
    }
}

/// The volumes of a document as they are compared.
pub(super) fn designed_in_words(volumes: &Node) -> Option<Arc<str>> {
    let volumes = volumes.as_list()?.iter().filter_map(RaidVolume::read);
    Some(in_words(volumes.map(|volume| volume.as_shown())))
}

impl Raid {
    fn read(raid: &Node) -> Self {
        let volumes = items(raid, "volumes").iter();
        Self {
            volumes: volumes.filter_map(RaidVolume::read).collect(),
            hot_spares: number(raid, "hot_spares"),
        }
    }

    /// The volumes that a machine shows, in the words of its design where they are as designed; `None`: they are as far as they
    /// are shown, and not all of them is shown.
    #[must_use]
    pub fn compared(&self, shown: &[ShownVolume]) -> Option<Arc<str>> {
        let Some(pairs) = self.paired(shown) else {
            return Some(in_words(shown.iter().cloned()));
        };
        let mut pairs = pairs.into_iter().zip(shown);
        let is_whole = pairs.all(|(volume, shown)| shown.shows_all_of(&self.volumes[volume]));
        is_whole.then(|| in_words(self.volumes.iter().map(RaidVolume::as_shown)))
    }

    /// The volumes that a machine shows, if any of them is another than designed or one is missing.
    #[must_use]
    pub fn differs(&self, shown: &[ShownVolume]) -> Option<Arc<str>> {
        match self.paired(shown) {
            Some(_) => None,
            None => Some(in_words(shown.iter().cloned())),
        }
    }

    /// The designed volume that each of those is which a machine shows; `None`: it has others.
    fn paired(&self, shown: &[ShownVolume]) -> Option<Vec<usize>> {
        let mut taken: Vec<Option<usize>> = vec![None; shown.len()];
        let has_all = shown.len() == self.volumes.len()
            && (0..self.volumes.len()).all(|volume| {
                let mut tried = vec![false; shown.len()];
                self.pair(volume, shown, &mut taken, &mut tried)
            });
        match has_all {
            true => taken.into_iter().collect(),
            false => None,
        }
    }

    /// Finds a volume of its own for a designed one, for which those that have one may take another.
    fn pair(
        &self,
        volume: usize,
        shown: &[ShownVolume],
        taken: &mut [Option<usize>],
        tried: &mut [bool],
    ) -> bool {
        for (at, candidate) in shown.iter().enumerate() {
            if tried[at] || !candidate.fits(&self.volumes[volume]) {
                continue;
            }
            tried[at] = true;
            let is_free = match taken[at] {
                None => true,
                Some(other) => self.pair(other, shown, taken, tried),
            };
            if is_free {
                taken[at] = Some(volume);
                return true;
            }
        }
        false
    }
}

impl NodeDesign {
    /// The volumes and hot spares that it is to have, whether they are enforced or only reported; `None`: no Hardware document
    /// has any.
    #[must_use]
    pub fn raid(&self) -> Option<Raid> {
        let of = |section| self.sections.shared(&section)?.get("raid").map(Raid::read);
        let (enforced, reported) = (of(Section::Raid), of(Section::Expected));
        let (mut raid, reported) = match (enforced, reported) {
            (Some(enforced), Some(reported)) => (enforced, reported),
            (Some(only), None) | (None, Some(only)) => return Some(only),
            (None, None) => return None,
        };
        // One of the two values may be enforced, and the other one not.
        if raid.volumes.is_empty() {
            raid.volumes = reported.volumes;
        }
        raid.hot_spares = raid.hot_spares.or(reported.hot_spares);
        Some(raid)
    }

    /// The volumes and hot spares that Hardware documents enforce.
    #[must_use]
    pub fn enforced_raid(&self) -> Option<Raid> {
        let fields = self.sections.shared(&Section::Raid)?;
        fields.get("raid").map(Raid::read)
    }
}

/// The volumes of Hardware documents that cannot be made.
pub(super) fn check(catalog: &Catalog<'_>, findings: &mut Findings) {
    for (_, data) in catalog.of(kind::HARDWARE) {
        if let Some(raid) = data.get("raid") {
            check_volumes(items(raid, "volumes"), findings);
        }
    }
}

fn check_volumes(volumes: &[Node], findings: &mut Findings) {
    let mut names = BTreeSet::new();
    // The volume of each drive of each controller.
    let mut drives = BTreeMap::new();
    for volume in volumes {
        let name = text(volume, "name").unwrap_or_default();
        if !names.insert(name.clone()) {
            let mark = volume.get("name").map_or(volume.mark, |node| node.mark);
            let message = format!("a second volume has the name `{name}`");
            let hint = "rename one of them";
            findings.push(Diagnostic::error("rule-raid-name", mark, message).hint(hint));
        }
        check_drives(volume, &name, findings);
        let controller = text(volume, "controller");
        for drive in items(volume, "drives") {
            let Some(text) = text_of(drive) else {
                continue;
            };
            let key = (controller.clone(), text.clone());
            if let Some(other) = drives.insert(key, name.clone()) {
                let message = format!("drive `{text}` is in volume `{other}` already");
                let hint = "a drive is in one volume, once";
                findings.push(Diagnostic::error("rule-raid-drive", drive.mark, message).hint(hint));
            }
        }
    }
}

/// Whether a volume has as many drives as its level needs.
fn check_drives(volume: &Node, name: &str, findings: &mut Findings) {
    let level = text(volume, "level").and_then(|level| RaidLevel::named(&level));
    let Some(written) = volume.get("drives") else {
        return;
    };
    let count = match written.as_list() {
        Some(names) => Some(names.len() as u64),
        None => number(volume, "drives"),
    };
    if let (Some(level), Some(count)) = (level, count) {
        let fewest = level.fewest();
        let problem = match count {
            _ if count < fewest => Some(format!("at least {fewest}")),
            _ if level.is_even() && count % 2 != 0 => Some("an even number".to_owned()),
            _ => None,
        };
        if let Some(needed) = problem {
            let message = format!(
                "volume `{name}` has {count} drives, and {} needs {needed}",
                level.as_str()
            );
            let hint = "give the volume more drives, or another level";
            findings.push(Diagnostic::error("rule-raid-drives", written.mark, message).hint(hint));
        }
    }
    if written.as_list().is_some() && volume.get("controller").is_none() {
        let message = format!("volume `{name}` names its drives, and not their controller");
        let hint = "set `controller`, or give the number of drives: `drives: 2`";
        findings.push(Diagnostic::error("rule-raid-controller", written.mark, message).hint(hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{checked, document, value};

    const TWO: &str = "{volumes: [{name: root, level: RAID1, drives: 2, size_gib: 480}, \
                       {name: data, level: RAID6, drives: [d3, d4, d5, d6], controller: RAID.1}]}";

    fn shown(text: &str) -> ShownVolume {
        let mut parts = text.split(' ');
        let level = parts.next().map(Arc::from);
        let drives = parts.next().map(|drives| match drives.parse() {
            Ok(count) => RaidDrives::Count(count),
            Err(_) => RaidDrives::Named(drives.split('+').map(Arc::from).collect()),
        });
        ShownVolume {
            level,
            drives,
            size_gib: parts.next().and_then(|size| size.parse().ok()),
            controller: parts.next().map(Arc::from),
        }
    }

    #[test]
    fn volumes_are_as_designed_whatever_is_not_shown_and_in_any_order() {
        let raid = Raid::read(&value(TWO));
        let designed = "RAID1 of 2 drives, 480 GiB; RAID6 of d3 + d4 + d5 + d6, on RAID.1";
        assert_eq!(
            designed_in_words(value(TWO).get("volumes").unwrap()).as_deref(),
            Some(designed)
        );
        let table: [(&[&str], Option<&str>); 10] = [
            (
                &["RAID1 2 480", "RAID6 d6+d5+d4+d3 9000 RAID.1"],
                Some(designed),
            ),
            (
                &["RAID6 d3+d4+d5+d6 1 RAID.1", "RAID1 a+b 482"],
                Some(designed),
            ),
            // Nothing that is shown differs, and it is not known whether all is as designed.
            (&["RAID6 4", "RAID1 2 479 RAID.1"], None),
            (&["RAID6", "RAID1"], None),
            (&[], Some("none")),
            (&["RAID1 2 480"], Some("RAID1 of 2 drives, 480 GiB")),
            (
                &["RAID1 2 400", "RAID6 4"],
                Some("RAID1 of 2 drives, 400 GiB; RAID6 of 4 drives"),
            ),
            (
                &["RAID5 2 480", "RAID6 4"],
                Some("RAID5 of 2 drives, 480 GiB; RAID6 of 4 drives"),
            ),
            (
                &["RAID1 2 480", "RAID6 d1+d2+d3+d4"],
                Some("RAID1 of 2 drives, 480 GiB; RAID6 of d1 + d2 + d3 + d4"),
            ),
            (
                &["RAID1 2 480", "RAID6 4", "RAID0 1"],
                Some("RAID0 of 1 drive; RAID1 of 2 drives, 480 GiB; RAID6 of 4 drives"),
            ),
        ];
        for (volumes, expected) in table {
            let volumes: Vec<_> = volumes.iter().map(|text| shown(text)).collect();
            assert_eq!(raid.compared(&volumes).as_deref(), expected, "{volumes:?}");
        }
    }

    #[test]
    fn a_volume_that_could_be_either_takes_what_the_other_leaves() {
        let raid = Raid::read(&value(
            "{volumes: [{name: any, level: RAID1, drives: 2}, {name: small, level: RAID1, drives: 2, size_gib: 100}]}",
        ));
        let words = |sizes: [&str; 2]| {
            let volumes = sizes.map(|size| shown(&format!("RAID1 2 {size}")));
            raid.compared(&volumes).unwrap()
        };
        let designed = "RAID1 of 2 drives; RAID1 of 2 drives, 100 GiB";
        assert_eq!(&*words(["100", "900"]), designed);
        assert_eq!(&*words(["900", "100"]), designed);
        let others = "RAID1 of 2 drives, 800 GiB; RAID1 of 2 drives, 900 GiB";
        assert_eq!(&*words(["800", "900"]), others);
    }

    #[test]
    fn volumes_that_cannot_be_made_are_errors_all_at_once() {
        let text = document(kind::NODE, "n1", "{}")
            + &document(
                kind::HARDWARE,
                "r",
                "raid: {volumes: [{name: a, level: RAID1, drives: 1}, {name: a, level: RAID10, drives: 5}, \
                 {name: b, level: RAID1, drives: [x, y]}, {name: c, level: RAID0, drives: [x, z, z], controller: c1}]}",
            );
        let found = checked(&text).problems;
        let of_raid: Vec<&str> = found
            .iter()
            .filter(|line| line.starts_with("rule-raid"))
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        let mut expected = [
            "rule-raid-drives",
            "rule-raid-name",
            "rule-raid-drives",
            "rule-raid-controller",
            "rule-raid-drive",
        ];
        let mut of_raid = of_raid;
        of_raid.sort_unstable();
        expected.sort_unstable();
        assert_eq!(of_raid, expected, "{found:#?}");
        assert!(
            found
                .iter()
                .any(|line| line
                    .contains("volume `a` has 5 drives, and RAID10 needs an even number")),
            "{found:#?}"
        );
    }
}
