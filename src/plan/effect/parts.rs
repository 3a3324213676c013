//! The effect in words, part by part: what a person who signs it can read.

use serde_json::Value;

use super::parameters::{display_value, fields};
use super::{NodeEffect, PlanEffect, StepEffect};
use crate::design::NodeName;

/// Digits of the digest of a section that tell it from others.
const DIGITS: usize = 10;

/// The parts of an effect on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredNode<'p> {
    /// The node.
    pub node: &'p NodeName,
    /// Each part, after its name.
    pub parts: Vec<String>,
}

impl<'p> PlanEffect<'p> {
    /// The part about the site, in words.
    #[must_use]
    pub fn of_site(&self) -> String {
        let limits = serde_json::to_value(&self.limits).unwrap_or_default();
        let limits = limits.as_object().into_iter().flatten();
        let limits = limits.filter(|(_, value)| !value.is_null() && **value != Value::Bool(false));
        let limits = limits.map(|(name, value)| format!("{name} {}", display_value(value)));
        let limits: Vec<_> = limits.collect();
        let groups: Vec<_> = self.groups.iter().map(|group| group.as_str()).collect();
        format!(
            "{}; {}; groups {}",
            self.action,
            limits.join(", "),
            groups.join(", ")
        )
    }

    /// The parts of each node that has steps, in the order of their names.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = CoveredNode<'p>> {
        self.nodes.iter().map(NodeEffect::covered)
    }
}

impl<'p> NodeEffect<'p> {
    fn covered(&self) -> CoveredNode<'p> {
        let mut parts = Vec::new();
        if let Some(machine) = self.machine {
            let sections = machine.sections.iter().map(|(section, digest)| {
                let digest = digest.to_string();
                format!("{section} {}", &digest[..DIGITS])
            });
            let sections: Vec<_> = sections.collect();
            if !sections.is_empty() {
                parts.push(format!("design: {}", sections.join(", ")));
            }
            let controller = &machine.controller;
            let mut reached: Vec<String> = Vec::new();
            if !controller.is_empty() {
                let kind = controller.kind.as_deref().unwrap_or("a controller");
                let address = controller.address.iter().map(|to| format!(" at {to}"));
                let account = controller.account.iter().map(|by| format!(" as {by}"));
                let place: String = address.chain(account).collect();
                reached.push(format!("{kind}{place}"));
            }
            if let Some(backend) = &machine.backend {
                reached.push(format!("through {backend}"));
            }
            reached.extend(machine.clusters.map(|digest| {
                let digest = digest.to_string();
                format!("clusters {}", &digest[..DIGITS])
            }));
            let names = machine.names.iter();
            reached.extend(names.map(|(system, name)| format!("called {name} in {system}")));
            let identity = machine.identity.values();
            reached.extend(identity.map(|(kind, value)| format!("{kind} {value}")));
            if !reached.is_empty() {
                parts.push(format!("machine: {}", reached.join(", ")));
            }
        }
        if let Some(serials) = self.serials {
            parts.push(format!("disks: {}", display_serials(serials)));
        }
        parts.extend(self.steps.iter().map(StepEffect::covered));
        CoveredNode {
            node: self.node,
            parts,
        }
    }
}

/// The serials of disks, as they are kept, in a sentence.
pub(super) fn display_serials(serials: &str) -> String {
    let serials: Vec<Value> = serde_json::from_str(serials).unwrap_or_default();
    let serials: Vec<String> = serials.iter().map(display_value).collect();
    match serials.is_empty() {
        true => "none".to_owned(),
        false => serials.join(" "),
    }
}

impl StepEffect<'_> {
    /// Its kind, and its parameters.
    fn covered(&self) -> String {
        let timeout = self.timeout.map(|bound| format!("timeout {bound}"));
        let fields = fields(&self.parameters);
        let fields = fields
            .iter()
            .map(|(name, value)| format!("{name} {}", display_value(value)));
        let all: Vec<_> = timeout.into_iter().chain(fields).collect();
        match all.is_empty() {
            true => self.kind.to_string(),
            false => format!("{} ({})", self.kind, all.join(", ")),
        }
    }
}
