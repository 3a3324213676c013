//! The roles of callers, and the least role that each operation needs, by the names of Airship's policies.

use serde::Deserialize;

/// The rights of a caller: each role has those of the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Carries out what can be undone: drains, labels.
    Operator,
    /// Takes nodes out of their clusters.
    Admin,
}

impl Role {
    /// The role as settings name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// The operations that are authorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    ReadMetrics,
    ReadAction,
    ReadSite,
    ReadPlan,
    ReadRun,
    Observe,
    CreatePlan,
    ApplyPlan,
    ListActions,
    GetAction,
    GetActionStep,
    GetActionStepLogs,
    GetActionValidation,
    CreateAction,
    DeploySite,
    UpdateSite,
    UpdateSoftware,
    RedeployServer,
    RelabelNodes,
    TestSite,
    ControlAction,
    ListWorkflows,
    GetWorkflow,
    GetNoteDetails,
    GetSiteStatuses,
    GetConfigdocsStatus,
    GetConfigdocs,
    GetConfigdocsCleartext,
    CreateConfigdocs,
    CommitConfigdocs,
    GetRenderedConfigdocs,
    GetRenderedConfigdocsCleartext,
    EtcdHealth,
    Drain,
    ClearLabels,
    RemoveEtcd,
    ShutdownKubelet,
    RemoveFromCluster,
    Decommission,
}

/// Where a caller must have the role of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// In the whole site.
    Site,
    /// On each machine that it changes.
    Machines,
    /// Anywhere: it changes nothing.
    Anywhere,
}

impl Operation {
    /// Where its role is needed.
    pub(super) const fn reach(self) -> Reach {
        match self {
            Self::ApplyPlan
            | Self::DeploySite
            | Self::UpdateSite
            | Self::RedeployServer
            | Self::RelabelNodes
            | Self::ControlAction
            | Self::Drain
            | Self::ClearLabels
            | Self::RemoveEtcd
            | Self::ShutdownKubelet
            | Self::RemoveFromCluster
            | Self::Decommission => Reach::Machines,
            // The action itself is an operation, too.
            Self::CreateAction | Self::CreatePlan | Self::Observe | Self::TestSite => {
                Reach::Anywhere
            }
            Self::ReadMetrics
            | Self::ReadAction
            | Self::ReadSite
            | Self::ReadPlan
            | Self::ReadRun
            | Self::ListActions
            | Self::GetAction
            | Self::GetActionStep
            | Self::GetActionStepLogs
            | Self::GetActionValidation
            | Self::UpdateSoftware
            | Self::ListWorkflows
            | Self::GetWorkflow
            | Self::GetNoteDetails
            | Self::GetSiteStatuses
            | Self::GetConfigdocsStatus
            | Self::GetConfigdocs
            | Self::GetConfigdocsCleartext
            | Self::CreateConfigdocs
            | Self::CommitConfigdocs
            | Self::GetRenderedConfigdocs
            | Self::GetRenderedConfigdocsCleartext
            | Self::EtcdHealth => Reach::Site,
        }
    }

    /// The name of its policy, and the least role that it needs.
    pub(super) const fn policy(self) -> (&'static str, Role) {
        match self {
            Self::ReadMetrics => ("trueup:get_metrics", Role::Viewer),
            Self::ReadAction => ("trueup:get_action", Role::Viewer),
            Self::ReadSite => ("trueup:get_site", Role::Viewer),
            Self::ReadPlan => ("trueup:get_plan", Role::Viewer),
            Self::ReadRun => ("trueup:get_run", Role::Viewer),
            Self::Observe => ("trueup:observe_site", Role::Operator),
            Self::CreatePlan => ("trueup:create_plan", Role::Operator),
            Self::ApplyPlan => ("trueup:apply_plan", Role::Admin),
            Self::ListActions => ("workflow_orchestrator:list_actions", Role::Viewer),
            Self::GetAction => ("workflow_orchestrator:get_action", Role::Viewer),
            Self::GetActionStep => ("workflow_orchestrator:get_action_step", Role::Viewer),
            Self::GetActionStepLogs => ("workflow_orchestrator:get_action_step_logs", Role::Viewer),
            Self::GetActionValidation => {
                ("workflow_orchestrator:get_action_validation", Role::Viewer)
            }
            Self::CreateAction => ("workflow_orchestrator:create_action", Role::Operator),
            Self::DeploySite => ("workflow_orchestrator:action_deploy_site", Role::Admin),
            Self::UpdateSite => ("workflow_orchestrator:action_update_site", Role::Admin),
            Self::UpdateSoftware => ("workflow_orchestrator:action_update_software", Role::Admin),
            Self::RedeployServer => ("workflow_orchestrator:action_redeploy_server", Role::Admin),
            Self::RelabelNodes => ("workflow_orchestrator:action_relabel_nodes", Role::Operator),
            Self::TestSite => ("workflow_orchestrator:action_test_site", Role::Operator),
            Self::ControlAction => ("workflow_orchestrator:invoke_action_control", Role::Admin),
            Self::ListWorkflows => ("workflow_orchestrator:list_workflows", Role::Viewer),
            Self::GetWorkflow => ("workflow_orchestrator:get_workflow", Role::Viewer),
            Self::GetNoteDetails => ("workflow_orchestrator:get_notedetails", Role::Viewer),
            Self::GetSiteStatuses => ("workflow_orchestrator:get_site_statuses", Role::Viewer),
            Self::GetConfigdocsStatus => {
                ("workflow_orchestrator:get_configdocs_status", Role::Viewer)
            }
            Self::GetConfigdocs => ("workflow_orchestrator:get_configdocs", Role::Viewer),
            Self::GetConfigdocsCleartext => (
                "workflow_orchestrator:get_configdocs_cleartext",
                Role::Admin,
            ),
            Self::CreateConfigdocs => ("workflow_orchestrator:create_configdocs", Role::Admin),
            Self::CommitConfigdocs => ("workflow_orchestrator:commit_configdocs", Role::Admin),
            Self::GetRenderedConfigdocs => {
                ("workflow_orchestrator:get_renderedconfigdocs", Role::Viewer)
            }
            Self::GetRenderedConfigdocsCleartext => (
                "workflow_orchestrator:get_renderedconfigdocs_cleartext",
                Role::Admin,
            ),
            Self::EtcdHealth => (
                "kubernetes_provisioner:get_etcd_cluster_health",
                Role::Viewer,
            ),
            Self::Drain => ("kubernetes_provisioner:drain_node", Role::Operator),
            Self::ClearLabels => ("kubernetes_provisioner:update_node_labels", Role::Operator),
            Self::RemoveEtcd => ("kubernetes_provisioner:remove_etcd", Role::Admin),
            Self::ShutdownKubelet => ("kubernetes_provisioner:shutdown_kubelet", Role::Admin),
            Self::RemoveFromCluster => ("kubernetes_provisioner:remove_from_cluster", Role::Admin),
            Self::Decommission => ("kubernetes_provisioner:decommission_node", Role::Admin),
        }
    }
}
