//! A rule of the checker, and what it finds.

use std::fmt;

use super::Inputs;
use super::view::View;
use crate::step::StepId;

/// How many findings of one rule are kept: the first ones show what is wrong.
const KEPT: usize = 8;

/// How many steps of one finding are named.
const NAMED: usize = 6;

/// The family of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The shape of a plan.
    Shape,
    /// The order of its steps.
    Order,
    /// Every interleaving of them.
    Interleaving,
    /// Failures.
    Failures,
    /// The guards that it is held to.
    Guards,
    /// The observed state, and the records.
    World,
    /// The machines that are reached, and the revision.
    Reach,
    /// The claims of the plan about itself.
    Claims,
}

impl Family {
    /// Whether a run that has begun is held to it, too: the guards, records and machines of now are others than those that
    /// its plan was made from, and have their own say.
    const fn is_of_a_begun_run(self) -> bool {
        match self {
            Self::Shape | Self::Order | Self::Interleaving | Self::Failures | Self::Claims => true,
            Self::Guards | Self::World | Self::Reach => false,
        }
    }
}

/// The inputs of a rule beside the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sees {
    /// Nothing.
    Plan,
    /// The design and the guards that hold.
    Site,
    /// Records and observed state, too.
    World,
}

impl Rule {
    /// Whether a plan is held to it, with what is there beside the plan.
    pub(super) fn is_held(&self, inputs: &Inputs<'_>) -> bool {
        let sees = match self.sees {
            Sees::Plan => true,
            Sees::Site => inputs.site.is_some(),
            Sees::World => inputs.site.is_some() && inputs.world.is_some(),
        };
        sees && (!inputs.has_begun || self.family.is_of_a_begun_run())
    }
}

/// A rule.
pub struct Rule {
    /// Its code: `check-quorum`.
    pub code: &'static str,
    /// The sentence that it holds.
    pub sentence: &'static str,
    /// Its family.
    pub family: Family,
    /// Its inputs.
    pub sees: Sees,
    pub(super) judge: fn(&View<'_>, &mut Found<'_, '_>),
}

/// Something that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The code of the rule.
    pub code: &'static str,
    /// The steps that it concerns, the first of them.
    pub steps: Vec<StepId>,
    /// The defect, as a sentence.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.what)?;
        for (number, step) in self.steps.iter().enumerate() {
            let before = if number == 0 { " (" } else { ", " };
            write!(f, "{before}`{step}`")?;
        }
        f.write_str(if self.steps.is_empty() { "" } else { ")" })
    }
}

/// The findings of one rule.
pub(super) struct Found<'a, 'v> {
    rule: &'static Rule,
    view: &'a View<'v>,
    findings: &'a mut Vec<Finding>,
    kept: usize,
}

impl<'a, 'v> Found<'a, 'v> {
    pub(super) fn of(
        rule: &'static Rule,
        view: &'a View<'v>,
        findings: &'a mut Vec<Finding>,
    ) -> Self {
        Self {
            rule,
            view,
            findings,
            kept: 0,
        }
    }

    /// Adds a finding about steps, by their positions.
    pub(super) fn add(&mut self, steps: impl IntoIterator<Item = usize>, what: impl Into<String>) {
        if self.kept == KEPT {
            return;
        }
        self.kept += 1;
        let steps = steps.into_iter().take(NAMED);
        let steps = steps.filter_map(|position| self.view.plan.steps.get(position));
        self.findings.push(Finding {
            code: self.rule.code,
            steps: steps.map(|step| step.id.clone()).collect(),
            what: what.into(),
        });
    }

    /// Adds a finding about the steps of a node.
    pub(super) fn about(&mut self, node: &str, what: &str) {
        let steps = self.view.of_node(node).to_vec();
        self.add(steps, format!("`{node}` {what}"));
    }
}
