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

pub use deploy::{build, decided};
pub use facts::{
    Actor, Effect, Facts, KindStage, KindSubject, LeavingRole, Loss, Notes, RecordContext,
};
pub use soak::SOAK_SLACK;

/// Writes the enum of kinds, and where the facts of each stand, from one list: file and kind.
macro_rules! kinds {
    ($($file:ident: $kind:ident,)+) => {
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
    };
}

kinds! {
    verify_site: VerifySite,
    prepare_site: PrepareSite,
    start_group: StartGroup,
    start_wave: StartWave,
    destroy: Destroy,
    prepare: Prepare,
    gate_prepared: GatePrepared,
    deploy: Deploy,
    gate_deployed: GateDeployed,
    relabel: Relabel,
    power_on: PowerOn,
    record_design: Record,
    adopt: Adopt,
    rename: Rename,
    lock: Lock,
    set_retired: SetRetired,
    unset_retired: UnsetRetired,
    drain: Drain,
    uncordon: Uncordon,
    clear_labels: ClearLabels,
    remove_etcd: RemoveEtcd,
    check_etcd: CheckEtcd,
    shutdown_kubelet: ShutdownKubelet,
    remove_from_cluster: RemoveFromCluster,
    await_ready: AwaitReady,
    power_off: PowerOff,
    manage: Manage,
    provide: Provide,
    clean: Clean,
    set_maintenance: SetMaintenance,
    unset_maintenance: UnsetMaintenance,
    forget: Forget,
    accept_identity: AcceptIdentity,
    accept_differences: AcceptDifferences,
    remediate: Remediate,
    set_out_of_service: SetOutOfService,
    unset_out_of_service: UnsetOutOfService,
    restore_node: RestoreNode,
    service: Service,
    rotate_bmc_password: RotateBmcPassword,
    soak: Soak,
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
