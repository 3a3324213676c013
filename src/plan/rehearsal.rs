//! The rehearsal of a plan: what its run came to in many simulated runs in which steps go wrong.

use serde::Serialize;

use crate::design::{ClusterName, GroupName};

/// The results of simulated runs of a plan. Each has a seed, by which it is rehearsed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rehearsal {
    /// How many runs there were.
    pub runs: usize,
    /// The seed of the first; each next one has the next number.
    pub first_seed: u64,
    /// Of a hundred attempts of steps, how many go wrong.
    pub faults: u64,
    /// Runs that failed: a critical group did, or a step of the site, or too many nodes.
    pub failed: usize,
    /// The groups that are worked on, in the order in which they run.
    pub groups: Vec<RehearsedGroup>,
    /// The etcd clusters that lose members.
    pub etcd: Vec<RehearsedCluster>,
    /// The most machines that were out of service at the same time.
    pub most_away: usize,
    /// The seed of the first run in which so many were.
    pub most_away_seed: u64,
    /// Half of the runs take less, in seconds.
    pub median: u64,
    /// The longest run, in seconds.
    pub longest: u64,
    /// Its seed.
    pub longest_seed: u64,
    /// The run in which most machines were left undone; absent: all were done in each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<WorstRun>,
}

/// A group in the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RehearsedGroup {
    /// Which.
    pub group: GroupName,
    /// Whether the site action fails when it does.
    pub critical: bool,
    /// Runs in which its criteria did not hold, or that stopped before it.
    pub failed: usize,
    /// The seed of the first of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// An etcd cluster in the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RehearsedCluster {
    /// Which.
    pub cluster: ClusterName,
    /// Members that vote, now.
    pub now: usize,
    /// The fewest at any time of any run.
    pub fewest: usize,
    /// The seed of the first run in which there were so few.
    pub seed: u64,
    /// Runs that ended with fewer than the plan would leave.
    pub left_short: usize,
}

/// The run in which most machines were left undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorstRun {
    /// Its seed.
    pub seed: u64,
    /// Machines of which not all is done.
    pub undone: usize,
    /// The steps that went wrong by themselves, with what happened; the first ones.
    pub failures: Vec<String>,
    /// How many more there were.
    pub more: usize,
}
