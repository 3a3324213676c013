//! Reach and revision: what steps do is what the design says, of the right revision, by the right backend.

use std::sync::Arc;

use super::rule::Found;
use super::view::View;
use crate::design::{HardwareSetting, NodeDesign, Section};
use crate::document::Node;
use crate::observed::ObservedNode;
use crate::plan::{Action, ChangeKind};
use crate::step::{Given, SOAK_SLACK, StepKind};

/// A change is one of a node that is in the design, or has left it: only what has left is torn down for good by an update.
pub(super) fn change(view: &View<'_>, found: &mut Found<'_, '_>) {
    use Action as A;
    let action = view.plan.request.action;
    if !matches!(action, A::Update | A::Redeploy | A::Relabel) || view.site.is_none() {
        return;
    }
    for (change, steps) in view.worked_on() {
        let is_designed = view.designed(change.node.as_str()).is_some();
        let is_of_design = change.kind != ChangeKind::Destroy;
        if is_designed != is_of_design {
            let (name, is) = (&change.node, if is_designed { "" } else { "not " });
            let what = format!("`{name}` is {is}in the design, and its change says otherwise");
            found.add(steps.iter().copied(), what);
        }
    }
}

/// How long a step may take and how long pods are given is what flags and configuration say.
pub(super) fn times(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    let (own, flags) = (&guards.configuration, &view.plan.options.leaving);
    for (position, step) in view.steps() {
        let timeout = match step.id.kind {
            StepKind::VerifySite => own.verify_timeout,
            StepKind::PrepareSite => own.prepare_site_timeout,
            StepKind::Prepare => own.prepare_node_timeout,
            StepKind::Deploy | StepKind::Service | StepKind::ServiceLive => own.deploy_timeout,
            StepKind::Destroy => own.destroy_timeout,
            StepKind::Relabel => own.relabel_nodes_timeout,
            StepKind::Drain => flags.drain_timeout.unwrap_or(own.drain_timeout),
            StepKind::ClearLabels => flags
                .clear_labels_timeout
                .unwrap_or(own.clear_labels_timeout),
            StepKind::RemoveEtcd => flags.remove_etcd_timeout.unwrap_or(own.remove_etcd_timeout),
            StepKind::Soak => guards.policy.soak.seconds.saturating_add(SOAK_SLACK),
            StepKind::CheckEtcd => flags.etcd_ready_timeout.unwrap_or(own.etcd_ready_timeout),
            // Their times follow from states of the machine, or they have none.
            StepKind::StartGroup
            | StepKind::StartWave
            | StepKind::GatePrepared
            | StepKind::GateDeployed
            | StepKind::CriticalCheck
            | StepKind::Tag
            | StepKind::Record
            | StepKind::Adopt
            | StepKind::Rename
            | StepKind::Forget
            | StepKind::AcceptIdentity
            | StepKind::AcceptDifferences
            | StepKind::PowerOn
            | StepKind::PowerOff
            | StepKind::Lock
            | StepKind::SetRetired
            | StepKind::UnsetRetired
            | StepKind::SetMaintenance
            | StepKind::UnsetMaintenance
            | StepKind::Manage
            | StepKind::RotateBmcPassword
            | StepKind::Provide
            | StepKind::Clean
            | StepKind::Uncordon
            | StepKind::ShutdownKubelet
            | StepKind::RemoveFromCluster
            | StepKind::AwaitReady
            | StepKind::Remediate
            | StepKind::SetOutOfService
            | StepKind::UnsetOutOfService
            | StepKind::RestoreNode => continue,
        };
        let grace = flags.drain_grace_period.unwrap_or(own.drain_grace_period);
        let is_drain = step.id.kind == StepKind::Drain;
        let given = *view.given(position).grace_period();
        if step.timeout != timeout || is_drain && given != Some(grace) {
            found.add(
                [position],
                "has another time than flags and configuration give it",
            );
        }
    }
}

/// How the volumes that a deploy makes are others than those that Hardware documents enforce.
///
/// Making them erases all disks: none are made where disks are kept.
fn other_raid(node: &NodeDesign, given: &dyn Given) -> Option<&'static str> {
    let made = given.settings();
    let enforced = node.hardware(Section::Raid);
    if *given.preserve_local_storage() {
        return (!made.is_empty()).then_some("makes volumes on disks that it keeps");
    }
    let is_enforced = |setting: &HardwareSetting| {
        let mut enforced = enforced.iter();
        enforced.any(|each| each.name == setting.name && each.value == setting.value)
    };
    let is_whole = made.len() == enforced.len() && made.iter().all(is_enforced);
    (!is_whole).then_some("makes other volumes than Hardware documents enforce")
}

/// Image, labels and disks of steps are those of the design, and those that are shown.
pub(super) fn parameters(view: &View<'_>, found: &mut Found<'_, '_>) {
    for (change, steps) in view.worked_on() {
        let Some(node) = view.designed(change.node.as_str()) else {
            continue;
        };
        for position in steps {
            let given = view.given(*position);
            if view.kind(*position) == StepKind::Deploy {
                let system = node.sections.get(&Section::OperatingSystem);
                let image = system.and_then(|system| system.at(&["platform", "image"]));
                let image = image.and_then(Node::as_str);
                if given.image().as_deref() != image {
                    found.add([*position], "deploys another image than that of the design");
                }
                if let Some(what) = other_raid(node, given) {
                    found.add([*position], what);
                }
            }
            if view.kind(*position).sets_hardware() {
                let enforced = node.sections.get(&Section::Firmware);
                let is_designed = |setting: &HardwareSetting| {
                    let (part, name) = setting.name.split_once('.')?;
                    let value = enforced?.get(part)?.get(name)?;
                    let value = match part {
                        "firmware" => value.get("version")?,
                        _ => value,
                    };
                    Some(text_of(value) == *setting.value)
                };
                let seen = view.observed(change.node.as_str());
                let runbook = given.runbook().as_deref();
                let is_live = view.kind(*position) == StepKind::ServiceLive;
                if !is_live && seen.is_some_and(|seen| seen.runbook.as_deref() != runbook) {
                    found.add(
                        [*position],
                        "is not done by the runbook that its provisioner has for it",
                    );
                }
                let settings = given.settings();
                if is_live && settings.iter().any(|each| needs_restart(node, each)) {
                    found.add(
                        [*position],
                        "changes what needs a restart while its machine runs",
                    );
                }
                if !is_live && *given.kept_parts() != kept_parts(node, seen) {
                    found.add(
                        [*position],
                        "does not have its machine come back with the parts that it has as expected",
                    );
                }
                if settings.is_empty()
                    || settings.iter().any(|each| is_designed(each) != Some(true))
                {
                    found.add(
                        [*position],
                        "sets values that no Hardware document enforces",
                    );
                }
            }
            if view.kind(*position) == StepKind::Relabel {
                let mut labels = given.set_labels().iter();
                if labels.any(|(key, value)| node.labels.get(key) != Some(value)) {
                    found.add([*position], "sets a label that the design does not have");
                }
                let mut removed = given.remove_labels().iter();
                if removed.any(|key| node.labels.contains_key(key)) {
                    found.add([*position], "takes off a label of the design");
                }
            }
        }
    }
}

/// The parts that a machine is expected to have, but for those that it was observed to lack.
fn kept_parts(node: &NodeDesign, seen: Option<&ObservedNode>) -> Vec<HardwareSetting> {
    let is_lacked = |name: &str| {
        let mut drift = seen.into_iter().flat_map(|seen| seen.drift.iter());
        drift.any(|part| part.section == Section::Expected && *part.field == *name)
    };
    let mut kept = Vec::new();
    for part in node.expected_parts() {
        if !is_lacked(&part.name) {
            let (name, value) = (part.name, part.value);
            let before = None;
            kept.push(HardwareSetting {
                name,
                before,
                value,
            });
        }
    }
    kept
}

/// Whether a value is neither one of the controller nor firmware of which its document says that it is applied at once.
fn needs_restart(node: &NodeDesign, setting: &HardwareSetting) -> bool {
    let applied_at_once = |component: &str| {
        let enforced = node.sections.get(&Section::Firmware)?;
        let apply = enforced.at(&["firmware", component, "apply"])?;
        Some(apply.as_str()? == "live")
    };
    match setting.name.split_once('.') {
        Some(("bmc", _)) => false,
        Some(("firmware", component)) => applied_at_once(component) != Some(true),
        _ => true,
    }
}

/// A value as a controller shows it: those of a list in one line.
fn text_of(value: &Node) -> String {
    if let Some(items) = value.as_list() {
        return items.iter().map(text_of).collect::<Vec<_>>().join(", ");
    }
    match value.as_bool() {
        Some(truth) => truth.to_string(),
        None => value
            .scalar_text()
            .map_or_else(String::new, |text| text.to_string()),
    }
}

/// The disks that steps erase or write are those that the change shows, and with local storage kept no more.
pub(super) fn disks(view: &View<'_>, found: &mut Found<'_, '_>) {
    let keeps = view.plan.options.leaving.preserve_local_storage;
    for (change, steps) in view.worked_on() {
        let is_torn_down = matches!(change.kind, ChangeKind::Redeploy | ChangeKind::Destroy);
        for position in steps {
            let kind = view.kind(*position);
            let given = view.given(*position);
            if given
                .disks()
                .iter()
                .any(|disk| !change.disks.contains(disk))
            {
                found.add(
                    [*position],
                    "erases or writes a disk that its change does not show",
                );
            }
            let erases = matches!(
                kind,
                StepKind::Destroy | StepKind::Prepare | StepKind::Deploy
            );
            let says = *given.preserve_local_storage();
            let is_refused = given.refused().is_some();
            if keeps && is_torn_down && erases && !says && !is_refused {
                found.add(
                    [*position],
                    "does not keep the local storage that is to be preserved",
                );
            }
            if keeps && is_torn_down && given.disks().len() > 1 {
                found.add(
                    [*position],
                    "erases more than the disk of the operating system",
                );
            }
        }
    }
}

/// The machine that a change is about is designed and reached as the documents say.
pub(super) fn machine(view: &View<'_>, found: &mut Found<'_, '_>) {
    let Some(guards) = view.guards() else { return };
    for (change, steps) in view.worked_on() {
        let name = change.node.as_str();
        let Some(machine) = &change.machine else {
            found.add(
                steps.iter().copied(),
                format!("`{name}` has no machine that an approval covers"),
            );
            continue;
        };
        let designed = view.designed(name);
        if let Some(node) = designed {
            let differs = |section: &Section| {
                let designed = node.digests.get(section);
                let own = match *section == Section::Inventory {
                    // No approval covers it, and plans of earlier versions have none.
                    true => change.inventory.as_ref().or(designed),
                    false => machine.sections.get(section),
                };
                own != designed
            };
            if let Some(section) = Section::ALL.iter().find(|section| differs(section)) {
                let what = format!(
                    "`{name}` has another design in section `{}`",
                    section.as_str()
                );
                found.add(steps.iter().copied(), what);
            }
        } else if !machine.sections.is_empty() {
            found.add(
                steps.iter().copied(),
                format!("`{name}` is not designed, and has a design"),
            );
        }
        let Some(node) = designed.or(view.applied(name)) else {
            continue;
        };
        let (own, other) = (&machine.controller, &node.out_of_band);
        if own.address != other.address || own.kind != other.kind {
            found.add(
                steps.iter().copied(),
                format!("`{name}` has another controller in the design"),
            );
        }
        let mut overrides = guards.backends.overrides.iter();
        let selected = overrides.find(|(selector, _)| selector.matches(node));
        let backend = selected.map_or(&guards.backends.hardware, |(_, backend)| backend);
        let own = machine.backend.as_ref();
        if own.is_none_or(|own| own.kind != backend.kind) {
            found.add(
                steps.iter().copied(),
                format!("`{name}` has another backend in the documents"),
            );
        }
        if own.is_some_and(|own| {
            own.address.as_deref() != address(backend.settings.as_ref()).as_deref()
        }) {
            found.add(
                steps.iter().copied(),
                format!("`{name}` is reached at another address than the documents say"),
            );
        }
    }
}

/// The address of a backend, if it is no secret.
fn address(settings: Option<&Node>) -> Option<String> {
    let fields = ["endpoint", "cluster"].into_iter();
    let mut fields = fields.filter_map(|name| settings?.get(name));
    let field = fields.find(|node| !node.is_secret() && node.scalar_text().is_some())?;
    field.scalar_text().map(|text| text.into_owned())
}

/// The grace period of a drain is less than its timeout.
pub(super) fn grace(view: &View<'_>, found: &mut Found<'_, '_>) {
    for drain in view.of_kind(StepKind::Drain) {
        let grace = view.given(drain).grace_period();
        let timeout = view.step(drain).timeout;
        if grace.is_none_or(|grace| grace >= timeout) {
            found.add(
                [drain],
                "gives pods no less time to end than it has itself, or none that is known",
            );
        }
    }
}

/// A node whose record gets another name had a record under the old one.
pub(super) fn renamed(view: &View<'_>, found: &mut Found<'_, '_>) {
    for position in view.of_kind(StepKind::Rename) {
        let old = view.given(position).renamed_from().as_ref();
        let is_recorded = old.is_some_and(|old| view.record(old.as_str()).is_some());
        let is_designed = old.is_some_and(|old| view.designed(old.as_str()).is_some());
        if !is_recorded || is_designed {
            found.add([position], "the record of no other node can get its name");
        }
    }
}

/// No secret stands in the plan: neither among the values that differ, nor as the account of a controller.
pub(super) fn secrets(view: &View<'_>, found: &mut Found<'_, '_>) {
    for change in &view.plan.changes {
        let Some(node) = view.designed(change.node.as_str()) else {
            continue;
        };
        for field in &change.fields {
            let shown = [&field.before, &field.after];
            let secret = secret_at(node, field.section, &field.path);
            let is_shown = |value: &&Option<Arc<str>>| {
                value.as_deref().is_some_and(|value| {
                    secret
                        .as_deref()
                        .is_some_and(|secret| value.contains(secret))
                })
            };
            if shown.iter().any(is_shown) {
                found.about(
                    change.node.as_str(),
                    &format!("shows the secret `{}`", field.path),
                );
            }
        }
        let account = change
            .machine
            .as_ref()
            .and_then(|machine| machine.controller.account.as_ref());
        let section = node.sections.get(&Section::OutOfBand);
        let secret =
            section.and_then(|section| section.at(&["oob", "account"]).map(Node::is_secret));
        if account.is_some() && secret == Some(true) {
            found.about(
                change.node.as_str(),
                "shows the account of its controller, which is a secret",
            );
        }
    }
}

/// The secret value of a field of a node.
fn secret_at(node: &NodeDesign, section: Section, path: &str) -> Option<String> {
    let keys: Vec<&str> = path.split('.').collect();
    let fields = node.sections.get(&section)?;
    let value = fields.at(&keys)?;
    let text = value.is_secret().then(|| value.scalar_text())??;
    (text.len() > 3).then(|| text.into_owned())
}
