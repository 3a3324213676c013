//! The words after `plan` and `apply`: an action and the nodes that it is for, and the flags that belong to it.
//!
//! A word that names an action is always the action; a file with that name is given as `./drain`. A flag
//! that does not belong to the action is wrong usage, so that it is never ignored.

use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::diagnostic::nearest;
use crate::guard::{self, split_words};
use crate::plan::{Action, Leaving, Remediation, Request};
use crate::remediation::{Release, Share};
use crate::step::{CleanStep, OnDrainTimeout};

use super::value::{duration, within};
use super::{Failure, FailureKind};

/// The arguments of actions on nodes.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ActionArguments {
    /// Take every machine of the site
    #[arg(long)]
    all: bool,
    /// Timeout of a drain, in seconds or such as `90m` [default: the DeploymentConfiguration's, else 1h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    drain_node_timeout: Option<u64>,
    /// Grace period of pods in a drain, less than its timeout [default: the DeploymentConfiguration's, else 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    drain_node_grace_period: Option<u64>,
    /// Timeout of clear-labels [default: the DeploymentConfiguration's, else 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    clear_labels_timeout: Option<u64>,
    /// Timeout of remove-etcd [default: the DeploymentConfiguration's, else 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    remove_etcd_timeout: Option<u64>,
    /// Timeout for etcd clusters to be healthy again [default: the DeploymentConfiguration's, else 10m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    etcd_ready_timeout: Option<u64>,
    /// Handling of pods that are left at the drain's timeout
    #[arg(long, value_enum, value_name = "WHAT")]
    on_drain_timeout: Option<OnTimeout>,
    /// Erase and write the disk of the operating system only
    #[arg(long)]
    preserve_local_storage: bool,
    /// Revision that nodes are built of [default: successful-site-action]
    #[arg(long, value_enum, value_name = "REVISION")]
    target_revision: Option<TargetRevision>,
    /// Let this etcd cluster of one member end with its machine
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    destroy_etcd: Vec<String>,
    /// This node runs no etcd, though it looks as if it did
    #[arg(long, value_name = "NODE")]
    no_etcd_here: Vec<String>,
    /// This machine is gone for good: nothing of it is waited for
    #[arg(long, value_name = "NODE")]
    node_is_gone: Vec<String>,
    /// With --node-is-gone: you have checked that the machine is off, which could not be observed
    #[arg(long)]
    i_have_checked: bool,
    /// Delete a retired machine in its provisioner when it is torn down; the records keep it as retired
    #[arg(long)]
    forget: bool,
    /// A clean step, as interface.step, with its arguments as JSON behind `=`; given again, they run in that order
    #[arg(long, value_name = "I.S[=ARGS]")]
    step: Vec<String>,
    /// Accept a difference instead of a redeploy: a field as plans name it, `*` for any name
    #[arg(long, value_name = "PATH")]
    field: Vec<String>,
    /// Take a machine that a run had begun to change for what its design says: its operator has looked
    #[arg(long)]
    pub(super) as_is: bool,
    /// Why a machine is retired or in maintenance, or a difference is accepted
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Take the flag off again, or undo an acceptance
    #[arg(long)]
    unset: bool,
    /// Most machines remediated at the same time [default: the policy's, else 1]
    #[arg(long, value_name = "N", value_parser = at_once)]
    max_remediations: Option<u16>,
    /// With more unhealthy machines than this number or share, none is remediated [default: the policy's, else 40%]
    #[arg(long, value_name = "N|N%")]
    max_unhealthy: Option<Share>,
    /// Attempts in all to bring a machine back [default: the policy's, else 2]
    #[arg(long, value_name = "N", value_parser = attempts)]
    attempts: Option<u32>,
    /// Way to release the node of a machine that was switched off [default: the policy's, else delete-node]
    #[arg(long, value_enum, value_name = "HOW")]
    release_node: Option<ReleaseNode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReleaseNode {
    /// It is deleted.
    DeleteNode,
    /// It is marked as out of service, from Kubernetes 1.28 on.
    OutOfService,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnTimeout {
    /// The drain fails.
    Fail,
    /// They are deleted, in spite of their budgets.
    ForceDelete,
    /// The drain succeeds; they are deleted once the machine is off.
    Continue,
}

/// How many machines are remediated at the same time.
fn at_once(text: &str) -> Result<u16, String> {
    within(text, &(1..=u64::from(u16::MAX)))
}

/// How often a machine is remediated.
fn attempts(text: &str) -> Result<u32, String> {
    within(text, &(1..=20))
}

/// A revision that nodes are built of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TargetRevision {
    /// HEAD.
    Committed,
    /// The last site action that succeeded.
    SuccessfulSiteAction,
    /// The last site action, whatever its result.
    LastSiteAction,
}

impl TargetRevision {
    fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::SuccessfulSiteAction => "successful-site-action",
            Self::LastSiteAction => "last-site-action",
        }
    }
}

/// All actions as they are written, each with its effect.
pub(super) const ACTIONS: [(&str, &str); 26] = [
    ("update", "Bring the site to its design: the default"),
    ("redeploy NODE…", "Tear nodes down and build them again"),
    (
        "teardown NODE…",
        "Decommission, destroy, and delete in Kubernetes",
    ),
    ("decommission NODE…", "Take nodes out of their clusters"),
    ("destroy NODE…", "Destroy machines that are in no cluster"),
    ("drain NODE…", "Cordon nodes and evict their pods"),
    ("uncordon NODE…", "Let pods be scheduled on nodes again"),
    ("clear-labels NODE…", "Take labels off Kubernetes nodes"),
    (
        "remove-etcd NODE…",
        "Take members out of their etcd clusters",
    ),
    (
        "check-etcd [NODE…]",
        "Wait until etcd is healthy without these nodes",
    ),
    ("shutdown-kubelet NODE…", "Stop kubelets"),
    ("remove-from-cluster NODE…", "Delete Kubernetes nodes"),
    ("relabel NODE…", "Set the labels of the design"),
    ("power on NODE…", "Switch machines on"),
    ("power off NODE…", "Switch machines off"),
    ("manage NODE…", "Bring machines under management"),
    ("provide NODE…", "Make machines available"),
    (
        "clean NODE…",
        "Run the steps of --step, else the automated ones",
    ),
    (
        "retire NODE…",
        "Set the retired flag; with --unset, take it off",
    ),
    (
        "maintenance NODE…",
        "Set the maintenance flag; with --unset, take it off",
    ),
    (
        "rotate-bmc-password NODE…",
        "Give the accounts of controllers new passwords",
    ),
    ("forget NODE…", "Drop records"),
    (
        "accept NODE…",
        "Record identities or differences as they are now",
    ),
    ("remediate [NODE…]", "Bring failed machines back"),
    (
        "remediate --watch",
        "Stay, and remediate on request; with `apply`",
    ),
    ("guards", "Put the guards of the documents in force alone"),
];

/// The list of actions, for people.
pub(super) fn list() -> String {
    let width = |usage: &str| usage.chars().count();
    let widest = ACTIONS.iter().map(|(usage, _)| width(usage)).max();
    let widest = widest.unwrap_or_default();
    let rows = ACTIONS.iter().map(|(usage, about)| {
        let padding = " ".repeat(widest - width(usage));
        format!("  {usage}{padding}  {about}\n")
    });
    rows.collect()
}

/// The first words of all actions.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    ACTIONS
        .iter()
        .filter_map(|(usage, _)| usage.split(' ').next())
}

/// The action that some words ask for, and the nodes; `None` if the first is no action.
pub(super) fn parse<'w>(
    words: &'w [String],
    arguments: &ActionArguments,
) -> Result<Option<(Action, &'w [String])>, Failure> {
    let Some((first, rest)) = words.split_first() else {
        return Ok(Some((Action::Update, &[])));
    };
    let action = match (first.as_str(), arguments.unset) {
        ("retire", true) => Action::Unretire,
        ("maintenance", true) => Action::UnsetMaintenance,
        ("power", _) => {
            return match rest.split_first() {
                Some((word, nodes)) if word == "on" => Ok(Some((Action::PowerOn, nodes))),
                Some((word, nodes)) if word == "off" => Ok(Some((Action::PowerOff, nodes))),
                _ => {
                    let failure = usage("`power` wants `on` or `off`, and then nodes");
                    let word = rest.first().map_or("", String::as_str);
                    Err(match matches!(word, "cycle" | "reset" | "reboot") {
                        true => failure.hint(RESTARTS),
                        false => failure,
                    })
                }
            };
        }
        (word, _) => match Action::named(word) {
            Some(action) => action,
            None => return Ok(None),
        },
    };
    Ok(Some((action, rest)))
}

const RESTARTS: &str = "`trueup apply drain NODE`, `power off NODE`, `power on NODE` and `uncordon NODE` restart it, and `trueup apply remediate NODE` brings a failed one back";

/// Actions of other tools, and what does the same here.
const FOREIGN: [(&str, &str); 7] = [
    (
        "cordon",
        "`trueup apply drain NODE` cordons nodes and evicts their pods",
    ),
    ("rebuild", "`trueup apply redeploy NODE` builds it anew"),
    ("reboot", RESTARTS),
    ("reinstall", "`trueup apply redeploy NODE` builds it anew"),
    ("remove", "`trueup apply teardown NODE` erases machines"),
    ("restart", RESTARTS),
    ("wipe", "`trueup apply teardown NODE` erases machines"),
];

/// The way to the same by an action of another tool.
pub(super) fn of_another_tool(word: &str) -> Option<&'static str> {
    let row = FOREIGN.iter().find(|(foreign, _)| *foreign == word);
    row.map(|(_, hint)| *hint)
}

/// That a word is no action, with the nearest that is.
pub(super) fn unknown(word: &str) -> Failure {
    let failure = |more: &str| usage(&format!("there is no action `{word}`{more}"));
    if let Some(hint) = of_another_tool(word) {
        return failure("").hint(hint);
    }
    match nearest(word, words()) {
        Some(near) => failure(&format!("; did you mean `{near}`?")),
        None => failure("").hint(
            "`trueup actions` lists them; `--target NODE` narrows a plan of the documents to some nodes",
        ),
    }
}

/// An action, with the words behind `plan` or `apply` that ask for it.
pub(super) fn usage_of(word: &str, next: Option<&str>) -> Option<(&'static str, String)> {
    let mut all = ACTIONS.iter().map(|(usage, _)| *usage);
    let begins = |usage: &&str, at, word| usage.split(' ').nth(at) == word;
    let of_both = |usage: &&str| begins(usage, 0, Some(word)) && begins(usage, 1, next);
    let usage =
        (all.clone().find(of_both)).or_else(|| all.find(|usage| begins(usage, 0, Some(word))))?;
    let name = usage.split(' ').next().unwrap_or_default();
    Some((name, usage.replace("NODE…", "NODE")))
}

fn usage(message: &str) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

impl ActionArguments {
    /// The request.
    ///
    /// # Errors
    ///
    /// A flag does not belong to the action, or has an invalid value.
    pub(super) fn request(&self, action: Action, nodes: &[String]) -> Result<Request, Failure> {
        self.check(action)?;
        if action == Action::Update && !nodes.is_empty() {
            return Err(usage("`update` is about the whole site")
                .hint("`--target` narrows it to some nodes"));
        }
        if self.all && !nodes.is_empty() {
            return Err(usage(
                "`--all` takes every machine, so no node can be named beside it",
            ));
        }
        let everything = self.all.then(|| Arc::from(guard::ALL));
        let clean_steps = self.step.iter().map(|step| clean_step(step));
        Ok(Request {
            action,
            nodes: split_words(nodes)
                .into_iter()
                .map(Arc::from)
                .chain(everything)
                .collect(),
            reason: self.reason.as_deref().map(Arc::from),
            clean_steps: clean_steps.collect::<Result<_, _>>()?,
            fields: self.field.iter().map(|path| path.as_str().into()).collect(),
            undo: self.unset && action == Action::Accept,
            as_is: self.as_is,
        })
    }

    /// Of differences that are accepted, or are no more.
    pub(super) fn of_fields(field: Vec<String>, reason: Option<String>, unset: bool) -> Self {
        Self {
            field,
            reason,
            unset,
            ..Self::default()
        }
    }

    /// How nodes leave their clusters.
    pub(super) fn leaving(&self) -> Leaving {
        let set = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
        Leaving {
            drain_timeout: self.drain_node_timeout,
            drain_grace_period: self.drain_node_grace_period,
            on_drain_timeout: self.on_drain_timeout.map(|what| match what {
                OnTimeout::Fail => OnDrainTimeout::Fail,
                OnTimeout::ForceDelete => OnDrainTimeout::ForceDelete,
                OnTimeout::Continue => OnDrainTimeout::Continue,
            }),
            clear_labels_timeout: self.clear_labels_timeout,
            remove_etcd_timeout: self.remove_etcd_timeout,
            etcd_ready_timeout: self.etcd_ready_timeout,
            preserve_local_storage: self.preserve_local_storage,
            destroy_etcd: set(&self.destroy_etcd),
            no_etcd_here: set(&split_words(&self.no_etcd_here)),
            gone: set(&split_words(&self.node_is_gone)),
            checked_gone: self.i_have_checked,
            forget: self.forget,
        }
    }

    /// How failed machines are brought back.
    pub(super) fn remediation(&self) -> Remediation {
        Remediation {
            max_at_once: self.max_remediations.map(usize::from),
            max_unhealthy: self.max_unhealthy,
            attempts: self.attempts,
            release_node: self.release_node.map(|how| match how {
                ReleaseNode::DeleteNode => Release::DeleteNode,
                ReleaseNode::OutOfService => Release::OutOfService,
            }),
        }
    }

    /// The word for the revision that an action is planned at; `None`: as every plan.
    pub(super) fn revision(&self, action: Action) -> Option<&'static str> {
        match action {
            Action::Update => None,
            _ if action.has_target_revision() => Some(
                self.target_revision
                    .unwrap_or(TargetRevision::SuccessfulSiteAction)
                    .as_str(),
            ),
            _ => Some("committed"),
        }
    }

    /// Whether times were given that may contradict each other.
    pub(super) fn gives_times(&self) -> bool {
        self.drain_node_timeout.is_some() || self.drain_node_grace_period.is_some()
    }

    /// The flags that were given.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let all = self.times(Action::Update).into_iter();
        let all = all.chain(self.flags(Action::Update));
        all.filter(|(_, given, _)| *given).map(|(flag, ..)| flag)
    }

    /// Checks that the flags belong to an action, and agree.
    fn check(&self, action: Action) -> Result<(), Failure> {
        let mut flags = self.times(action).into_iter().chain(self.flags(action));
        let stray = flags.find(|(_, given, belongs)| *given && !belongs);
        if let Some((flag, ..)) = stray {
            return Err(usage(&format!("`{flag}` does not belong to `{action}`")));
        }
        if self.i_have_checked && self.node_is_gone.is_empty() {
            return Err(usage(
                "`--i-have-checked` needs a machine that `--node-is-gone` names",
            ));
        }
        self.check_fields(action)?;
        if let (Some(grace), Some(timeout)) =
            (self.drain_node_grace_period, self.drain_node_timeout)
            && grace >= timeout
        {
            return Err(usage(&format!(
                "a drain's grace period must be less than its timeout: {grace} s are not less than {timeout} s"
            )));
        }
        Ok(())
    }

    /// Checks that an acceptance says of what, and why.
    fn check_fields(&self, action: Action) -> Result<(), Failure> {
        let is_of_fields = !self.field.is_empty() || self.as_is;
        let explains = self.reason.is_some() || self.unset;
        match action == Action::Accept {
            true if explains && !is_of_fields => Err(usage(
                "`--reason` and `--unset` belong to the differences that `accept --field` names",
            )),
            true if is_of_fields && !explains => Err(usage(
                "`accept --field` needs `--reason`, which every plan shows",
            )),
            _ => Ok(()),
        }
    }

    /// The times, whether each was given, and whether it belongs to an action.
    fn times(&self, action: Action) -> [(&'static str, bool, bool); 5] {
        let leaves = action.leaves_clusters();
        let row = |flag, given: Option<u64>, of| (flag, given.is_some(), leaves || action == of);
        let (grace, drain) = (self.drain_node_grace_period, self.drain_node_timeout);
        let (clear, remove) = (self.clear_labels_timeout, self.remove_etcd_timeout);
        [
            row("--drain-node-timeout", drain, Action::Drain),
            row("--drain-node-grace-period", grace, Action::Drain),
            row("--clear-labels-timeout", clear, Action::ClearLabels),
            row("--remove-etcd-timeout", remove, Action::RemoveEtcd),
            row(
                "--etcd-ready-timeout",
                self.etcd_ready_timeout,
                Action::CheckEtcd,
            ),
        ]
    }

    /// The other flags, whether each was given, and whether it belongs to an action.
    fn flags(&self, action: Action) -> [(&'static str, bool, bool); 18] {
        use Action as A;
        let leaves = action.leaves_clusters();
        let drains = leaves || action == A::Drain;
        let goes = drains || action == A::RemoveFromCluster;
        let removes = leaves || matches!(action, A::RemoveEtcd | A::Destroy | A::PowerOff);
        let remedies = action == A::Remediate;
        let about_etcd = removes || remedies;
        let erases = matches!(action, A::Update | A::Redeploy | A::Teardown | A::Destroy);
        let gone = removes || goes || matches!(action, A::ClearLabels);
        let forgets = matches!(action, A::Teardown | A::Destroy);
        let has_reason = matches!(action, A::Retire | A::SetMaintenance | A::Accept);
        let unsets = matches!(action, A::Unretire | A::UnsetMaintenance | A::Accept);
        let keeps = self.preserve_local_storage;
        let most = self.max_remediations.is_some();
        let revision = self.target_revision.is_some();
        let has_revision = action.has_target_revision();
        [
            ("--all", self.all, action.is_targeted()),
            ("--on-drain-timeout", self.on_drain_timeout.is_some(), goes),
            ("--preserve-local-storage", keeps, erases),
            ("--target-revision", revision, has_revision),
            ("--destroy-etcd", !self.destroy_etcd.is_empty(), about_etcd),
            ("--no-etcd-here", !self.no_etcd_here.is_empty(), about_etcd),
            ("--node-is-gone", !self.node_is_gone.is_empty(), gone),
            ("--i-have-checked", self.i_have_checked, gone),
            ("--forget", self.forget, forgets),
            ("--step", !self.step.is_empty(), action == A::Clean),
            ("--as-is", self.as_is, action == A::Accept),
            ("--field", !self.field.is_empty(), action == A::Accept),
            ("--reason", self.reason.is_some(), has_reason),
            ("--unset", self.unset, unsets),
            ("--max-remediations", most, remedies),
            ("--max-unhealthy", self.max_unhealthy.is_some(), remedies),
            ("--attempts", self.attempts.is_some(), remedies),
            ("--release-node", self.release_node.is_some(), remedies),
        ]
    }
}

fn clean_step(text: &str) -> Result<CleanStep, Failure> {
    let (name, arguments) = match text.split_once('=') {
        Some((name, arguments)) => (name, Some(arguments)),
        None => (text, None),
    };
    let mut step = match name.split_once('.') {
        Some((interface, step)) if !interface.is_empty() && !step.is_empty() => {
            CleanStep::new(interface, step)
        }
        _ => {
            return Err(usage(&format!(
                "`--step {name}` is not of the form `interface.step` or `interface.step={{\"argument\": …}}`"
            )));
        }
    };
    if let Some(arguments) = arguments {
        let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)
            .map_err(|_| {
                usage(&format!(
                    "the arguments of `--step {name}` are not a JSON map such as `{{\"argument\": 1}}`"
                ))
            })?;
        step.arguments = Some(Arc::from(serde_json::Value::Object(map).to_string()));
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_actions_is_complete() {
        for action in Action::ALL {
            let word = action.as_str().split(" --").next().unwrap();
            let is_listed = |(usage, _): &(&str, &str)| {
                usage
                    .strip_prefix(word)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            };
            assert!(ACTIONS.iter().any(is_listed), "{word}");
        }
        for word in words() {
            let is_action = |action: &Action| action.as_str().split(' ').next() == Some(word);
            assert!(Action::ALL.iter().any(is_action), "{word}");
        }
    }

    #[test]
    fn a_clean_step_has_its_arguments_as_json_behind_its_name() {
        let step = clean_step(r#"raid.create_configuration={"b": 1, "a": [true]}"#).unwrap();
        assert_eq!(step.name(), "raid.create_configuration");
        assert_eq!(step.arguments.as_deref(), Some(r#"{"a":[true],"b":1}"#));
        assert_eq!(clean_step("bios.reset").unwrap().arguments, None);
        for bad in [
            "bios",
            "bios.reset=",
            "bios.reset=[1]",
            "bios.reset=x",
            ".x={}",
        ] {
            assert!(clean_step(bad).is_err(), "{bad}");
        }
    }
}
