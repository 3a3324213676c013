//! Hosts that are not remediated, and why: their operator would not switch them off, or not on again.

/// The state of a host that decides whether it can be remediated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    /// It carries `baremetalhost.metal3.io/paused`.
    pub paused: bool,
    /// It carries `baremetalhost.metal3.io/detached`, or its status has it.
    pub detached: bool,
    /// Its `spec.online` is false.
    pub offline: bool,
    /// Its `spec.disablePowerOff` is true.
    pub never_off: bool,
    /// Its `spec.consumerRef` is empty.
    pub unused: bool,
    /// Its `spec.consumerRef` names another object than the Machine's own Metal3Machine.
    pub of_another: bool,
    /// The Machine names it in a namespace that is not the Machine's own.
    pub elsewhere: bool,
    /// It is neither provisioned nor externally provisioned: its operator passes our annotation over.
    pub not_provisioned: bool,
    /// It is being deleted.
    pub going: bool,
}

/// Why a host is not remediated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// Another host of the same name could be meant.
    #[error(
        "its Machine names a host in another namespace, and only hosts of the Machine's own namespace are remediated"
    )]
    Elsewhere,
    /// It is being deleted.
    #[error("the host is being deleted")]
    Going,
    /// It is not reconciled.
    #[error(
        "the host is paused (`baremetalhost.metal3.io/paused`): its operator would not switch it off or on; remove that annotation first"
    )]
    Paused,
    /// It is not managed.
    #[error(
        "the host is detached (`baremetalhost.metal3.io/detached`): its operator would not switch it off or on; remove that annotation first"
    )]
    Detached,
    /// It would stay off.
    #[error(
        "the host is meant to be off (`online: false`): its operator would not switch it on again"
    )]
    Offline,
    /// It would be rebooted instead, and never be off.
    #[error(
        "the host must not be switched off (`disablePowerOff: true`): it would never be observed off"
    )]
    NeverOff,
    /// It is not in use.
    #[error("the host has no consumer (`consumerRef`): no Machine uses it")]
    Unused,
    /// It is in use by another Machine.
    #[error("the host is used by another consumer than its Machine")]
    OfAnother,
    /// The annotation would be passed over.
    #[error("the host is not provisioned: a reboot annotation would be passed over")]
    NotProvisioned,
}

/// Why a host is not remediated, the gravest first; `None`: it can be.
#[must_use]
pub fn refusal(host: &HostState) -> Option<Refusal> {
    [
        (host.elsewhere, Refusal::Elsewhere),
        (host.going, Refusal::Going),
        (host.paused, Refusal::Paused),
        (host.detached, Refusal::Detached),
        (host.offline, Refusal::Offline),
        (host.never_off, Refusal::NeverOff),
        (host.unused, Refusal::Unused),
        (host.of_another, Refusal::OfAnother),
        (host.not_provisioned, Refusal::NotProvisioned),
    ]
    .into_iter()
    .find_map(|(is_so, refusal)| is_so.then_some(refusal))
}
