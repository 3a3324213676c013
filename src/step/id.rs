//! The id of a step: readable, stable, and read back into its parts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use super::StepKind;
use crate::design::{GroupName, NodeName};

/// The readable, stable name of a step, such as `deploy/compute-1/n04`.
///
/// The kind, then the group if there is one, then the node or wave.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// The kind.
    pub kind: StepKind,
    /// The group in which it runs.
    pub group: Option<GroupName>,
    /// The node it is about.
    pub node: Option<NodeName>,
    /// The wave, for [`StepKind::StartWave`] and [`StepKind::Soak`], and for [`StepKind::GatePrepared`] if a group has
    /// more than one.
    pub wave: Option<u32>,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if let Some(group) = &self.group {
            write!(f, "/{group}")?;
        }
        if let Some(node) = &self.node {
            write!(f, "/{node}")?;
        }
        if let Some(wave) = self.wave {
            write!(f, "/{wave}")?;
        }
        Ok(())
    }
}

impl Serialize for StepId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| serde::de::Error::custom(format_args!("`{text}` {error}")))
    }
}

/// A text that is no id of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no id of a step")]
pub struct NoStepId;

impl FromStr for StepId {
    type Err = NoStepId;

    fn from_str(text: &str) -> Result<Self, NoStepId> {
        let mut parts = text.split('/');
        let kind = parts.next().and_then(StepKind::named).ok_or(NoStepId)?;
        let (first, second) = (parts.next(), parts.next());
        let wave = |text: &str| text.parse().map_err(|_| NoStepId);
        let mut id = Self {
            kind,
            group: None,
            node: None,
            wave: None,
        };
        match (kind, first, second) {
            (_, None, _) => {}
            (StepKind::StartWave | StepKind::Soak, Some(only), None) => id.wave = Some(wave(only)?),
            (
                StepKind::StartWave | StepKind::Soak | StepKind::GatePrepared,
                Some(group),
                Some(number),
            ) => {
                id.group = Some(GroupName::from(group));
                id.wave = Some(wave(number)?);
            }
            (_, Some(group), None) if kind.is_barrier() => id.group = Some(GroupName::from(group)),
            (_, Some(_), Some(_)) if kind.is_barrier() => return Err(NoStepId),
            (_, Some(node), None) => id.node = Some(NodeName::from(node)),
            (_, Some(group), Some(node)) => {
                id.group = Some(GroupName::from(group));
                id.node = Some(NodeName::from(node));
            }
        }
        // The one way in which it is written: no part is empty, no number has other digits.
        let is_written_so = !text.contains("//") && !text.ends_with('/') && id.to_string() == text;
        is_written_so.then_some(id).ok_or(NoStepId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_an_id_is_read_back_into_its_parts() {
        let group = || Some(GroupName::from("workers"));
        let node = || Some(NodeName::from("n1"));
        for kind in StepKind::ALL {
            let mut shapes = vec![(None, None, None)];
            match kind {
                StepKind::StartWave | StepKind::Soak => {
                    shapes.extend([(None, None, Some(1)), (group(), None, Some(12))])
                }
                StepKind::GatePrepared => {
                    shapes.extend([(group(), None, None), (group(), None, Some(2))])
                }
                kind if kind.is_barrier() => shapes.push((group(), None, None)),
                _ => shapes.extend([(None, node(), None), (group(), node(), None)]),
            }
            for (group, node, wave) in shapes {
                let id = StepId {
                    kind,
                    group,
                    node,
                    wave,
                };
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }

    #[test]
    fn what_is_not_written_as_an_id_is_none() {
        for text in [
            "",
            "/",
            "deploy/",
            "deploy//n1",
            "deploy/workers/n1/1",
            "Deploy/n1",
            "wave/one",
            "wave/workers/+1",
            "wave/workers/01",
            "wave/workers/4294967296",
            "gate-prepared/workers/n1",
            "start/workers/n1",
        ] {
            assert_eq!(text.parse::<StepId>(), Err(NoStepId), "{text}");
        }
    }
}
