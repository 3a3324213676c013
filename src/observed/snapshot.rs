//! The snapshot file: what was observed in one place, for a plan that is made in another.
//!
//! JSON with a format version, one machine a line, sorted. Reading is strict and bounded: the file
//! may come from anywhere. A version that is not ours, a field that is not known, a machine that
//! stands there twice and a name that is no name are errors.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    ClusterFacts, EtcdSeen, FORMAT_VERSION, Fact, Observations, ObservedNode, RemediationSeen,
};
use crate::design::{ClusterName, NodeName, name_problem};

/// The largest file that an operator names for trueup to read, a snapshot or a saved plan, in bytes.
pub const LARGEST: usize = 1 << 30;

/// The first line of a file that [`to_json`] writes.
const HEAD: &str = "{\"format_version\":1,\"nodes\":{";

/// Threads that read machines.
const THREADS: usize = 2;

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
    /// It is no file of observations.
    #[error("this is no file of observations")]
    Form(#[source] serde_json::Error),
    /// What it says of a machine is none of that.
    #[error("this is no file of observations: machine `{name}` cannot be read")]
    Machine {
        /// Which machine.
        name: NodeName,
        /// Why not.
        #[source]
        error: serde_json::Error,
    },
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
    match serde_json::from_slice::<Unread<'_>>(bytes) {
        Ok(unread) if unread.format_version == FORMAT_VERSION => unread.read(),
        Ok(unread) => Err(Error::Version {
            found: unread.format_version.into(),
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

/// A snapshot file of which the machines and their pods are not read yet: there are many of them, and several
/// threads to read them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unread<'a> {
    format_version: u32,
    #[serde(borrow)]
    nodes: Rows<'a>,
    #[serde(default)]
    cluster: Option<ClusterFacts>,
    #[serde(borrow, default)]
    pods: Rows<'a>,
    #[serde(default)]
    remediation: BTreeMap<NodeName, RemediationSeen>,
    #[serde(default)]
    etcd: BTreeMap<ClusterName, EtcdSeen>,
}

impl Unread<'_> {
    fn read(self) -> Result<Observations, Error> {
        Ok(Observations {
            format_version: self.format_version,
            nodes: self
                .nodes
                .read::<Box<ObservedNode>>(|node, other| share(node, other))?,
            cluster: self.cluster,
            pods: self.pods.read(|_, _| {})?,
            remediation: self.remediation,
            etcd: self.etcd,
        })
    }
}

/// What a file has of each machine.
#[derive(Default)]
struct Rows<'a>(Vec<(NodeName, &'a RawValue)>);

impl Rows<'_> {
    /// The values by machine; `share` lets one have in common with the one before what is the same.
    fn read<T: DeserializeOwned + Clone + Send>(
        self,
        share: impl Fn(&mut T, &T) + Sync,
    ) -> Result<BTreeMap<NodeName, T>, Error> {
        let read = |rows: &[(NodeName, &RawValue)]| {
            let mut values: Vec<(NodeName, T)> = Vec::with_capacity(rows.len());
            let mut last = "";
            for (name, row) in rows {
                let mut value = match values.last() {
                    Some((_, value)) if row.get() == last => value.clone(),
                    _ => serde_json::from_str(row.get()).map_err(|error| Error::Machine {
                        name: name.clone(),
                        error,
                    })?,
                };
                if let Some((_, before)) = values.last() {
                    share(&mut value, before);
                }
                last = row.get();
                values.push((name.clone(), value));
            }
            Ok(values)
        };
        let half = self.0.len().div_ceil(THREADS).max(1);
        let values: Result<Vec<Vec<(NodeName, T)>>, Error> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .0
                .chunks(half)
                .map(|rows| scope.spawn(move || read(rows)))
                .collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(values) => values,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        });
        Ok(values?.into_iter().flatten().collect())
    }
}

/// Lets a machine have in common with another one what is the same.
fn share(node: &mut ObservedNode, other: &ObservedNode) {
    if node.clean_steps == other.clean_steps {
        node.clean_steps = other.clean_steps.clone();
    }
    if let (Fact::Known(Some(node)), Fact::Known(Some(other))) = (&mut node.cluster, &other.cluster)
        && node.kept_labels == other.kept_labels
    {
        node.kept_labels = other.kept_labels.clone();
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Rows<'a> {
    /// Machines by name, each once and each with a name that may be one.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Vec<(NodeName, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("machines by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut rows: Self::Value = Vec::new();
                while let Some((name, row)) = map.next_entry::<NodeName, &RawValue>()? {
                    if let Some(problem) = name_problem(name.as_str()) {
                        let message = format!("the name of machine {:?} {problem}", name.as_str());
                        return Err(de::Error::custom(message));
                    }
                    rows.push((name, row));
                }
                // Those that trueup writes are sorted.
                rows.sort_by(|one, other| one.0.cmp(&other.0));
                let twice = rows.windows(2).find(|pair| pair[0].0 == pair[1].0);
                if let Some(pair) = twice {
                    let message = format!("`{}` stands there twice", pair[0].0);
                    return Err(de::Error::custom(message));
                }
                Ok(rows)
            }
        }

        deserializer.deserialize_map(Names).map(Self)
    }
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
            assert_eq!(read(text.as_bytes()).unwrap(), observations);
        }
    }

    #[test]
    fn a_file_of_many_machines_is_read_whatever_its_form_and_names_the_machine_that_is_none() {
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
        assert!(read(text.as_bytes()).unwrap() == observations);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert!(read(pretty.as_bytes()).unwrap() == observations);
        let late = text.lines().nth(7_000).unwrap();
        let broken = text.replace(late, &late.replace("\"active\"", "\"busy\""));
        let error = read(broken.as_bytes()).unwrap_err().to_string();
        assert!(
            error.ends_with("machine `m06999` cannot be read"),
            "{error}"
        );
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
