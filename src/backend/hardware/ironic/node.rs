//! A node as Ironic shows it, and what that means.
//!
//! Lists are asked for these fields only ([`FIELDS`]), which all servers have since API 1.61. Nothing in
//! an answer is trusted to be there or to be of its form: what is not understood is as if it was absent.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::backend::hardware::poll::Listed;
use crate::backend::hardware::provisioner::{ProvisionedObject, Roster};
use crate::backend::http::plain;
use crate::identity::Identity;
use crate::lifecycle::{CleanInterface, Flags, OfferedStep, PowerState, ProvisionState, Verb};
use crate::observed::{Capabilities, Capability, Disk, Fact, ObservedNode};

/// The fields that a list is asked for.
pub(super) const FIELDS: &str = "uuid,name,provision_state,target_provision_state,\
provision_updated_at,power_state,target_power_state,retired,retired_reason,maintenance,\
maintenance_reason,fault,protected,last_error,clean_step,deploy_step,reservation,instance_uuid,\
extra,automated_clean,raid_config,raid_interface";

/// The `fault` that Ironic sets where cleaning failed and it put the node into maintenance itself.
pub(super) const CLEAN_FAILURE: &str = "clean failure";

/// Longest text of Ironic's that is shown.
const LONGEST: usize = 500;

/// Under which key of `extra` the marker is.
pub(super) const MARKER: &str = "trueup";

/// Under which key of `extra` the disks are that an inspection found.
pub(super) const DISKS: &str = "trueup_disks";

/// Under which key of `extra` serial number and MAC addresses are that an inspection found.
pub(super) const INSPECTED: &str = "trueup_identity";

/// Under which key of `extra` the steps are that Ironic ran when it last cleaned the node by itself.
pub(super) const STEPS: &str = "trueup_clean_steps";

/// Most steps of one node that are written down.
pub(super) const MOST_STEPS: usize = 100;

/// Longest name of a step that is shown.
pub(super) const LONGEST_STEP: usize = 60;

/// A node as Ironic shows it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(in crate::backend::hardware) struct Node {
    pub(super) uuid: Arc<str>,
    pub(super) name: Option<Arc<str>>,
    provision_state: Option<Arc<str>>,
    target_provision_state: Option<Arc<str>>,
    /// When the provision state last changed; `null` before the first time.
    pub(super) provision_updated_at: Option<Arc<str>>,
    power_state: Option<Arc<str>>,
    pub(super) target_power_state: Option<Arc<str>>,
    pub(super) retired: bool,
    pub(super) retired_reason: Option<Arc<str>>,
    pub(super) maintenance: bool,
    maintenance_reason: Option<Arc<str>>,
    pub(super) fault: Option<Arc<str>>,
    protected: bool,
    last_error: Option<String>,
    clean_step: Value,
    deploy_step: Value,
    /// The conductor that holds the node's lock.
    pub(super) reservation: Option<Arc<str>>,
    pub(super) instance_uuid: Option<Arc<str>>,
    pub(super) extra: Value,
    pub(super) automated_clean: Option<bool>,
    /// The volumes, as Ironic has made or read them.
    pub(super) raid_config: Value,
    pub(super) raid_interface: Option<Arc<str>>,
    /// Only in answers about one node.
    pub(super) driver_internal_info: Value,
}

impl Node {
    /// Its state.
    pub(super) fn state(&self) -> ProvisionState {
        let name = self.provision_state.as_deref();
        name.map_or(ProvisionState::Other, ProvisionState::from_name)
    }

    /// Its state in Ironic's own word.
    pub(super) fn state_name(&self) -> String {
        plain(self.provision_state.as_deref().unwrap_or("unknown"), 40)
    }

    /// The flags beside the state.
    pub(super) fn flags(&self) -> Flags {
        Flags {
            retired: self.retired,
            maintenance: self.maintenance,
            protected: self.protected,
        }
    }

    /// Its power, where Ironic knows it.
    pub(super) fn power(&self) -> Option<PowerState> {
        match self.power_state.as_deref()? {
            "power on" => Some(PowerState::On),
            "power off" => Some(PowerState::Off),
            _ => None,
        }
    }

    /// Whether no operation runs and no client has it locked. A failed state keeps a target that is not pursued.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        let is_stable = matches!(
            state,
            ProvisionState::Enroll
                | ProvisionState::Manageable
                | ProvisionState::Available
                | ProvisionState::Active
        );
        !state.is_transient()
            && !state.is_held()
            && self.reservation.is_none()
            && self.target_power_state.is_none()
            && !(is_stable && self.target_provision_state.is_some())
    }

    /// The running operation, for messages.
    pub(super) fn doing(&self) -> String {
        let step = step_name(&self.clean_step).or_else(|| step_name(&self.deploy_step));
        let state = self.state_name();
        match (step, &self.target_power_state) {
            (Some(step), _) => format!("{state}: {step}"),
            (None, Some(power)) => format!("{state}, {}", plain(power, 40)),
            (None, None) if self.state().is_transient() || self.reservation.is_none() => state,
            (None, None) => format!("{state}, locked"),
        }
    }

    /// The last error, if there is one.
    pub(super) fn error(&self) -> Option<String> {
        let text = self.last_error.as_deref()?;
        (!text.trim().is_empty()).then(|| plain(text, LONGEST))
    }

    /// State and error, for a failure.
    pub(super) fn failed(&self) -> String {
        let state = self.state_name();
        match self.error() {
            Some(error) => format!("{state}: {error}"),
            None => state,
        }
    }

    /// Whether something has happened to its provision state between the two looks.
    pub(super) fn has_moved_since(&self, before: &Self) -> bool {
        self.provision_state != before.provision_state
            || self.provision_updated_at != before.provision_updated_at
    }

    /// The reason of its maintenance, if it is in it; a fault of Ironic's own is named.
    pub(super) fn maintenance(&self) -> Option<Arc<str>> {
        if !self.maintenance {
            return None;
        }
        let text = |text: &Option<Arc<str>>| {
            let text = text.as_deref().map(|text| plain(text, LONGEST));
            text.filter(|text| !text.is_empty())
        };
        Some(match (text(&self.maintenance_reason), text(&self.fault)) {
            (Some(reason), Some(fault)) => Arc::from(format!("{reason} (fault: {fault})")),
            (Some(text), None) | (None, Some(text)) => Arc::from(text),
            (None, None) => Arc::from("no reason given"),
        })
    }

    /// The reason of its retirement, if it is retired.
    pub(super) fn retired(&self) -> Option<Arc<str>> {
        self.retired.then(|| {
            let reason = self.retired_reason.as_deref().unwrap_or_default();
            match plain(reason, LONGEST) {
                reason if reason.is_empty() => Arc::from("no reason given"),
                reason => Arc::from(reason),
            }
        })
    }

    /// The machine's identity: its own UUID, the values that an inspection found and stored
    /// down then, and the MAC addresses of its ports.
    pub(super) fn identity(&self, ports: &[Arc<str>]) -> Identity {
        let inspected = self.extra.get(INSPECTED);
        let serial = inspected.and_then(|inspected| inspected.get("serial")?.as_str());
        let macs = inspected.and_then(|inspected| inspected.get("macs")?.as_array());
        let macs = macs.into_iter().flatten().filter_map(Value::as_str);
        let macs = macs.chain(ports.iter().map(|mac| &**mac));
        let identity = Identity::of(None, serial).with_macs(macs);
        identity.in_provisioner(&self.uuid)
    }

    /// The node as a plan sees it; `cleaned`: whether a teardown ends with cleaning.
    pub(super) fn observed(&self, cleaned: bool) -> ObservedNode {
        let state = self.state();
        let mut capabilities = capabilities(cleaned);
        if state == ProvisionState::Other {
            capabilities = Capabilities::default();
        }
        ObservedNode {
            provision: Fact::Known(state),
            power: match (self.power(), &self.power_state) {
                (Some(power), _) => Fact::Known(power),
                (None, None) => Fact::Unknown(Arc::from("Ironic has not asked for its power yet")),
                (None, Some(word)) => {
                    Fact::Unknown(Arc::from(format!("Ironic says `{}`", plain(word, 40))))
                }
            },
            retired: self.retired(),
            maintenance: self.maintenance(),
            protected: self.protected,
            last_error: self.error().map(Arc::from),
            clean_step: step_name(&self.clean_step).map(Arc::from),
            disks: disks(&self.extra),
            cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
            capabilities,
            kept_by_records: false,
            clean_steps: offered(&self.extra).into(),
            cleans_itself: true,
            ..ObservedNode::unknown("")
        }
    }
}

impl ProvisionedObject for Node {
    const CALLED: (&'static str, &'static str) = ("node of Ironic's", "UUID");

    fn id(&self) -> &Arc<str> {
        &self.uuid
    }

    fn provision_state(&self) -> ProvisionState {
        self.state()
    }

    fn flags(&self, _: &Roster) -> Flags {
        self.flags()
    }

    fn evidence(&self, verb: Verb, _: &Roster) -> Vec<(&'static str, Option<Arc<str>>)> {
        let is_power = matches!(verb, Verb::PowerOn | Verb::PowerOff);
        let error = self.error().filter(|_| !is_power);
        vec![
            ("retired", self.retired()),
            ("in maintenance", self.maintenance()),
            ("last error", error.map(Arc::from)),
        ]
    }
}

impl Listed for Node {
    fn id(&self) -> &Arc<str> {
        &self.uuid
    }

    fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    fn doing(&self) -> String {
        self.doing()
    }

    fn is_active(&self) -> bool {
        self.state().is_transient()
    }
}

const NO_CLUSTER: &str = "Ironic does not report the cluster of its machines";

/// The capabilities of Ironic for a machine; `cleaned`: whether a teardown ends with cleaning.
fn capabilities(cleaned: bool) -> Capabilities {
    let all = [
        Capability::Power,
        Capability::Prepare,
        Capability::Deploy,
        Capability::WipeOperatingSystemDisk,
        Capability::Clean,
        Capability::DeploySteps,
        Capability::Retire,
        Capability::Service,
        Capability::Raid,
    ];
    let wipe = cleaned.then_some(Capability::Wipe);
    all.into_iter().chain(wipe).collect()
}

/// A machine that Ironic does not know yet and that can be enrolled.
pub(super) fn not_enrolled(cleaned: bool) -> ObservedNode {
    const NOT_ENROLLED: &str = "Ironic does not know it yet";
    ObservedNode {
        provision: Fact::Known(ProvisionState::Enroll),
        cluster: Fact::Unknown(Arc::from(NO_CLUSTER)),
        capabilities: capabilities(cleaned),
        cleans_itself: true,
        ..ObservedNode::unknown(NOT_ENROLLED)
    }
}

/// `interface.step` of a step that runs.
fn step_name(step: &Value) -> Option<String> {
    let part = |name: &str| step.get(name)?.as_str().map(|text| plain(text, 60));
    Some(format!("{}.{}", part("interface")?, part("step")?))
}

/// The disks that an inspection found and that were written down then.
fn disks(extra: &Value) -> Fact<Vec<Disk>> {
    let Some(written) = extra.get(DISKS).and_then(Value::as_array) else {
        return Fact::Unknown(Arc::from(
            "Ironic's lists do not hold a machine's disks, and no inspection through trueup has found them",
        ));
    };
    let mut disks: Vec<Disk> = written
        .iter()
        .filter_map(|disk| {
            let text = |name: &str| disk.get(name)?.as_str().map(|text| plain(text, 120));
            Some(Disk {
                name: Arc::from(text("name")?),
                serial: Arc::from(text("serial").unwrap_or_default()),
                size: disk.get("size").and_then(Value::as_u64).unwrap_or(0),
                partitioned: disk.get("partitioned").and_then(Value::as_bool) == Some(true),
            })
        })
        .collect();
    disks.sort();
    Fact::Known(disks)
}

/// Serial number and MAC addresses of an inventory, as they are written down.
pub(super) fn identity_of_inventory(inventory: &Value) -> Value {
    let serial = inventory.pointer("/inventory/system_vendor/serial_number");
    let interfaces = inventory.pointer("/inventory/interfaces");
    let interfaces = interfaces.and_then(Value::as_array).into_iter().flatten();
    let macs = interfaces.filter_map(|each| each.get("mac_address").filter(|mac| mac.is_string()));
    serde_json::json!({
        "serial": serial.filter(|serial| serial.is_string()),
        "macs": macs.collect::<Vec<_>>(),
    })
}

/// The disks of an inventory, as they are written down; `null` if it has none.
pub(super) fn disks_of_inventory(inventory: &Value) -> Value {
    let disks = inventory
        .pointer("/inventory/disks")
        .and_then(Value::as_array);
    let Some(disks) = disks else {
        return Value::Null;
    };
    let written = disks.iter().filter_map(|disk| {
        let name = disk.get("name")?.as_str()?;
        Some(serde_json::json!({
            "name": name,
            "serial": disk.get("serial").and_then(Value::as_str).unwrap_or_default(),
            "size": disk.get("size").and_then(Value::as_u64).unwrap_or(0),
        }))
    });
    Value::Array(written.collect())
}

/// The steps that were written down, in the order in which Ironic ran them.
pub(super) fn offered(extra: &Value) -> Vec<OfferedStep> {
    let written = extra.get(STEPS).and_then(Value::as_array);
    let steps = written.into_iter().flatten().take(MOST_STEPS);
    let step = |step: &Value| {
        let text = |name: &str| {
            step.get(name)?
                .as_str()
                .map(|text| plain(text, LONGEST_STEP))
        };
        let interface = CleanInterface::of(&text("interface")?)?;
        let name = text("step")?;
        let priority = step.get("priority").and_then(Value::as_u64).unwrap_or(0);
        Some(OfferedStep {
            interface,
            erases: interface == CleanInterface::Deploy && name.starts_with("erase_devices"),
            step: Arc::from(name),
            priority: u32::try_from(priority).unwrap_or(u32::MAX),
            abortable: false,
        })
    };
    steps.filter_map(step).collect()
}
