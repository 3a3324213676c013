//! Disks, partitions and volume groups.
//!
//! Storage that nodes share is checked once. A node without any `storage` leaves it to its image, and
//! nothing is checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::super::read::{Findings, is_blank, items, text, text_of};
use super::super::{Design, Section};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Map, Node, Value};

const GIGABYTE: u64 = 1_000_000_000;
const LEAST_ROOT: u64 = 20 * GIGABYTE;
const LEAST_BOOT: u64 = GIGABYTE;
const MOST_PERCENT: u64 = 99;

/// A size of a partition or volume as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// So many bytes, and all that is left besides.
    AtLeast(u64),
    /// A share of the disk or volume group.
    Percent(u64),
}

impl Size {
    /// Reads `30g`, `>100g` (at least), `512MiB`, `99%`; without a unit it is bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let least = text.trim().strip_prefix('>');
        let text = least.unwrap_or(text.trim());
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let number: u64 = text[..end].parse().ok()?;
        let unit = text[end..].trim().to_ascii_lowercase();
        let factor = match unit.as_str() {
            "%" => return Some(Self::Percent(number)),
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => GIGABYTE,
            "t" | "tb" => 1_000 * GIGABYTE,
            "ki" | "kib" => 1 << 10,
            "mi" | "mib" => 1 << 20,
            "gi" | "gib" => 1 << 30,
            "ti" | "tib" => 1 << 40,
            _ => return None,
        };
        let bytes = number.checked_mul(factor)?;
        Some(match least {
            Some(_) => Self::AtLeast(bytes),
            None => Self::Bytes(bytes),
        })
    }

    /// Whether it is so many bytes, or at least so many, and they are fewer than these.
    fn is_below(self, least: u64) -> bool {
        matches!(self, Self::Bytes(bytes) | Self::AtLeast(bytes) if bytes < least)
    }
}

pub(super) fn check(design: &Design, findings: &mut Findings) {
    let mut seen = FxHashSet::default();
    for node in design.nodes.values() {
        let section = node.sections.get(&Section::Storage);
        if let Some(storage) = section.and_then(|section| section.get("storage"))
            && let Value::Map(map) = &storage.value
            && seen.insert(Arc::as_ptr(map))
        {
            Checker {
                findings,
                mounted: BTreeMap::new(),
                used: FxHashSet::default(),
                has_root: false,
            }
            .check(storage);
        }
    }
}

struct Checker<'a> {
    findings: &'a mut Findings,
    /// Where each mount point was written.
    mounted: BTreeMap<Arc<str>, Mark>,
    /// Volume groups that have a device.
    used: FxHashSet<Arc<str>>,
    has_root: bool,
}

impl Checker<'_> {
    fn check(mut self, storage: &Node) {
        let devices = storage.get("physical_devices").and_then(Node::as_map);
        let groups = storage.get("volume_groups").and_then(Node::as_map);
        for (name, field) in devices.into_iter().flat_map(Map::iter) {
            self.device(&name.text, field.key_mark, &field.node);
            let partitions = items(&field.node, "partitions").iter();
            for part in partitions.chain([&field.node]) {
                self.membership(part, groups);
            }
        }
        for (name, field) in groups.into_iter().flat_map(Map::iter) {
            if !self.used.contains(&name.text) {
                let message = format!("no disk or partition is in volume group `{}`", name.text);
                self.error("rule-volume-group-unused", field.key_mark, message);
            }
            let volumes = items(&field.node, "logical_volumes");
            self.percent(volumes);
            for volume in volumes {
                self.volume(volume);
            }
        }
        if !self.has_root && devices.is_some_and(|devices| !devices.is_empty()) {
            let message = "no partition or logical volume is the root file system";
            let mark = storage
                .get("physical_devices")
                .map_or(storage.mark, |node| node.mark);
            self.error("rule-root-missing", mark, message);
        }
    }

    fn error(&mut self, code: &'static str, mark: Mark, message: impl Into<String>) {
        self.findings.push(Diagnostic::error(code, mark, message));
    }

    fn device(&mut self, name: &str, mark: Mark, device: &Node) {
        let partitions = items(device, "partitions");
        let group = text(device, "volume_group").filter(|group| !group.is_empty());
        match (&group, partitions) {
            (Some(_), [_, ..]) => {
                let message = format!("disk `{name}` has partitions and is in a volume group");
                self.error("rule-disk-use", mark, message);
            }
            (None, []) => {
                let message = format!("disk `{name}` has neither partitions nor a volume group");
                self.error("rule-disk-use", mark, message);
            }
            _ => {}
        }
        self.used.extend(group);
        self.percent(partitions);
        for partition in partitions {
            let group = partition.get("volume_group").filter(|node| !is_blank(node));
            let system = partition.get("filesystem").filter(|node| !is_blank(node));
            if let (Some(group), Some(_)) = (group, system) {
                let message = "a partition in a volume group has no file system of its own";
                self.error("rule-partition-use", group.mark, message);
            }
            self.used.extend(group.and_then(text_of));
            self.volume(partition);
            self.size_in_bytes(partition);
        }
    }

    /// The volume group that a disk or a partition is in.
    fn membership(&mut self, part: &Node, groups: Option<&Map>) {
        let group = part.get("volume_group").filter(|node| !is_blank(node));
        let Some((node, name)) = group.and_then(|node| Some((node, text_of(node)?))) else {
            return;
        };
        if groups.is_none_or(|groups| !groups.contains_key(&name)) {
            let known = groups.into_iter().flat_map(Map::keys).map(|key| &*key.text);
            let message = format!("there is no volume group `{name}`");
            self.findings.push(
                Diagnostic::error("reference-volume-group", node.mark, message)
                    .did_you_mean(&name, known),
            );
        }
    }

    /// Size and mount point of a partition or logical volume.
    fn volume(&mut self, volume: &Node) {
        let size = volume.get("size").filter(|node| !is_blank(node));
        let mount = volume.at(&["filesystem", "mountpoint"]);
        let mount = mount.and_then(|node| Some((node.mark, text_of(node)?)));
        let is = |name: &str, path: &str| {
            text(volume, "name").as_deref() == Some(name)
                || mount.as_ref().is_some_and(|(_, mount)| &**mount == path)
        };
        let (is_root, is_boot) = (is("root", "/"), is("boot", "/boot"));
        self.has_root |= is_root;
        if let Some((mark, path)) = mount {
            match self.mounted.get(&path) {
                Some(first) => self.findings.push(
                    Diagnostic::error(
                        "rule-mount-point",
                        mark,
                        format!("`{path}` is mounted twice"),
                    )
                    .related(*first, "first here"),
                ),
                None => {
                    self.mounted.insert(path, mark);
                }
            }
        }
        let Some((size, mark)) = size.and_then(|node| Some((text_of(node)?, node.mark))) else {
            return;
        };
        match Size::parse(&size) {
            None => {
                let message = format!("`{size}` is no size");
                self.findings.push(
                    Diagnostic::error("rule-size", mark, message)
                        .hint("write a number with `m`, `g`, `t` or `%`, and `>` before it for at least so much"),
                );
            }
            Some(size) if is_root && size.is_below(LEAST_ROOT) => {
                self.error(
                    "rule-root-size",
                    mark,
                    "the root file system needs at least 20 GB",
                );
            }
            Some(size) if is_boot && size.is_below(LEAST_BOOT) => {
                self.error("rule-boot-size", mark, "`/boot` needs at least 1 GB");
            }
            Some(_) => {}
        }
    }

    /// Drydock compares the sizes of these partitions with the least that they need.
    fn size_in_bytes(&mut self, partition: &Node) {
        let (code, least) = match text(partition, "name").as_deref() {
            Some("root") => ("rule-root-size", ">20g"),
            Some("boot") => ("rule-boot-size", ">1g"),
            _ => return,
        };
        let Some(size) = partition.get("size").filter(|node| !is_blank(node)) else {
            return;
        };
        if let Some(Size::Percent(_)) = text_of(size).and_then(|text| Size::parse(&text)) {
            let message = "the size of this partition is in percent, and must be in bytes";
            let finding = Diagnostic::error(code, size.mark, message);
            self.findings
                .push(finding.hint(format!("for example `{least}`")));
        }
    }

    /// The parts of a whole that are given in percent.
    fn percent(&mut self, parts: &[Node]) {
        let mut sum = 0_u64;
        for part in parts {
            let Some(size) = part.get("size") else {
                continue;
            };
            let Some(Size::Percent(percent)) = text_of(size).and_then(|text| Size::parse(&text))
            else {
                continue;
            };
            sum = sum.saturating_add(percent);
            if sum > MOST_PERCENT {
                let message = format!(
                    "together these are {sum} %, and at most {MOST_PERCENT} % is available"
                );
                self.error("rule-percent", size.mark, message);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_drydock_reads_them() {
        let table = [
            ("30g", Some(Size::Bytes(30 * GIGABYTE))),
            (">100g", Some(Size::AtLeast(100 * GIGABYTE))),
            ("1gb", Some(Size::Bytes(GIGABYTE))),
            ("1GiB", Some(Size::Bytes(1 << 30))),
            ("512m", Some(Size::Bytes(512_000_000))),
            ("99%", Some(Size::Percent(99))),
            ("7", Some(Size::Bytes(7))),
            ("99999999999t", None),
            ("30x", None),
            ("g", None),
            ("", None),
            ("-1g", None),
        ];
        for (text, expected) in table {
            assert_eq!(Size::parse(text), expected, "{text}");
        }
    }
}
