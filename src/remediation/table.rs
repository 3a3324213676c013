//! The truth table of metal3-remediation ("Design Details"), as data.
//!
//! The specification lists fifteen rows; the one that it leaves out, all four false, is "nothing". The
//! annotation that asks for remediation is the Machine's: in one place the specification's prose says the
//! host's, and the table works with the Machine's only.

use std::fmt;

/// The input of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facts {
    /// The machine has a Node in the cluster.
    pub node_ref: bool,
    /// The Machine carries `host.metal3.io/external-remediation`.
    pub needs_remediation: bool,
    /// The host is on, or was not observed off.
    pub powered_on: bool,
    /// The host carries our reboot annotation: it is fenced.
    pub reboot_annotation: bool,
}

/// The output of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableAction {
    /// Hold the host off.
    AddRebootAnnotation,
    /// Tell the scheduler that nothing runs there any more.
    DeleteNode,
    /// The machine is safe: it needs no remediation any more.
    RemoveNeedsRemediation,
    /// Let the host be switched on.
    RemoveRebootAnnotation,
    /// Nothing now.
    Nothing,
}

impl TableAction {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::AddRebootAnnotation,
        Self::DeleteNode,
        Self::RemoveNeedsRemediation,
        Self::RemoveRebootAnnotation,
        Self::Nothing,
    ];

    /// The specification's words for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AddRebootAnnotation => "Add reboot annotation",
            Self::DeleteNode => "Delete node",
            Self::RemoveNeedsRemediation => "Remove needs-remediation annotation",
            Self::RemoveRebootAnnotation => "Remove reboot annotation",
            Self::Nothing => "nothing",
        }
    }
}

impl Facts {
    /// The facts as a phrase, for messages.
    #[must_use]
    pub fn phrase(self) -> String {
        let node = if self.node_ref {
            "has a node"
        } else {
            "has no node"
        };
        let needs = if self.needs_remediation {
            "needs"
        } else {
            "needs no"
        };
        let power = if self.powered_on { "on" } else { "off" };
        let annotation = if self.reboot_annotation { "the" } else { "no" };
        format!(
            "it {node}, {needs} remediation, is {power}, and has {annotation} reboot annotation"
        )
    }
}

impl fmt::Display for TableAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Facts {
    /// The facts with this number, their digits read as binary: `0b1110` is a node that needs remediation on
    /// a host that is on and not held. Only the last four digits count.
    #[must_use]
    pub const fn of_number(number: u8) -> Self {
        Self {
            node_ref: number & 0b1000 != 0,
            needs_remediation: number & 0b0100 != 0,
            powered_on: number & 0b0010 != 0,
            reboot_annotation: number & 0b0001 != 0,
        }
    }

    /// The number of these facts, from 0 to 15.
    #[must_use]
    pub const fn number(self) -> u8 {
        (self.node_ref as u8) << 3
            | (self.needs_remediation as u8) << 2
            | (self.powered_on as u8) << 1
            | self.reboot_annotation as u8
    }
}

/// As the specification writes a row: node, needs remediation, powered on, reboot annotation.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04b}", self.number())
    }
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The facts.
    pub facts: Facts,
    /// The action.
    pub action: TableAction,
}

const fn row(number: u8, action: TableAction) -> Row {
    Row {
        facts: Facts::of_number(number),
        action,
    }
}

/// The table, each row at its own number.
pub const TABLE: [Row; 16] = [
    row(0b0000, TableAction::Nothing),
    row(0b0001, TableAction::RemoveRebootAnnotation),
    row(0b0010, TableAction::Nothing),
    row(0b0011, TableAction::Nothing),
    row(0b0100, TableAction::Nothing),
    row(0b0101, TableAction::RemoveNeedsRemediation),
    row(0b0110, TableAction::AddRebootAnnotation),
    row(0b0111, TableAction::Nothing),
    row(0b1000, TableAction::Nothing),
    row(0b1001, TableAction::RemoveRebootAnnotation),
    row(0b1010, TableAction::Nothing),
    row(0b1011, TableAction::Nothing),
    row(0b1100, TableAction::Nothing),
    row(0b1101, TableAction::DeleteNode),
    row(0b1110, TableAction::AddRebootAnnotation),
    row(0b1111, TableAction::Nothing),
];

/// Returns the action of the table.
#[must_use]
pub const fn action(facts: Facts) -> TableAction {
    TABLE[facts.number() as usize].action
}
