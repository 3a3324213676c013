//! The capabilities of a backend for a machine.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A capability of a backend for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Switch it on and off.
    Power,
    /// Prepare it (identify, inspect).
    Prepare,
    /// Deploy a system on it.
    Deploy,
    /// Erase all its disks.
    Wipe,
    /// Erase the disk of the operating system only.
    WipeOperatingSystemDisk,
    /// Run clean steps.
    Clean,
    /// Run steps of the design's own in a deploy.
    DeploySteps,
    /// Hold the retired flag.
    Retire,
    /// Set Kubernetes labels.
    Relabel,
    /// Change its firmware and settings.
    Service,
    /// Change settings of its controller, and firmware that is applied at once, while it runs.
    ServiceLive,
    /// Change the password of its controller.
    RotatePassword,
    /// Make its RAID volumes in a deploy.
    Raid,
}

impl Capability {
    const ALL: [Self; 13] = [
        Self::Power,
        Self::Prepare,
        Self::Deploy,
        Self::Wipe,
        Self::WipeOperatingSystemDisk,
        Self::Clean,
        Self::DeploySteps,
        Self::Retire,
        Self::Relabel,
        Self::Service,
        Self::ServiceLive,
        Self::RotatePassword,
        Self::Raid,
    ];

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The capabilities of a backend for a machine, as bits: a hundred thousand machines have some. In JSON a list.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// Whether one is among them.
    #[must_use]
    pub fn contains(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// Adds one.
    pub fn insert(&mut self, capability: Capability) {
        self.0 |= capability.bit();
    }

    /// Takes one away.
    pub fn remove(&mut self, capability: Capability) {
        self.0 &= !capability.bit();
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// The bits.
    pub(super) fn bits(self) -> u16 {
        self.0
    }

    fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL
            .into_iter()
            .filter(move |each| self.contains(*each))
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        let bits = capabilities.into_iter().map(Capability::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

impl<const N: usize> From<[Capability; N]> for Capabilities {
    fn from(capabilities: [Capability; N]) -> Self {
        capabilities.into_iter().collect()
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Capabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = Vec::<Capability>::deserialize(deserializer)?;
        Ok(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_a_set_of_their_names() {
        for (number, capability) in Capability::ALL.into_iter().enumerate() {
            assert_eq!(capability as usize, number);
            let mut all: Capabilities = Capability::ALL.into();
            all.remove(capability);
            assert!(!all.contains(capability) && all.iter().count() + 1 == Capability::ALL.len());
            let one = Capabilities::from([capability]);
            let json = serde_json::to_string(&one).unwrap();
            assert_eq!(
                json,
                format!("[{}]", serde_json::to_string(&capability).unwrap())
            );
            assert_eq!(serde_json::from_str::<Capabilities>(&json).unwrap(), one);
            all.insert(capability);
            assert_eq!(all, Capability::ALL.into());
        }
        assert!(Capabilities::default().is_empty());
    }
}
