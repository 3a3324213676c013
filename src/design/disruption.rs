//! How far a change of the documents may go with a machine in service before a flag has to allow it, and how many machines
//! one plan may reach.

use std::collections::BTreeMap;

use super::read::{number, text};
use super::{Rung, Section};
use crate::document::{Map, Node};

/// The highest rungs that a site allows without a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionPolicy {
    /// For all that has no rung of its own.
    pub default: Rung,
    /// For differences in these sections.
    pub by_class: BTreeMap<Section, Rung>,
}

impl Default for DisruptionPolicy {
    fn default() -> Self {
        Self {
            default: Rung::Live,
            by_class: BTreeMap::new(),
        }
    }
}

impl DisruptionPolicy {
    /// Reads the field of a Policy. A word that is no rung, which its schema refuses, allows nothing.
    pub(super) fn read(data: &Node) -> Self {
        let rung = |word: Option<&str>| word.and_then(Rung::named).unwrap_or(Rung::Record);
        let of_classes = data.get("by_class").and_then(Node::as_map);
        let by_class = of_classes.into_iter().flat_map(Map::iter);
        let by_class = by_class.filter_map(|(key, field)| {
            Some((Section::named(&key.text)?, rung(field.node.as_str())))
        });
        Self {
            default: match data.get("default") {
                Some(_) => rung(text(data, "default").as_deref()),
                None => Rung::Live,
            },
            by_class: by_class.collect(),
        }
    }

    /// Whether it is that of a site without one.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The highest rung for a difference in a section.
    #[must_use]
    pub fn of_section(&self, section: Section) -> Rung {
        self.by_class.get(&section).copied().unwrap_or(self.default)
    }

    /// The highest rung for a change of `rung` that brings some sections true: the lowest of theirs. If none is known
    /// that the machine is changed for, the lowest of all.
    #[must_use]
    pub fn most(&self, sections: impl IntoIterator<Item = Section>, rung: Rung) -> Rung {
        let on_machine = sections
            .into_iter()
            .filter(|section| section.lowest_rung() > Rung::Record);
        let most = on_machine.map(|section| self.of_section(section)).min();
        let of_all = || {
            self.by_class
                .values()
                .copied()
                .fold(self.default, Rung::min)
        };
        most.unwrap_or_else(|| match rung.is_disruptive() {
            true => of_all(),
            false => self.default,
        })
    }

    /// The policy of what both allow.
    #[must_use]
    pub fn lower(&self, other: &Self) -> Self {
        let sections = self.by_class.keys().chain(other.by_class.keys());
        let lower = |section: &Section| {
            let own = self.of_section(*section);
            (*section, own.min(other.of_section(*section)))
        };
        Self {
            default: self.default.min(other.default),
            by_class: sections.map(lower).collect(),
        }
    }
}

/// The most that one plan of the documents reaches on a rung and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlastRadius {
    /// Machines.
    pub machines: Option<u64>,
    /// Racks that they stand in.
    pub racks: Option<u64>,
    /// Members of etcd clusters that run on them.
    pub etcd_members: Option<u64>,
}

impl BlastRadius {
    /// Reads the field of a Policy. A rung that is none is an error of its document.
    pub(super) fn read_all(data: &Node) -> BTreeMap<Rung, Self> {
        let of_rungs = data.get("blast_radius").and_then(Node::as_map);
        let of_rungs = of_rungs.into_iter().flat_map(Map::iter);
        let of_rungs = of_rungs.filter_map(|(key, field)| {
            let limit = |name| number(&field.node, name);
            let radius = Self {
                machines: limit("machines"),
                racks: limit("racks"),
                etcd_members: limit("etcd_members"),
            };
            Some((Rung::named(&key.text)?, radius))
        });
        of_rungs.collect()
    }

    /// The limits of both.
    #[must_use]
    pub fn lower(self, other: Self) -> Self {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        Self {
            machines: least(self.machines, other.machines),
            racks: least(self.racks, other.racks),
            etcd_members: least(self.etcd_members, other.etcd_members),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::value;

    #[test]
    fn a_change_is_held_to_the_lowest_of_its_sections() {
        use Section as S;
        let policy = DisruptionPolicy::read(&value(
            "{default: restart, by_class: {operating-system: wipe, storage: reinstall, labels: record, network: x}}",
        ));
        let table: [(&[Section], Rung, Rung); 7] = [
            (&[S::OperatingSystem], Rung::Wipe, Rung::Wipe),
            (
                &[S::OperatingSystem, S::Storage],
                Rung::Wipe,
                Rung::Reinstall,
            ),
            (
                &[S::OperatingSystem, S::Hardware],
                Rung::Wipe,
                Rung::Restart,
            ),
            (&[S::Labels], Rung::Live, Rung::Record),
            // What is not on the machine has no say.
            (&[S::OperatingSystem, S::Inventory], Rung::Wipe, Rung::Wipe),
            // A machine that is gone is built again for nothing that is known.
            (&[], Rung::Wipe, Rung::Record),
            (&[], Rung::Live, Rung::Restart),
        ];
        for (sections, rung, most) in table {
            assert_eq!(
                policy.most(sections.iter().copied(), rung),
                most,
                "{sections:?}"
            );
        }
        assert_eq!(policy.of_section(S::Network), Rung::Record, "no rung");
        assert_eq!(DisruptionPolicy::read(&value("{}")).default, Rung::Live);
    }

    #[test]
    fn of_two_revisions_the_lower_holds() {
        let read = |text: &str| DisruptionPolicy::read(&value(text));
        let one = read("{default: wipe, by_class: {storage: reinstall}}");
        let other = read("{default: reinstall, by_class: {storage: wipe, labels: record}}");
        let both = read("{default: reinstall, by_class: {storage: reinstall, labels: record}}");
        assert_eq!((one.lower(&other), other.lower(&one)), (both.clone(), both));
    }
}
