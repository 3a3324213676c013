//! Machines of a snapshot file that are like one that was read before.
//!
//! The machines of a site differ in little: a name, the serial numbers of their disks, the UID of their
//! Kubernetes node, a label or two, and what its board is known by. A [`Pattern`] is the line of one machine, cut where another one may
//! say something else. A line that is like it is compared and not parsed; any other line is parsed. Both
//! give the same, since a pattern is only made of a line that is what its machine is written as.

use std::sync::Arc;

use super::{Fact, ObservedNode};
use crate::identity::Identity;

/// Patterns that are kept, those first that a line was like lately.
const KEPT: usize = 8;
/// Lines that were like none before it is asked whether patterns are worth being made here.
const PATIENCE: usize = 32;
/// Most MAC addresses of a machine in which another one may differ.
const MACS: u8 = 16;
/// Stands where another machine may say something else.
const MARK: char = '\u{f8ff}';

/// A text of a machine in which another one may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The serial number of a disk, by its position.
    Serial(usize),
    /// The UID of the Kubernetes node.
    Uid,
    /// The value of a label of it, by its position.
    Label(usize),
    /// The UUID of its board.
    BoardUuid,
    /// The serial number of its board.
    BoardSerial,
    /// Its id in the provisioner.
    Provisioner,
    /// A MAC address, by its position.
    Mac(u8),
}

impl Slot {
    /// The slots of an identity, in the order in which they are written.
    fn of_identity(identity: &Identity) -> impl Iterator<Item = Self> {
        let single = [
            (Self::BoardUuid, identity.uuid.is_some()),
            (Self::BoardSerial, identity.serial.is_some()),
            (Self::Provisioner, identity.provisioner.is_some()),
        ];
        let single = single
            .into_iter()
            .filter_map(|(slot, has)| has.then_some(slot));
        // A machine with more is parsed, since its line is not as a pattern of so few is written.
        single.chain((0..MACS).take(identity.macs.len()).map(Self::Mac))
    }

    /// What stands in it while a pattern is made; addresses keep their order.
    fn mark(self) -> String {
        match self {
            Self::Mac(position) => format!("{MARK}{}", char::from(b'a' + position)),
            _ => MARK.to_string(),
        }
    }

    /// What stands behind its mark.
    fn behind(self, part: &str) -> String {
        let skipped = usize::from(matches!(self, Self::Mac(_)));
        part.get(skipped..).unwrap_or_default().to_owned()
    }
}

/// A machine that others are like.
struct Pattern {
    node: Box<ObservedNode>,
    /// What stands before the first slot.
    head: String,
    /// The slots in the order in which they are written, each with what stands behind it.
    slots: Vec<(Slot, String)>,
}

/// The text in a slot of a machine, if it has such a one.
fn text_in(node: &ObservedNode, slot: Slot) -> Option<&Arc<str>> {
    match (slot, &node.disks, &node.cluster) {
        (Slot::Serial(position), Fact::Known(disks), _) => {
            disks.get(position).map(|disk| &disk.serial)
        }
        (Slot::Uid, _, Fact::Known(Some(member))) => Some(&member.uid),
        (Slot::Label(position), _, Fact::Known(Some(member))) => {
            member.labels.iter().nth(position).map(|(_, value)| value)
        }
        _ => None,
    }
}

/// Puts texts into slots of a machine. Of MAC addresses, which are a set, none of the machine's own is left.
fn fill<'t>(node: &mut ObservedNode, texts: impl Iterator<Item = (Slot, &'t str)>) {
    if let Some(identity) = &mut node.identity {
        identity.macs.clear();
    }
    for (slot, text) in texts {
        put(node, slot, text);
    }
}

fn put(node: &mut ObservedNode, slot: Slot, text: &str) {
    let text = || Arc::from(text);
    match (slot, &mut node.disks, &mut node.cluster, &mut node.identity) {
        (Slot::Serial(position), Fact::Known(disks), ..) => {
            if let Some(disk) = disks.get_mut(position) {
                disk.serial = text();
            }
        }
        (Slot::Uid, _, Fact::Known(Some(member)), _) => member.uid = text(),
        (Slot::Label(position), _, Fact::Known(Some(member)), _) => {
            member.labels.set_value(position, &text());
        }
        (Slot::BoardUuid, .., Some(identity)) => identity.uuid = Some(text()),
        (Slot::BoardSerial, .., Some(identity)) => identity.serial = Some(text()),
        (Slot::Provisioner, .., Some(identity)) => identity.provisioner = Some(text()),
        (Slot::Mac(_), .., Some(identity)) => {
            identity.macs.insert(text());
        }
        _ => {}
    }
}

impl Pattern {
    /// The pattern of a machine that was read from a text; `None` where the text is not as the machine
    /// is written. `like` is a machine that the pattern is to fit too, as far as it can.
    fn new(
        name: &str,
        text: &str,
        node: &ObservedNode,
        like: Option<&ObservedNode>,
    ) -> Option<Self> {
        if text.contains(MARK) {
            return None;
        }
        let mut slots = Vec::new();
        if let Fact::Known(disks) = &node.disks {
            slots.extend((0..disks.len()).map(Slot::Serial));
        }
        if let Fact::Known(Some(member)) = &node.cluster {
            slots.push(Slot::Uid);
            for (position, (_, value)) in member.labels.iter().enumerate() {
                let slot = Slot::Label(position);
                let differs = like
                    .and_then(|like| text_in(like, slot))
                    .is_some_and(|other| other != value);
                if differs || **value == *name {
                    slots.push(slot);
                }
            }
        }
        if let Some(identity) = &node.identity {
            slots.extend(Slot::of_identity(identity));
        }
        let mut marked = Box::new(node.clone());
        let marks: Vec<String> = slots.iter().map(|slot| slot.mark()).collect();
        let marks = marks.iter().map(String::as_str);
        fill(&mut marked, slots.iter().copied().zip(marks));
        let marked = serde_json::to_string(&marked).ok()?;
        let mut parts = marked.split(MARK);
        let head = parts.next()?.to_owned();
        let slots = slots.into_iter().zip(parts);
        let slots: Vec<(Slot, String)> = slots
            .map(|(slot, part)| (slot, slot.behind(part)))
            .collect();
        let pattern = Self {
            node: Box::new(node.clone()),
            head,
            slots,
        };
        // A pattern that did not fit its own machine would fit no other.
        (pattern.read(text)? == pattern.node).then_some(pattern)
    }

    /// The machine that a text says, where it is like this one.
    fn read(&self, text: &str) -> Option<Box<ObservedNode>> {
        let mut rest = text.strip_prefix(&*self.head)?;
        let mut texts = Vec::with_capacity(self.slots.len());
        for (_, behind) in &self.slots {
            let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
            let (own, others) = rest.split_at(end);
            if own.bytes().any(|byte| byte < b' ') {
                return None;
            }
            texts.push(own);
            rest = others.strip_prefix(&**behind)?;
        }
        if !rest.is_empty() {
            return None;
        }
        let mut node = self.node.clone();
        let slots = self.slots.iter().map(|(slot, _)| *slot);
        fill(&mut node, slots.zip(texts));
        Some(node)
    }
}

/// Reads machines one after the other, and notices where they are alike.
#[derive(Default)]
pub(super) struct Alike {
    patterns: Vec<Pattern>,
    found: usize,
    missed: usize,
}

impl Alike {
    /// The machine of a name that a JSON text says; `None` where it says none.
    pub(super) fn read(&mut self, name: &str, text: &str) -> Option<Box<ObservedNode>> {
        for position in 0..self.patterns.len() {
            if let Some(node) = self.patterns[position].read(text) {
                self.patterns[..=position].rotate_right(1);
                self.found += 1;
                return Some(node);
            }
        }
        let node: Box<ObservedNode> = serde_json::from_str(text).ok()?;
        self.missed += 1;
        if self.missed < PATIENCE || self.missed < self.found {
            let like = self.patterns.first().map(|pattern| &*pattern.node);
            if let Some(pattern) = Pattern::new(name, text, &node, like) {
                self.patterns.truncate(KEPT - 1);
                self.patterns.insert(0, pattern);
            }
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lifecycle::{PowerState, ProvisionState};
    use crate::observed::{ClusterNode, Disk};

    /// A machine with disks of these serial numbers and a node of this UID and these labels.
    fn machine(serials: &[String], uid: &str, labels: &[(String, String)]) -> ObservedNode {
        let disk = |(number, serial): (usize, &String)| Disk {
            name: Arc::from(format!("sd{number}")),
            serial: Arc::from(&**serial),
            size: 480,
            partitioned: true,
        };
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| (Arc::from(&**key), Arc::from(&**value)));
        let macs = serials.iter().map(|serial| &**serial);
        let identity = Identity {
            serial: serials.first().map(|serial| Arc::from(&**serial)),
            provisioner: serials.get(1).map(|serial| Arc::from(&**serial)),
            macs: macs.map(Arc::from).collect(),
            unverified: serials.len() > 1,
            uuid: (!uid.is_empty()).then(|| Arc::from(uid)),
        };
        ObservedNode {
            identity: (!serials.is_empty()).then(|| Box::new(identity)),
            provision: Fact::Known(ProvisionState::Active),
            power: Fact::Known(PowerState::On),
            disks: Fact::Known(serials.iter().enumerate().map(disk).collect()),
            cluster: Fact::Known(Some(ClusterNode {
                uid: Arc::from(uid),
                labels: labels.collect(),
                ..ClusterNode::default()
            })),
            ..ObservedNode::unknown("")
        }
    }

    fn texts() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[ab\"\\\\\u{1}ä\u{f8ff}]{0,2}", 0..3)
    }

    #[test]
    fn of_machines_that_differ_in_names_serials_and_racks_only_the_first_are_parsed() {
        let mut alike = Alike::default();
        for number in 0..100 {
            let name = format!("n{number}");
            let label = |key: &str, value: String| (key.to_owned(), value);
            let labels = [
                label("example.org/role", "worker".to_owned()),
                label("kubernetes.io/hostname", name.clone()),
                label("topology.kubernetes.io/zone", format!("r{}", number / 8)),
            ];
            let node = machine(&[format!("S{number}")], &format!("u{number}"), &labels);
            let text = serde_json::to_string(&node).unwrap();
            assert_eq!(*alike.read(&name, &text).unwrap(), node);
        }
        assert_eq!((alike.missed, alike.found), (2, 98));
    }

    #[test]
    fn of_machines_whose_boards_differ_only_the_first_is_parsed() {
        let mut alike = Alike::default();
        for number in 0..100 {
            let mut node = machine(&["S".to_owned()], "u", &[]);
            let text = |what: &str| Arc::from(format!("{what}-{number:02}"));
            node.identity = Some(Box::new(Identity {
                uuid: Some(text("uuid")),
                serial: Some(text("serial")),
                provisioner: Some(text("id")),
                macs: [text("b"), text("a")].into(),
                unverified: false,
            }));
            let text = serde_json::to_string(&node).unwrap();
            assert_eq!(*alike.read("n", &text).unwrap(), node);
        }
        assert_eq!((alike.missed, alike.found), (1, 99));
    }

    #[test]
    fn where_no_machine_is_like_another_no_more_patterns_are_made() {
        let mut alike = Alike::default();
        for number in 0..1000 {
            let labels = [(format!("key-{number}"), "x".to_owned())];
            let text = serde_json::to_string(&machine(&[], "u", &labels)).unwrap();
            assert!(alike.read("n", &text).is_some());
        }
        let oldest = serde_json::to_string(&machine(
            &[],
            "u",
            &[("key-500".to_owned(), "y".to_owned())],
        ));
        assert!(
            alike
                .patterns
                .iter()
                .all(|pattern| pattern.read(&oldest.as_ref().unwrap()[..]).is_none())
        );
        assert_eq!((alike.patterns.len(), alike.found), (KEPT, 0));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_is_written_whatever_was_read_before(
            machines in proptest::collection::vec((texts(), "[ab\"]{0,2}", texts(), 0..3_usize), 1..12),
            broken in (0..12_usize, any::<prop::sample::Index>(), "[a\"\\\\{},:1]{0,2}"),
        ) {
            let mut alike = Alike::default();
            for (number, (serials, uid, values, shift)) in machines.iter().enumerate() {
                let labels = values.iter().enumerate();
                let labels: Vec<_> = labels
                    .map(|(key, value)| (format!("k{}", key + shift), value.clone()))
                    .collect();
                let node = machine(serials, uid, &labels);
                let mut text = serde_json::to_string(&node).unwrap();
                prop_assert_eq!(alike.read("a", &text), Some(Box::new(node)));
                if number == broken.0 {
                    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                    let at = ends[broken.1.index(ends.len())];
                    let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
                    text.replace_range(at..end, &broken.2);
                    prop_assert_eq!(alike.read("a", &text), serde_json::from_str(&text).ok());
                }
            }
        }
    }
}
