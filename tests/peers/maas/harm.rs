//! How a stand-in fails: requests that go wrong, and rules that it breaks on purpose.

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection is closed before anything is done.
    Closed,
    /// It is done, and the connection is closed.
    Lost,
    /// 503 with `Retry-After`; nothing is done.
    Unavailable,
    /// 409 with `Retry-After` and a page; nothing is done.
    Conflict,
    /// 500; nothing is done.
    Broken,
    /// It is done, and 504 is answered.
    TimedOut,
    /// The process that asks dies before anything is done.
    DiesBefore,
    /// It is done, and the process that asks dies.
    DiesAfter,
    /// This status is answered, with a page; nothing is done.
    Odd(u16),
}

impl Fault {
    pub(super) const ALL: [Self; 8] = [
        Self::Closed,
        Self::Lost,
        Self::Unavailable,
        Self::Conflict,
        Self::Broken,
        Self::TimedOut,
        Self::DiesBefore,
        Self::DiesAfter,
    ];

    pub(super) fn is_done(self) -> bool {
        matches!(self, Self::Lost | Self::TimedOut | Self::DiesAfter)
    }
}

/// One rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A release forgets to erase.
    ErasesNothing,
    /// A machine is commissioned when it is created, whatever is sent.
    CommissionsCreated,
    /// A lock does nothing.
    LocksNothing,
    /// Owner data is not kept.
    ForgetsOwnerData,
    /// Tags are not kept.
    ForgetsTags,
    /// A deployed machine is off; the backend switches it on.
    DeploysOff,
    /// Deploys the default, whatever is sent.
    IgnoresSeries,
    /// A switch does nothing.
    SwitchesNothing,
    /// A deletion does nothing.
    DeletesNothing,
    /// A release is no end: the machine stays where it is.
    ReleasesNothing,
    /// A commissioning fails.
    CommissionFails,
    /// A deployment fails.
    DeployFails,
    /// Nonces are refused.
    RefusesNonces,
    /// A storage layout is not kept.
    ForgetsLayout,
    /// Partitions, bonds and links are not kept.
    ForgetsParts,
    /// A deployment is accepted, and nothing happens.
    DeploysNothing,
    /// An allocation is accepted, and nothing happens.
    AllocatesNothing,
    /// An unlock does nothing.
    UnlocksNothing,
    /// Every machine is reported as on.
    ReportsOn,
    /// A commissioning finds no disks.
    FindsNoDisks,
    /// No machine is listed.
    ListsNothing,
}

impl Wrong {
    /// All that are noticed.
    pub(super) const ALL: [Self; 20] = [
        Self::ErasesNothing,
        Self::CommissionsCreated,
        Self::LocksNothing,
        Self::ForgetsOwnerData,
        Self::ForgetsTags,
        Self::IgnoresSeries,
        Self::SwitchesNothing,
        Self::DeletesNothing,
        Self::ReleasesNothing,
        Self::CommissionFails,
        Self::DeployFails,
        Self::RefusesNonces,
        Self::ForgetsLayout,
        Self::ForgetsParts,
        Self::DeploysNothing,
        Self::AllocatesNothing,
        Self::UnlocksNothing,
        Self::ReportsOn,
        Self::FindsNoDisks,
        Self::ListsNothing,
    ];
}
