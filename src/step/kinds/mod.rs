//! The kinds of step, one file each: everything that is known of a kind stands in its file, and all others ask it.

mod accept_differences;
mod accept_identity;
mod adopt;
mod await_ready;
mod check_etcd;
mod clean;
mod clear_labels;
mod critical_check;
mod deploy;
mod destroy;
mod drain;
mod facts;
mod forget;
mod gate_deployed;
mod gate_prepared;
mod lock;
mod manage;
mod power_off;
mod power_on;
mod prepare;
mod prepare_site;
mod provide;
mod record_design;
mod relabel;
mod remediate;
mod remove_etcd;
mod remove_from_cluster;
mod rename;
mod restore_node;
mod rotate_bmc_password;
mod service;
mod service_live;
mod set_maintenance;
mod set_out_of_service;
mod set_retired;
mod shutdown_kubelet;
mod soak;
mod start_group;
mod start_wave;
mod tag;
mod uncordon;
mod unset_maintenance;
mod unset_out_of_service;
mod unset_retired;
mod verify_site;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::parameters::{Given, NoParameters};

pub use deploy::{build, decided};
pub use facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
pub use soak::SOAK_SLACK;

/// Writes the enum of kinds, where the facts of each stand, and the parameters of those that have some, from one list: file,
/// kind and type of parameters.
macro_rules! kinds {
    ($($file:ident: $kind:ident $(($own:ident))?,)+) => {
        /// The kinds of step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum StepKind {
            $(#[doc = concat!("See `", stringify!($file), "`.")] $kind,)+
        }

        impl StepKind {
            /// All kinds.
            pub const ALL: [Self; [$(stringify!($kind)),+].len()] = [$(Self::$kind),+];

            /// All that is known of it.
            #[must_use]
            pub const fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$kind => &$file::FACTS,)+
                }
            }
        }

        $($(pub use $file::$own;)?)+

        /// The parameters of a step, by its kind.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(untagged)]
        pub enum Parameters {
            $($(#[doc = concat!("Of `", stringify!($file), "`.")] $kind($own),)?)+
        }

        impl Parameters {
            /// Reads those of a kind; `None` if none is given.
            ///
            /// # Errors
            ///
            /// The kind does not have one of them, or not with that value.
            pub fn read(kind: StepKind, json: &str) -> Result<Option<Self>, serde_json::Error> {
                let read = match kind {
                    $(StepKind::$kind => read_as!(json $(, $kind($own))?),)+
                };
                Ok(read?.filter(|given| !given.is_empty()))
            }

            /// Each by its name.
            #[must_use]
            pub fn given(&self) -> &dyn Given {
                match self {
                    $($(Self::$kind(own) => { let own: &$own = own; own })?)+
                }
            }

            /// Whether none is given.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                match self {
                    $($(Self::$kind(own) => *own == $own::default(),)?)+
                }
            }

            /// Takes one away.
            pub(crate) fn clear(&mut self, name: &str) {
                match self {
                    $($(Self::$kind(own) => $own::clear(own, name),)?)+
                }
            }
        }
    };
}

/// Reads the parameters of a kind that has some, or refuses all.
macro_rules! read_as {
    ($json:ident) => {
        serde_json::from_str($json).map(|NoParameters {}| None)
    };
    ($json:ident, $kind:ident($own:ident)) => {
        serde_json::from_str($json).map(|own: $own| Some(Self::$kind(own)))
    };
}

kinds! {
    verify_site: VerifySite(VerifySiteParameters),
    prepare_site: PrepareSite,
    start_group: StartGroup,
    start_wave: StartWave,
    destroy: Destroy(DestroyParameters),
    prepare: Prepare(PrepareParameters),
    gate_prepared: GatePrepared,
    deploy: Deploy(DeployParameters),
    gate_deployed: GateDeployed,
    relabel: Relabel(RelabelParameters),
    power_on: PowerOn,
    record_design: Record(RecordParameters),
    adopt: Adopt(AdoptParameters),
    rename: Rename(RenameParameters),
    lock: Lock,
    set_retired: SetRetired(SetRetiredParameters),
    unset_retired: UnsetRetired,
    drain: Drain(DrainParameters),
    uncordon: Uncordon(UncordonParameters),
    clear_labels: ClearLabels(ClearLabelsParameters),
    remove_etcd: RemoveEtcd(RemoveEtcdParameters),
    check_etcd: CheckEtcd(CheckEtcdParameters),
    shutdown_kubelet: ShutdownKubelet(ShutdownKubeletParameters),
    remove_from_cluster: RemoveFromCluster(RemoveFromClusterParameters),
    await_ready: AwaitReady(AwaitReadyParameters),
    power_off: PowerOff,
    manage: Manage,
    provide: Provide(ProvideParameters),
    clean: Clean(CleanParameters),
    set_maintenance: SetMaintenance(SetMaintenanceParameters),
    unset_maintenance: UnsetMaintenance,
    forget: Forget,
    accept_identity: AcceptIdentity(AcceptIdentityParameters),
    accept_differences: AcceptDifferences(AcceptDifferencesParameters),
    remediate: Remediate(RemediateParameters),
    set_out_of_service: SetOutOfService(SetOutOfServiceParameters),
    unset_out_of_service: UnsetOutOfService(UnsetOutOfServiceParameters),
    restore_node: RestoreNode(RestoreNodeParameters),
    service: Service(ServiceParameters),
    service_live: ServiceLive(ServiceLiveParameters),
    rotate_bmc_password: RotateBmcPassword,
    soak: Soak(SoakParameters),
    critical_check: CriticalCheck,
    tag: Tag,
}

impl StepKind {
    /// The kind of a name in step ids.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The name in step ids and in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Whether it only orders other steps.
    #[must_use]
    pub const fn is_barrier(self) -> bool {
        matches!(self.facts().stage, KindStage::Barrier)
    }

    /// Whether it builds a machine or tears it down: while it is under way, nothing of the machine is certain.
    #[must_use]
    pub const fn rebuilds(self) -> bool {
        let facts = self.facts();
        matches!(facts.actor, Actor::Hardware)
            && matches!(
                facts.stage,
                KindStage::TearDown | KindStage::Prepare | KindStage::Deploy
            )
    }

    /// Whether it sets firmware and settings of a machine: what it has reached is told by a second reading alone.
    #[must_use]
    pub const fn sets_hardware(self) -> bool {
        matches!(self, Self::Service | Self::ServiceLive)
    }

    /// Whether it writes a record and nothing else.
    #[must_use]
    pub const fn only_records(self) -> bool {
        let facts = self.facts();
        matches!(facts.actor, Actor::Dispatcher) && matches!(facts.subject, KindSubject::Node)
    }
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
