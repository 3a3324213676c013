//! Which operation the stand-in takes in which status of a machine, as data.
//!
//! What the real region answers is known for two thirds of these rows; a test lays them beside each other if that
//! data is there. The rest follows from the rules of the others.

/// Numbers and names of statuses.
pub(super) const STATUSES: &[(u8, &str)] = &[
    (0, "New"),
    (1, "Commissioning"),
    (2, "Failed commissioning"),
    (3, "Missing"),
    (4, "Ready"),
    (5, "Reserved"),
    (6, "Deployed"),
    (7, "Retired"),
    (8, "Broken"),
    (9, "Deploying"),
    (10, "Allocated"),
    (11, "Failed deployment"),
    (12, "Releasing"),
    (13, "Releasing failed"),
    (14, "Disk erasing"),
    (15, "Failed disk erasing"),
    (16, "Rescue mode"),
    (17, "Entering rescue mode"),
    (18, "Failed to enter rescue mode"),
    (19, "Exiting rescue mode"),
    (20, "Failed to exit rescue mode"),
    (21, "Testing"),
    (22, "Failed testing"),
];

/// To which statuses each may go.
pub(super) const TRANSITIONS: &[(u8, &[u8])] = &[
    (0, &[1, 3, 4, 7, 8, 17, 21]),
    (1, &[0, 2, 3, 4, 7, 8, 21]),
    (2, &[1, 3, 7, 8, 17, 21]),
    (3, &[0, 1, 4, 8, 10, 17, 21]),
    (4, &[1, 3, 5, 7, 8, 10, 17, 21]),
    (5, &[3, 4, 7, 8, 10, 12, 14, 17, 21]),
    (6, &[3, 4, 8, 10, 12, 14, 17, 21]),
    (7, &[0, 3, 4, 8, 17, 21]),
    (8, &[1, 4, 6, 12, 14, 17, 21]),
    (9, &[3, 4, 6, 8, 10, 11, 12, 14]),
    (10, &[3, 4, 7, 8, 9, 12, 14, 17, 21]),
    (11, &[3, 4, 8, 10, 12, 14, 17, 21]),
    (12, &[0, 3, 4, 5, 6, 8, 10, 11, 13, 15]),
    (13, &[4, 8, 12, 14, 21]),
    (14, &[4, 8, 12, 14, 15]),
    (15, &[4, 8, 10, 12, 14, 17, 21]),
    (16, &[8, 19, 21]),
    (17, &[4, 6, 8, 16, 18, 19]),
    (18, &[8, 17, 19, 21]),
    (
        19,
        &[0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 15, 16, 18, 20, 22],
    ),
    (20, &[8, 19, 21]),
    (21, &[0, 1, 3, 4, 5, 6, 7, 8, 10, 11, 13, 15, 18, 20, 22]),
    (22, &[1, 3, 4, 6, 8, 17, 21]),
];

/// Whether a status may go to another.
pub(super) fn may_go(from: u8, to: u8) -> bool {
    TRANSITIONS
        .iter()
        .any(|(status, next)| *status == from && next.contains(&to))
}

/// The name of a status.
pub(super) fn name(status: u8) -> &'static str {
    STATUSES
        .iter()
        .find(|(number, _)| *number == status)
        .unwrap()
        .1
}

/// In which statuses an operation is taken.
#[derive(Clone, Copy)]
pub(super) enum Where {
    In(&'static [u8]),
    Outside(&'static [u8]),
    Everywhere,
    /// Where the machine has an owner.
    Owned,
    /// Where its owner is who asks.
    Own,
    Locked,
}

/// One row: an operation, if it is taken, and what is answered elsewhere.
pub(super) struct Rule {
    pub(super) operation: &'static str,
    pub(super) taken: Where,
    pub(super) refusal: u16,
    /// Whether it works on a locked machine.
    pub(super) despite_lock: bool,
}

const fn rule(operation: &'static str, taken: Where, refusal: u16) -> Rule {
    Rule {
        operation,
        taken,
        refusal,
        despite_lock: false,
    }
}

const fn despite_lock(operation: &'static str, taken: Where, refusal: u16) -> Rule {
    Rule {
        operation,
        taken,
        refusal,
        despite_lock: true,
    }
}

/// What a release takes; ready and releasing are a yes without an effect.
pub(super) const RELEASABLE: &[u8] = &[4, 5, 6, 8, 9, 10, 11, 12, 13, 15];

/// All rows.
pub(super) const RULES: &[Rule] = &[
    rule("commission", Where::In(&[0, 2, 4, 8]), 400),
    rule("test", Where::Outside(&[1, 9, 12, 14, 17, 19, 21]), 400),
    despite_lock("allocate", Where::In(&[4]), 409),
    rule("deploy", Where::In(&[4, 10]), 409),
    rule("release", Where::In(RELEASABLE), 409),
    rule(
        "release_many",
        Where::In(&[4, 5, 6, 8, 9, 10, 11, 13, 15]),
        409,
    ),
    despite_lock("accept", Where::In(&[0, 1, 4]), 409),
    rule("abort", Where::In(&[1, 9, 14, 21]), 409),
    despite_lock("lock", Where::In(&[6, 9]), 409),
    despite_lock("unlock", Where::Locked, 409),
    rule("mark_broken", Where::Own, 403),
    rule("mark_fixed", Where::In(&[8]), 409),
    rule("override_failed_testing", Where::In(&[22]), 409),
    rule(
        "rescue_mode",
        Where::In(&[0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 15, 18, 22]),
        409,
    ),
    rule("exit_rescue_mode", Where::In(&[16, 17, 18, 19, 20]), 409),
    rule("power_on", Where::Owned, 409),
    rule("power_off", Where::Everywhere, 409),
    despite_lock("query_power_state", Where::Everywhere, 409),
    rule("set_storage_layout", Where::In(&[4]), 409),
    rule("mount_special", Where::In(&[4, 10]), 409),
    rule("restore_default_configuration", Where::In(&[4, 22]), 409),
    despite_lock("get_curtin_config", Where::In(&[6, 9, 11]), 400),
    rule("set_owner_data", Where::Owned, 409),
    rule("update", Where::Everywhere, 409),
    despite_lock("read", Where::Everywhere, 409),
    rule("delete", Where::Everywhere, 409),
];

/// Operations that only an administrator may ask for.
pub(super) const OF_ADMINISTRATORS: &[&str] = &[
    "commission",
    "test",
    "rescue_mode",
    "exit_rescue_mode",
    "mark_fixed",
    "override_failed_testing",
    "accept",
    "set_storage_layout",
    "update",
    "delete",
    "power_parameters",
];

/// The row of an operation.
pub(super) fn of(operation: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.operation == operation)
}

impl Where {
    /// Whether an operation is taken.
    pub(super) fn has(self, status: u8, owner: Option<&str>, asks: &str, locked: bool) -> bool {
        match self {
            Self::In(statuses) => statuses.contains(&status),
            Self::Outside(statuses) => !statuses.contains(&status),
            Self::Everywhere => true,
            Self::Owned => owner.is_some(),
            Self::Own => owner == Some(asks),
            Self::Locked => locked,
        }
    }
}
