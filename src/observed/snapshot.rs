//! The snapshot file: the observed state of a site, for a plan that is made in another place.
//!
//! JSON Lines: the first line holds the format version, each other line one machine, the pods of one node, one
//! remediation, the cluster or one etcd cluster, or what the machines that name it by its number have in common: most
//! of what there is to tell about a machine is the same for hundreds. The file may come from anywhere, so reading is strict and bounded:
//! another version, an unknown field, a second line for the same thing and an invalid name are errors.
//!
//! A file of a large site has hundreds of megabytes. It is read in blocks of whole lines and never held whole.

use std::borrow::{Borrow, Cow};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read, Take, Write};
use std::sync::Arc;

use memchr::{memchr, memchr_iter, memrchr};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Capabilities, ClusterFacts, EtcdSeen, Fact, Labels, NodePods, Observations, ObservedNode,
    RemediationSeen,
};
use crate::design::{ClusterName, NodeName, name_problem};
use crate::diagnostic::json_problem;
use crate::lifecycle::OfferedStep;

/// The version of the snapshot file.
const FORMAT_VERSION: u32 = 3;

/// The version before, of which every file is one of this version, too: one in which nothing is common.
const ALL_ALONE: u64 = 2;

/// The largest file that an operator names for trueup to read, a snapshot or a saved plan, in bytes.
pub const LARGEST: u64 = 1 << 30;

/// The beginning of a file of version 1, which was one JSON object.
const VERSION_1: &[u8] = b"{\"format_version\":1,";

/// Nodes of a line, so that none is longer than what is read at once.
const ALIKE: usize = 1000;

/// Bytes that are read at once.
const BLOCK: u64 = 1 << 20;

/// Why a snapshot file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is larger than any site.
    #[error("the file has more than {LARGEST} bytes, the limit of a snapshot")]
    TooLarge,
    /// It was written by another version.
    #[error(
        "the snapshot has format version {found}, and this trueup reads version {FORMAT_VERSION}; save it again with `trueup plan --save-observed FILE`"
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// It is not a snapshot file.
    #[error("this is not a snapshot file of trueup: its first line has no format version")]
    Foreign,
    /// A line is invalid.
    #[error("line {line} of the snapshot: {problem}")]
    Line {
        /// Which, from 1 on.
        line: usize,
        /// Why.
        problem: String,
    },
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Serialize, Deserialize)]
struct Header {
    format_version: u64,
}

/// A line behind the first one.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line<'a> {
    Common(Cow<'a, Common>),
    Node {
        name: Cow<'a, NodeName>,
        /// The number of the line of what it has in common with others, from 0 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        common: Option<u32>,
        observed: Cow<'a, Box<ObservedNode>>,
    },
    Pods {
        /// Nodes that are alike, or the name of one.
        #[serde(alias = "node", deserialize_with = "one_or_more")]
        nodes: Vec<NodeName>,
        observed: Cow<'a, Arc<NodePods>>,
    },
    Remediation {
        node: Cow<'a, NodeName>,
        observed: Cow<'a, RemediationSeen>,
    },
    Cluster(Cow<'a, ClusterFacts>),
    Etcd {
        cluster: Cow<'a, ClusterName>,
        observed: Cow<'a, EtcdSeen>,
    },
}

fn one_or_more<'de, D: Deserializer<'de>>(names: D) -> Result<Vec<NodeName>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected the name of a node, or a list of names"
    )]
    enum Names {
        One(NodeName),
        More(Vec<NodeName>),
    }
    Ok(match Names::deserialize(names)? {
        Names::One(name) => vec![name],
        Names::More(names) => names,
    })
}

/// The parts of a machine that many have in common; if its line names them, it has none of its own but labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    #[serde(skip_serializing_if = "Capabilities::is_empty")]
    capabilities: Capabilities,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    clean_steps: Arc<[OfferedStep]>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    kept_labels: Arc<BTreeSet<Arc<str>>>,
}

impl Common {
    /// Takes them from a machine.
    fn take(node: &mut ObservedNode) -> Self {
        let mut common = Self {
            capabilities: std::mem::take(&mut node.capabilities),
            clean_steps: std::mem::take(&mut node.clean_steps),
            ..Self::default()
        };
        if let Fact::Known(Some(node)) = &mut node.cluster {
            common.labels = node.labels.to_common();
            node.labels = node.labels.to_own();
            common.kept_labels = std::mem::take(&mut node.kept_labels);
        }
        common
    }

    /// Gives them to a machine that has none of its own, or returns the problem.
    fn give(&self, node: &mut ObservedNode) -> Result<(), String> {
        let cluster = match &mut node.cluster {
            Fact::Known(Some(cluster)) => Some(cluster),
            _ => None,
        };
        if !node.capabilities.is_empty()
            || !node.clean_steps.is_empty()
            || cluster
                .as_ref()
                .is_some_and(|node| !node.kept_labels.is_empty())
        {
            return Err(
                "it has parts of its own where it has them in common with others".to_owned(),
            );
        }
        node.capabilities = self.capabilities;
        node.clean_steps = self.clean_steps.clone();
        if let Some(node) = cluster {
            let twice =
                |key| format!("it has the label `{key}` of its own and in common with others");
            node.labels.join(&self.labels).map_err(twice)?;
            node.kept_labels = self.kept_labels.clone();
        }
        Ok(())
    }

    /// Where they are in memory, as far as machines share them.
    fn place(&self) -> [usize; 4] {
        [
            usize::from(self.capabilities.bits()),
            self.clean_steps.as_ptr().addr(),
            self.labels.place(),
            Arc::as_ptr(&self.kept_labels).addr(),
        ]
    }
}

/// Numbers what machines have in common.
#[derive(Default)]
struct Numbers {
    /// By where it is in memory, which is kept from being used again.
    places: FxHashMap<[usize; 4], (u32, Common)>,
    /// By its line.
    lines: FxHashMap<Vec<u8>, u32>,
}

impl Numbers {
    /// The number, and the line where it is a new one; no number if there is nothing to tell.
    fn number(&mut self, common: Common) -> io::Result<(Option<u32>, Option<Vec<u8>>)> {
        let place = common.place();
        if let Some((known, _)) = self.places.get(&place) {
            return Ok((Some(*known), None));
        }
        if common == Common::default() {
            return Ok((None, None));
        }
        let line = serde_json::to_vec(&Line::Common(Cow::Borrowed(&common)))?;
        let next = u32::try_from(self.lines.len()).map_err(io::Error::other)?;
        let number = *self.lines.entry(line.clone()).or_insert(next);
        self.places.insert(place, (number, common));
        Ok((Some(number), (number == next).then_some(line)))
    }
}

/// Reads a snapshot file.
///
/// # Errors
///
/// It is too large, of another version, or not in the form that [`write()`] gives it.
pub fn read(file: impl Read) -> Result<Observations, Error> {
    read_at_most(LARGEST, file)
}

fn read_at_most(limit: u64, file: impl Read) -> Result<Observations, Error> {
    let mut blocks = Blocks::open(file.take(limit + 1))?;
    let mut observations = Observations::default();
    let mut commons = Vec::new();
    while let Some(block) = blocks.next()? {
        block.add_to(&mut observations, &mut commons)?;
    }
    Ok(observations)
}

/// The blocks of a file.
struct Blocks<R> {
    file: Take<R>,
    /// The beginning of the next block.
    rest: Vec<u8>,
    /// The number of its first line.
    line: usize,
}

/// Whole lines of a file.
struct Block {
    bytes: Vec<u8>,
    /// The number of the first one.
    line: usize,
}

impl<R: Read> Blocks<R> {
    /// Reads the first line.
    fn open(file: Take<R>) -> Result<Self, Error> {
        let mut blocks = Self {
            file,
            rest: Vec::new(),
            line: 2,
        };
        let mut from = 0;
        let end = loop {
            let read = blocks.fill()?;
            match memchr(b'\n', &blocks.rest[from..]) {
                Some(end) => break from + end + 1,
                None if read == 0 => break blocks.rest.len(),
                None => from = blocks.rest.len(),
            }
        };
        let rest = blocks.rest.split_off(end);
        let first = std::mem::replace(&mut blocks.rest, rest);
        match serde_json::from_slice(&first) {
            Ok(Header { format_version })
                if [ALL_ALONE, FORMAT_VERSION.into()].contains(&format_version) =>
            {
                Ok(blocks)
            }
            Ok(Header { format_version }) => Err(Error::Version {
                found: format_version,
            }),
            Err(_) if first.starts_with(VERSION_1) => Err(Error::Version { found: 1 }),
            Err(_) => Err(Error::Foreign),
        }
    }

    fn next(&mut self) -> Result<Option<Block>, Error> {
        let end = loop {
            let read = self.fill()?;
            match memrchr(b'\n', &self.rest) {
                _ if read == 0 => break self.rest.len(),
                Some(end) => break end + 1,
                None => {}
            }
        };
        let mut rest = Vec::with_capacity(self.rest.len() - end + BLOCK as usize);
        rest.extend_from_slice(&self.rest[end..]);
        let mut bytes = std::mem::replace(&mut self.rest, rest);
        bytes.truncate(end);
        let line = self.line;
        self.line += memchr_iter(b'\n', &bytes).count();
        Ok((!bytes.is_empty()).then_some(Block { bytes, line }))
    }

    /// Reads on; how many bytes.
    fn fill(&mut self) -> Result<usize, Error> {
        let read = (&mut self.file).take(BLOCK).read_to_end(&mut self.rest)?;
        match self.file.limit() {
            0 => Err(Error::TooLarge),
            _ => Ok(read),
        }
    }
}

impl Block {
    fn add_to(
        &self,
        observations: &mut Observations,
        commons: &mut Vec<Common>,
    ) -> Result<(), Error> {
        let lines = serde_json::Deserializer::from_slice(&self.bytes).into_iter();
        for (line, content) in (self.line..).zip(lines) {
            let content = content.map_err(|error| self.invalid(&error))?;
            let added = add(observations, commons, content);
            added.map_err(|problem| Error::Line { line, problem })?;
        }
        Ok(())
    }

    fn invalid(&self, error: &serde_json::Error) -> Error {
        let problem = json_problem(error);
        Error::Line {
            line: self.line + error.line().saturating_sub(1),
            problem: format!("{problem} (column {})", error.column()),
        }
    }
}

/// Adds a line to the others, or returns its problem.
fn add(
    observations: &mut Observations,
    commons: &mut Vec<Common>,
    line: Line<'_>,
) -> Result<(), String> {
    match line {
        Line::Common(common) => {
            commons.push(common.into_owned());
            Ok(())
        }
        Line::Node {
            name,
            common,
            observed,
        } => {
            let mut observed = observed.into_owned();
            if let Fact::Known(disks) = &mut observed.disks {
                disks.shrink_to_fit();
            }
            if let Some(number) = common {
                let common = commons.get(number as usize);
                let common = common.ok_or_else(|| {
                    format!("no line before it is number {number} of what machines have in common")
                })?;
                common.give(&mut observed)?;
            }
            put(&mut observations.nodes, name.into_owned(), observed)
        }
        Line::Pods { nodes, observed } => nodes
            .into_iter()
            .try_for_each(|node| put(&mut observations.pods, node, Arc::clone(&observed))),
        Line::Remediation { node, observed } => {
            let (node, observed) = (node.into_owned(), observed.into_owned());
            put(&mut observations.remediation, node, observed)
        }
        Line::Etcd { cluster, observed } => {
            let (cluster, observed) = (cluster.into_owned(), observed.into_owned());
            put(&mut observations.etcd, cluster, observed)
        }
        Line::Cluster(facts) => match observations.cluster.replace(facts.into_owned()) {
            None => Ok(()),
            Some(_) => Err("a second line for the cluster".to_owned()),
        },
    }
}

fn put<K, V>(map: &mut BTreeMap<K, V>, name: K, value: V) -> Result<(), String>
where
    K: Borrow<str> + Ord + fmt::Display,
{
    let text: &str = name.borrow();
    if let Some(problem) = name_problem(text) {
        return Err(format!("the name {text:?} {problem}"));
    }
    match map.entry(name) {
        Entry::Occupied(entry) => Err(format!("a second line for `{}`", entry.key())),
        Entry::Vacant(entry) => {
            entry.insert(value);
            Ok(())
        }
    }
}

/// Writes a snapshot file of this version.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(observations: &Observations, file: &mut dyn Write) -> io::Result<()> {
    let header = Header {
        format_version: FORMAT_VERSION.into(),
    };
    write_line(file, &header)?;
    let mut numbers = Numbers::default();
    for (name, observed) in &observations.nodes {
        let mut observed = observed.clone();
        let (number, line) = numbers.number(Common::take(&mut observed))?;
        if let Some(line) = line {
            file.write_all(&line)?;
            file.write_all(b"\n")?;
        }
        let node = Line::Node {
            name: Cow::Borrowed(name),
            common: number,
            observed: Cow::Owned(observed),
        };
        write_line(file, &node)?;
    }
    if let Some(cluster) = &observations.cluster {
        write_line(file, &Line::Cluster(Cow::Borrowed(cluster)))?;
    }
    let pods: Vec<_> = observations.pods.iter().collect();
    for alike in pods.chunk_by(|(_, one), (_, next)| one == next) {
        for alike in alike.chunks(ALIKE) {
            let nodes = alike.iter().map(|(node, _)| (*node).clone()).collect();
            let observed = Cow::Borrowed(alike[0].1);
            write_line(file, &Line::Pods { nodes, observed })?;
        }
    }
    for (node, observed) in &observations.remediation {
        let (node, observed) = (Cow::Borrowed(node), Cow::Borrowed(observed));
        write_line(file, &Line::Remediation { node, observed })?;
    }
    for (cluster, observed) in &observations.etcd {
        let (cluster, observed) = (Cow::Borrowed(cluster), Cow::Borrowed(observed));
        write_line(file, &Line::Etcd { cluster, observed })?;
    }
    Ok(())
}

fn write_line(file: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, line)?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::design::Section;
    use crate::identity::{Identity, Proof};
    use crate::lifecycle::{PowerState, ProvisionState};
    use crate::observed::{Capability, ClusterNode, Disk, Fact, PartDrift};

    fn text_of(observations: &Observations) -> String {
        let mut text = Vec::new();
        write(observations, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn error_of(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    fn two_nodes() -> Observations {
        let seen = ObservedNode {
            provision: Fact::Known(ProvisionState::Active),
            power: Fact::Known(PowerState::On),
            retired: Some(Arc::from("old disks")),
            maintenance: None,
            protected: true,
            last_error: None,
            clean_step: None,
            disks: Fact::Known(vec![Disk {
                name: Arc::from("sda"),
                serial: Arc::from("S1"),
                size: 480,
                partitioned: true,
            }]),
            cluster: Fact::Known(Some(ClusterNode {
                uid: Arc::from("u1"),
                ready: true,
                unschedulable: false,
                labels: [(Arc::from("rack"), Arc::from("r1"))].into(),
                ..ClusterNode::default()
            })),
            capabilities: [Capability::Power, Capability::WipeOperatingSystemDisk].into(),
            kept_by_records: false,
            clean_steps: crate::lifecycle::OWN_STEPS.map(Into::into).into(),
            cleans_itself: true,
            deploys_unverified: true,
            boots_from: Some(Arc::from("Cd (Once)")),
            built: Some(Box::new(crate::observed::Built {
                maker: Some(Arc::from("Example")),
                firmware: Some(Arc::from("1.8.2")),
            })),
            unsupported: Arc::from([Arc::from("a kernel")]),
            left_out: Arc::from([Arc::from("bonds")]),
            drift: Arc::from([PartDrift {
                section: Section::Storage,
                field: Arc::from("size of the file system `/var`"),
                observed: Arc::from("10 GiB"),
                designed: Arc::from("20 GiB"),
            }]),
            fixed: Arc::from([crate::observed::FixedValue {
                name: Arc::from("firmware.bios"),
                reason: Arc::from("no image"),
            }]),
            unread_parts: Some(Arc::from("no answer")),
            runbook: Some(Arc::from("CUSTOM_DELL")),
            compared: Arc::from([Section::Storage, Section::Network]),
            unlocked: true,
            way_out: Some(Arc::from("end the rescue")),
            identity: Some(Box::new(Identity::of(Some("uuid-1"), Some("S-1")))),
            proof: Proof::Unverified(Arc::from("nothing names it")),
        };
        Observations {
            nodes: BTreeMap::from([
                (NodeName::from("n1"), Box::new(seen)),
                (
                    NodeName::from("n2"),
                    Box::new(ObservedNode::unknown("no answer")),
                ),
            ]),
            ..Observations::default()
        }
    }

    #[test]
    fn a_snapshot_that_was_written_is_read_again() {
        let mut all = two_nodes();
        all.pods.insert(NodeName::from("n1"), Arc::default());
        all.etcd
            .insert(ClusterName::from("etcd"), EtcdSeen::default());
        for (observations, lines) in [(two_nodes(), 4), (all, 6), (Observations::default(), 1)] {
            let text = text_of(&observations);
            assert_eq!(text.lines().count(), lines);
            assert_eq!(read(text.as_bytes()).unwrap(), observations);
            assert_eq!(read(text.trim_end().as_bytes()).unwrap(), observations);
        }
    }

    /// A snapshot of several blocks.
    fn large() -> Observations {
        let mut observations = two_nodes();
        let seen = observations.nodes["n1"].clone();
        for number in 0..8_000 {
            let mut seen = seen.clone();
            if let Fact::Known(Some(node)) = &mut seen.cluster {
                let name: Arc<str> = Arc::from(format!("m{number}"));
                node.labels
                    .insert(Arc::from("kubernetes.io/hostname"), name.clone());
                node.kept_labels = Arc::new([name].into());
            }
            let name = NodeName::from(format!("m{number:05}"));
            observations.nodes.insert(name.clone(), seen);
            observations.pods.insert(name, Arc::default());
        }
        observations
    }

    #[test]
    fn a_large_snapshot_is_read_in_blocks_and_errors_have_the_line() {
        let observations = large();
        let text = text_of(&observations);
        assert!(text.len() as u64 > 3 * BLOCK);
        assert_eq!(
            text.matches("{\"pods\":").count(),
            8,
            "those of a thousand nodes are told once"
        );
        assert!(read(text.as_bytes()).unwrap() == observations);
        let mut lines: Vec<&str> = text.lines().collect();
        let broken = lines[7_000].replace("\"active\"", "\"busy\"");
        let whole = std::mem::replace(&mut lines[7_000], &broken);
        let error = error_of(&lines.join("\n"));
        let expected = "line 7001 of the snapshot: unknown value `busy`";
        assert!(error.starts_with(expected), "{error}");
        lines[7_000] = whole;
        lines.push(lines[6]);
        let error = error_of(&lines.join("\n"));
        let expected = format!(
            "line {} of the snapshot: a second line for `m00002`",
            lines.len()
        );
        assert_eq!(error, expected);
        // Two are wrong: the first is told.
        lines[16_001] = "{}";
        lines[3] = "[]";
        assert!(error_of(&lines.join("\n")).starts_with("line 4 of the snapshot: "));
    }

    #[test]
    fn a_file_that_is_not_a_snapshot_is_refused_with_the_reason() {
        let good = text_of(&two_nodes());
        let foreign = "this is not a snapshot file of trueup: its first line has no format version";
        let table: &[(String, &str)] = &[
            (String::new(), foreign),
            ("[]".to_owned(), foreign),
            ("[".repeat(100_000), foreign),
            (good.replace("\"format_version\":3", ""), foreign),
            (
                good.replace("\"n2\"", "\"n1\""),
                "line 4 of the snapshot: a second line for `n1`",
            ),
            (
                good.replace("\"n2\"", "\"../n2\""),
                "line 4 of the snapshot: the name \"../n2\" does not begin with a letter or a digit",
            ),
            (
                good.replace("protected", "portected"),
                "line 3 of the snapshot: unknown field `portected`",
            ),
            (
                good.replace("\"active\"", "\"busy\""),
                "line 3 of the snapshot: unknown value `busy`",
            ),
            (
                good[..good.len() - 4].to_owned(),
                "line 4 of the snapshot: it is cut off",
            ),
            (
                format!("{good}x"),
                "line 5 of the snapshot: expected value (column 1)",
            ),
        ];
        for (text, expected) in table {
            let error = error_of(text);
            assert!(error.starts_with(expected), "{error} lacks {expected}");
        }
    }

    #[test]
    fn what_machines_have_in_common_is_written_once() {
        let mut observations = two_nodes();
        for number in 0..3 {
            // Alike, and not in the same place in memory.
            let mut again = two_nodes().nodes["n1"].clone();
            if let Fact::Known(Some(node)) = &mut again.cluster {
                let name = Arc::from(format!("m{number}"));
                node.labels
                    .insert(Arc::from("kubernetes.io/hostname"), name);
            }
            let name = NodeName::from(format!("m{number}"));
            observations.nodes.insert(name, again);
        }
        let text = text_of(&observations);
        assert_eq!(text.matches("{\"common\":").count(), 1, "{text}");
        assert_eq!(text.matches("\"rack\"").count(), 1);
        assert_eq!(read(text.as_bytes()).unwrap(), observations);
    }

    #[test]
    fn a_machine_has_a_part_once() {
        let good = text_of(&two_nodes());
        let own = "\"uid\":\"u1\",\"ready\":true";
        assert!(good.contains(own));
        let with = |more: &str| good.replace(own, &format!("{own},{more}"));
        let both = "line 3 of the snapshot: it has parts of its own where it has them in common with others";
        for (text, expected) in [
            (with("\"kept_labels\":[\"a\"]"), both),
            (
                good.replace(
                    "\"protected\":true",
                    "\"protected\":true,\"capabilities\":[\"power\"]",
                ),
                both,
            ),
            (
                with("\"labels\":{\"rack\":\"r1\"}"),
                "line 3 of the snapshot: it has the label `rack` of its own and in common with others",
            ),
            (
                good.replace("\"common\":0", "\"common\":7"),
                "line 3 of the snapshot: no line before it is number 7 of what machines have in common",
            ),
        ] {
            assert_eq!(error_of(&text), expected);
        }
    }

    #[test]
    fn a_snapshot_of_the_version_before_is_read() {
        let observations = two_nodes();
        let mut text = "{\"format_version\":2}\n".to_owned();
        for (name, observed) in &observations.nodes {
            let node = serde_json::json!({"node": {"name": name, "observed": observed}});
            text += &node.to_string();
            text.push('\n');
        }
        let mut observations = observations;
        for name in ["n1", "n2"] {
            let pods = "\"evicted\":2,\"blocked\":[],\"runs_etcd\":false";
            let line = format!("{{\"pods\":{{\"node\":\"{name}\",\"observed\":{{{pods}}}}}}}\n");
            text.push_str(&line);
            let pods = NodePods {
                evicted: 2,
                ..NodePods::default()
            };
            observations.pods.insert(NodeName::from(name), pods.into());
        }
        assert!(!text.contains("common") && text.contains("\"rack\""));
        assert_eq!(read(text.as_bytes()).unwrap(), observations);
    }

    #[test]
    fn another_version_is_named_even_where_its_form_differs() {
        let good = text_of(&two_nodes());
        for (text, version) in [
            (
                good.replacen("\"format_version\":3", "\"format_version\":4", 1),
                4,
            ),
            (
                "{\"format_version\":1,\"nodes\":{\n\"n1\":{}\n}}\n".to_owned(),
                1,
            ),
        ] {
            assert_eq!(
                error_of(&text),
                format!(
                    "the snapshot has format version {version}, and this trueup reads version 3; \
                     save it again with `trueup plan --save-observed FILE`"
                )
            );
        }
    }

    #[test]
    fn a_file_without_end_is_refused_at_the_limit() {
        let text = text_of(&two_nodes());
        let endless = || text.as_bytes().chain(io::repeat(b'\n'));
        for limit in [10, 3 * BLOCK] {
            assert!(matches!(
                read_at_most(limit, endless()),
                Err(Error::TooLarge)
            ));
        }
        let whole = text.len() as u64;
        assert!(read_at_most(whole, text.as_bytes()).is_ok());
        assert!(read_at_most(whole - 1, text.as_bytes()).is_err());
    }
}
