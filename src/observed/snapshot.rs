//! The snapshot file: what was observed in one place, for a plan that is made in another.
//!
//! JSON with a format version, one machine a line, sorted. Reading is strict and bounded: the file
//! may come from anywhere. A version that is not ours, a field that is not known, a machine that
//! stands there twice and a name that is no name are errors.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, Observations, ObservedNode, lines};
use crate::design::{NodeName, name_problem};

/// The largest file that an operator names for trueup to read, a snapshot or a saved plan, in bytes.
pub const LARGEST: usize = 1 << 30;

/// The first line of a file that [`to_json`] writes.
pub(super) const HEAD: &str = "{\"format_version\":1,\"nodes\":{";

/// Bytes that are read at once, and threads that read them.
const BLOCKS: (usize, usize) = (1 << 19, 2);

/// Why a snapshot file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is larger than any site.
    #[error("the file has {0} bytes, and observations of a site have at most {LARGEST}")]
    TooLarge(usize),
    /// It was written by another version.
    #[error(
        "the file has format version {found}, and this is a trueup for version {FORMAT_VERSION}"
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// It cannot be read.
    #[error("the file could not be read")]
    Read(#[source] std::io::Error),
    /// It is no file of observations.
    #[error("this is no file of observations")]
    Form(#[source] serde_json::Error),
}

/// Reads a snapshot file.
///
/// # Errors
///
/// It is too large, of another version, or not in the form that [`to_json`] writes.
pub fn read(bytes: &[u8]) -> Result<Observations, Error> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u64,
    }
    if bytes.len() > LARGEST {
        return Err(Error::TooLarge(bytes.len()));
    }
    match serde_json::from_slice::<Observations>(bytes) {
        Ok(observations) if observations.format_version == FORMAT_VERSION => Ok(observations),
        Ok(observations) => Err(Error::Version {
            found: observations.format_version.into(),
        }),
        // A file of another version may well have another form: say the version then.
        Err(error) => match serde_json::from_slice::<Versioned>(bytes) {
            Ok(Versioned { format_version }) if format_version != u64::from(FORMAT_VERSION) => {
                Err(Error::Version {
                    found: format_version,
                })
            }
            _ => Err(Error::Form(error)),
        },
    }
}

/// The same without having the whole file in memory, as far as it has the form that [`to_json`] writes.
///
/// # Errors
///
/// Like [`read`]; or it cannot be read at all.
pub fn read_from(source: impl Read + Seek + Send) -> Result<Observations, Error> {
    read_sifted(source, || |_: &NodeName, _: &ObservedNode| true).map(|(seen, _)| seen)
}

/// The same without keeping what was seen of each machine, as far as the file has the form that
/// [`to_json`] writes: what is kept, and the names of the machines, sorted, of which nothing is, nor of
/// their pods.
///
/// `sieve` is asked once for each run of machines that follow each other by name, on the thread that
/// reads them, and then for each of these whether what was seen of it is kept.
///
/// # Errors
///
/// Like [`read_from`].
pub fn read_sifted<K: FnMut(&NodeName, &ObservedNode) -> bool>(
    mut source: impl Read + Seek + Send,
    sieve: impl Fn() -> K + Sync,
) -> Result<(Observations, Vec<NodeName>), Error> {
    let size = source.seek(SeekFrom::End(0)).map_err(Error::Read)?;
    if size > LARGEST as u64 {
        return Err(Error::TooLarge(size as usize));
    }
    if let Some(sifted) = lines::read(&mut source, BLOCKS, sieve).map_err(Error::Read)? {
        return Ok(sifted);
    }
    let mut bytes = Vec::new();
    source.rewind().map_err(Error::Read)?;
    let mut source = source.take(LARGEST as u64 + 1);
    source.read_to_end(&mut bytes).map_err(Error::Read)?;
    read(&bytes).map(|seen| (seen, Vec::new()))
}

/// What is read of a file in blocks, where it can be read so.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_in_blocks<K: FnMut(&NodeName, &ObservedNode) -> bool>(
    bytes: &[u8],
    size: usize,
    sieve: impl Fn() -> K + Sync,
) -> Option<(Observations, Vec<NodeName>)> {
    lines::read(&mut std::io::Cursor::new(bytes), (size, 1), sieve).ok()?
}

/// A snapshot file of this version: one machine a line, sorted by name.
///
/// # Errors
///
/// None that values of these types can have; the writer of JSON has the error in its signature.
pub fn to_json(observations: &Observations) -> Result<String, serde_json::Error> {
    let mut text = HEAD.to_owned();
    let mut separator = "\n";
    for (name, node) in &observations.nodes {
        text.push_str(separator);
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(&serde_json::to_string(node)?);
        separator = ",\n";
    }
    text.push_str("\n}");
    if let Some(cluster) = &observations.cluster {
        text.push_str(",\n\"cluster\":");
        text.push_str(&serde_json::to_string(cluster)?);
    }
    rows(&mut text, "pods", &observations.pods)?;
    rows(&mut text, "remediation", &observations.remediation)?;
    rows(&mut text, "etcd", &observations.etcd)?;
    text.push_str("}\n");
    Ok(text)
}

/// A field with one row a line, where there is any.
fn rows<K: Serialize, V: Serialize>(
    text: &mut String,
    field: &str,
    rows: &BTreeMap<K, V>,
) -> Result<(), serde_json::Error> {
    let mut separator = "\n";
    for (name, row) in rows {
        if separator == "\n" {
            text.push_str(",\n\"");
            text.push_str(field);
            text.push_str("\":{");
        }
        text.push_str(separator);
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(&serde_json::to_string(row)?);
        separator = ",\n";
    }
    if !rows.is_empty() {
        text.push_str("\n}");
    }
    Ok(())
}

/// Machines by name, each once and each with a name that may be one.
pub(super) fn nodes_once<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<NodeName, Box<ObservedNode>>, D::Error> {
    struct Nodes;

    impl<'de> Visitor<'de> for Nodes {
        type Value = BTreeMap<NodeName, Box<ObservedNode>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("machines by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut nodes = BTreeMap::new();
            while let Some(name) = map.next_key::<NodeName>()? {
                if let Some(problem) = name_problem(name.as_str()) {
                    let message = format!("the name of machine {:?} {problem}", name.as_str());
                    return Err(de::Error::custom(message));
                }
                let node = map.next_value()?;
                if nodes.insert(name.clone(), node).is_some() {
                    return Err(de::Error::custom(format!("`{name}` stands there twice")));
                }
            }
            Ok(nodes)
        }
    }

    deserializer.deserialize_map(Nodes)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::sync::Arc;

    use super::*;
    use crate::identity::{Identity, Proof};
    use crate::lifecycle::{PowerState, ProvisionState};
    use crate::observed::{Capability, ClusterNode, Disk, Fact, NodePods};

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
            identity: Some(Box::new(Identity::of(Some("uuid-1"), Some("S-1")))),
            proof: Proof::Unverified(Arc::from("nothing names it")),
        };
        Observations {
            format_version: FORMAT_VERSION,
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
    fn what_was_written_is_read_again_one_machine_a_line() {
        for observations in [
            two_nodes(),
            Observations {
                format_version: FORMAT_VERSION,
                ..Observations::default()
            },
        ] {
            let text = to_json(&observations).unwrap();
            assert_eq!(text.lines().count(), observations.nodes.len() + 2);
            assert_eq!(read_both(&text).unwrap(), observations);
        }
    }

    /// Both ways of reading give the same, or both refuse.
    fn read_both(text: &str) -> Result<Observations, String> {
        let said = |error: Error| format!("{error}: {:?}", error.source().map(ToString::to_string));
        let whole = read(text.as_bytes()).map_err(said);
        let by_lines = read_from(std::io::Cursor::new(text)).map_err(said);
        assert_eq!(whole, by_lines);
        whole
    }

    #[test]
    fn a_file_of_many_blocks_is_read_line_by_line_and_is_the_same() {
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
            observations.pods.insert(name, NodePods::default());
        }
        let text = to_json(&observations).unwrap();
        assert!(text.len() > 3 << 19);
        let mut source = std::io::Cursor::new(&text);
        let all = || |_: &NodeName, _: &ObservedNode| true;
        assert!(
            lines::read(&mut source, (1 << 20, 3), all)
                .unwrap()
                .is_some()
        );
        assert_eq!(read_both(&text).unwrap(), observations);
        // Of every third machine nothing is kept; those at the end of the file are read with the rest.
        let is_third =
            |name: &NodeName| name.as_str().bytes().map(usize::from).sum::<usize>() % 3 == 0;
        let sieve = || move |name: &NodeName, _: &ObservedNode| !is_third(name);
        let (kept, passed) = read_sifted(std::io::Cursor::new(&text), sieve).unwrap();
        assert!(passed.is_sorted() && passed.iter().all(is_third) && passed.len() > 2_000);
        let is_kept = |name: &NodeName| passed.binary_search(name).is_err();
        let mut expected = observations.clone();
        expected.nodes.retain(|name, _| is_kept(name));
        expected.pods.retain(|name, _| is_kept(name));
        assert!(kept == expected);
        let line = |number: usize| text.lines().nth(number).unwrap();
        let (first, late) = (line(1), line(7_000));
        let broken = [
            text.replace(late, &format!("{late}\n{late}")),
            text.replace(late, &format!("{late}\n{first}")),
            text.replace(late, &late[..late.len() - 1]),
            text.replace(late, ","),
            text.replace(late, ""),
            text.replace(late, &late.replace("\":{", "\" : {")),
            text.replace("\n},\n\"pods", ",\n},\n\"pods"),
            text.replace('\n', ""),
            text.replace('\n', "\r\n"),
        ];
        for text in broken {
            let _ = read_both(&text);
        }
    }

    #[test]
    fn a_file_that_is_not_ours_is_refused_with_the_reason() {
        let good = to_json(&two_nodes()).unwrap();
        let table: &[(String, &str)] = &[
            (String::new(), "EOF while parsing a value"),
            ("[]".to_owned(), "invalid length 0"),
            ("[".repeat(100_000), "invalid type: sequence"),
            (good.replace("\"n2\"", "\"n1\""), "`n1` stands there twice"),
            (
                good.replace("\"n2\"", "\"../n2\""),
                "does not begin with a letter",
            ),
            (
                good.replace("protected", "portected"),
                "unknown field `portected`",
            ),
            (
                good.replace("\"active\"", "\"busy\""),
                "unknown variant `busy`",
            ),
            (good[..good.len() - 4].to_owned(), "EOF while parsing"),
            (
                good.replace("\"format_version\":1,", ""),
                "missing field `format_version`",
            ),
            (format!("{good}x"), "trailing characters"),
        ];
        for (text, expected) in table {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(read_both(text).is_err());
            let source = error.source().unwrap().to_string();
            assert!(source.contains(expected), "{source} lacks {expected}");
        }
    }

    #[test]
    fn another_version_is_named_even_where_its_form_differs() {
        let good = to_json(&two_nodes()).unwrap();
        for text in [
            good.replace("\"format_version\":1", "\"format_version\":2"),
            r#"{"format_version":2,"machines":[]}"#.to_owned(),
        ] {
            assert_eq!(
                read(text.as_bytes()).unwrap_err().to_string(),
                "the file has format version 2, and this is a trueup for version 1"
            );
        }
    }
}
