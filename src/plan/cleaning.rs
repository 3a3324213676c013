//! The clean steps that a machine runs on its way to available, their order, and their source
//! (ironic-cleaning).
//!
//! A machine is cleaned when it is torn down, and when it goes from manageable to available; never on a
//! rebuild. It is erased once: what a teardown has cleaned is available, and is not cleaned again.

use std::sync::Arc;

use super::item::Item;
use super::rules::Rules;
use super::subject::{Observation, Subject};
use crate::design::WipePolicy;
use crate::lifecycle::{OfferedStep, ProvisionState, in_order};
use crate::observed::{Capability, ObservedNode};
use crate::record::Phase;
use crate::step::{CleanParameters, CleanStep, Cleaning, Parameters, ProvideParameters, StepKind};

/// The step that erases the disks of a machine, which a teardown runs whatever a policy allows.
const ERASE: &str = "deploy.erase_devices";

/// On which way a machine is cleaned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is torn down.
    Teardown,
    /// It goes from manageable to available.
    ToAvailable,
    /// Its automated steps were requested.
    Asked,
}

impl<'a> Rules<'a> {
    /// Adds the cleaning of the machine to its work, and blocks steps without an order.
    pub(super) fn clean(&self, mut item: Item<'a>) -> Item<'a> {
        let subject = item.subject;
        let Observation::Known(node, state) = subject.seen else {
            return item;
        };
        let Some(way) = way(&item, state) else {
            return item;
        };
        // What a teardown has kept is not erased on the way to available either.
        if item.keeps_disks && way == Way::ToAvailable {
            return item;
        }
        let named = item.work.single.as_ref();
        let named = named.and_then(|single| single.parameters.as_ref());
        let named = named.map_or(&[][..], |parameters| parameters.given().clean_steps());
        let cleaning = if named.is_empty() {
            self.automated(subject, node, way, item.unwiped)
        } else {
            as_asked(node, named)
        };
        if way == Way::Teardown && node.cleans_itself && is_clean(subject, state) {
            item.because("carries nothing since it was last cleaned: nothing is erased");
            item.change.disks.clear();
            return item;
        }
        let cleaning = match cleaning {
            Ok(Some(cleaning)) => cleaning,
            Ok(None) => return item,
            Err(why) => {
                item.block(&why, None);
                return item;
            }
        };
        // Nothing is taken down for a check that must fail, and what was wrong once and is corrected fails none.
        let design = subject.after.or(subject.before);
        let fails = cleaning.to_run().iter().find_map(|step| {
            let name = step.name();
            Some((node.built.as_ref()?.fails(&name, design?)?, name))
        });
        if let Some((why, step)) = fails {
            item.block(&format!("its clean step {step} would fail: {why}"), None);
        }
        if cleaning.erases() && way != Way::Teardown {
            let inventory = node.disks.known();
            let holds_data =
                inventory.is_none_or(|disks| disks.iter().any(|disk| disk.partitioned));
            item.change.destructive |= holds_data;
            for disk in subject.all_disks() {
                if !item.change.disks.contains(&disk) {
                    item.change.disks.push(disk);
                }
            }
        }
        if let Some(single) = &mut item.work.single {
            let clean_steps = cleaning.to_run().to_vec();
            let disks = match clean_steps.iter().any(|step| step.erases) {
                true => item.change.disks.clone(),
                false => Vec::new(),
            };
            single.parameters = match single.kind {
                StepKind::Provide => Some(Parameters::Provide(ProvideParameters {
                    disks,
                    clean_steps,
                })),
                StepKind::Clean => Some(Parameters::Clean(CleanParameters { disks, clean_steps })),
                _ => single.parameters.take(),
            };
        }
        let cleaning = Arc::new(cleaning);
        item.change.cleaning = Some(cleaning.clone());
        item.work.cleaning = Some(cleaning);
        item
    }

    /// The automated steps, by the policy of the machine.
    fn automated(
        &self,
        subject: Subject<'a>,
        node: &ObservedNode,
        way: Way,
        unwiped: bool,
    ) -> Result<Option<Cleaning>, String> {
        let design = subject.after.or(subject.before);
        let policy = design.and_then(|design| self.guards.cleaning_of(design));
        let by = |words: &str| match policy {
            Some(policy) => format!("{words} (policy `{}`)", policy.name),
            None => words.to_owned(),
        };
        let is_off = policy.is_some_and(|policy| !policy.automated) && way != Way::Asked;
        let preserves = self.leaving.preserve_local_storage && way == Way::Teardown;
        if node.cleans_itself && way == Way::Teardown && is_never_provided(subject) && !preserves {
            return self.of_a_retired(node);
        }
        if node.cleans_itself {
            return Ok(Some(foreign(node, is_off, preserves, &by)));
        }
        if node.clean_steps.is_empty() {
            return Ok(None);
        }
        let none = std::collections::BTreeMap::new();
        let priorities = policy.map_or(&none, |policy| &policy.priorities);
        let mut steps = Vec::new();
        if !is_off {
            let ordered = in_order(&node.clean_steps, priorities).map_err(|tie| tie.to_string())?;
            steps.extend(ordered.iter().map(CleanStep::from));
        }
        let mut because = match is_off {
            true => by("automated cleaning is off"),
            false => by("automated cleaning"),
        };
        // Checks go first: what turns out to be another machine is not erased.
        if way == Way::Teardown && !unwiped && !steps.iter().any(|step| step.name() == ERASE) {
            let erase = node.clean_steps.iter().find(|step| step.name() == ERASE);
            let erase = erase.map(|step| CleanStep {
                priority: None,
                ..CleanStep::from(step)
            });
            if erase.is_some() {
                because.push_str("; a teardown erases all the same");
            }
            steps.extend(erase);
        }
        Ok(Some(Cleaning {
            because: Arc::from(because),
            foreign: false,
            steps,
        }))
    }
}

impl Rules<'_> {
    /// How a retired machine is erased that carries no system and is never provided, which would clean it:
    /// by steps that its provisioner is known to have.
    fn of_a_retired(&self, node: &ObservedNode) -> Result<Option<Cleaning>, String> {
        let erasing = node.clean_steps.iter().filter(|step| step.erases);
        let steps: Vec<CleanStep> = erasing.map(CleanStep::from).collect();
        if steps.is_empty() && self.guards.policy.wipe == WipePolicy::Require {
            return Err(
                "it is retired and manageable, so that nothing cleans it on its way to available, and what \
                 moves it has never shown a step that erases its disks; run one that it has by \
                 `clean NODE --step`, or keep its disks by `--preserve-local-storage`"
                    .to_owned(),
            );
        }
        let because = match steps.is_empty() {
            true => {
                "it is retired, its provisioner shows no step that erases, and the policy says `wipe: skip`"
            }
            false => {
                "it is retired: erased by the provisioner's own clean steps, not made available"
            }
        };
        Ok(Some(Cleaning {
            because: Arc::from(because),
            foreign: false,
            steps,
        }))
    }
}

/// Whether a retired machine waits where nothing but a cleaning that is asked for reaches it.
fn is_never_provided(subject: Subject<'_>) -> bool {
    let waits = matches!(
        subject.seen,
        Observation::Known(
            _,
            ProvisionState::Manageable | ProvisionState::InspectFailed
        )
    );
    waits && subject.is_flagged()
}

/// Whether what cleans a machine by itself has cleaned it since something was deployed on it.
fn is_clean(subject: Subject<'_>, state: ProvisionState) -> bool {
    let was_torn_down = || {
        let phase = subject.record.map(|record| record.phase);
        is_never_provided(subject) && phase == Some(Phase::NotStarted)
    };
    state == ProvisionState::Available || was_torn_down()
}

/// On which way a machine is cleaned, if on any.
fn way(item: &Item<'_>, state: ProvisionState) -> Option<Way> {
    let work = &item.work;
    let from_manageable = matches!(
        state,
        ProvisionState::Manageable | ProvisionState::Enroll | ProvisionState::InspectFailed
    );
    match work.single.as_ref().map(|single| single.kind) {
        Some(StepKind::Clean) => Some(Way::Asked),
        // Out of clean failed it skips what is left, on purpose.
        Some(StepKind::Provide) if state == ProvisionState::Manageable => Some(Way::ToAvailable),
        Some(_) => None,
        None if work.destroy => Some(Way::Teardown),
        None if work.prepare && from_manageable => Some(Way::ToAvailable),
        None => None,
    }
}

/// The steps of a provisioner that chooses them itself.
fn foreign(
    node: &ObservedNode,
    is_off: bool,
    preserves: bool,
    by: &dyn Fn(&str) -> String,
) -> Cleaning {
    let runs = |steps: Vec<CleanStep>, because: String| Cleaning {
        because: Arc::from(because),
        foreign: true,
        steps,
    };
    if preserves {
        let why = "automated cleaning is off until it is deployed (--preserve-local-storage)";
        return runs(Vec::new(), why.to_owned());
    }
    if is_off {
        return runs(Vec::new(), by("automated cleaning is off"));
    }
    if !node.capabilities.contains(Capability::Wipe) {
        let why = "automated cleaning is off in its provisioner";
        return runs(Vec::new(), why.to_owned());
    }
    let steps: Vec<CleanStep> = node.clean_steps.iter().map(CleanStep::from).collect();
    let why = match steps.is_empty() {
        true => "by steps of its provisioner's own, which it names only while it cleans",
        false => "by its provisioner's own steps, in its order when it last cleaned this machine",
    };
    runs(steps, why.to_owned())
}

/// The steps that were named, which the machine must offer if it lists its steps.
fn as_asked(node: &ObservedNode, named: &[CleanStep]) -> Result<Option<Cleaning>, String> {
    let mut steps = named.to_vec();
    for step in &mut steps {
        let name = step.name();
        match node
            .clean_steps
            .iter()
            .find(|offered| offered.name() == name)
        {
            Some(offered) => step.erases = offered.erases,
            None if node.clean_steps.is_empty() || node.cleans_itself => {}
            None => {
                let offered: Vec<String> = node.clean_steps.iter().map(OfferedStep::name).collect();
                return Err(format!(
                    "it has no clean step `{name}`; it has {}",
                    offered.join(", ")
                ));
            }
        }
    }
    Ok(Some(Cleaning {
        because: Arc::from("as asked"),
        foreign: false,
        steps,
    }))
}
