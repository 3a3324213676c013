//! The site by its committed design and its records, made once for each commit, state of the records and day.
//!
//! It is made of one plan that asks no machine: a request of status costs a glance at two refs and the bytes of its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use rustc_hash::FxHashSet;

use super::view::{NodeDrift, NodeStatus, NodeView, StatusView};
use crate::design::{NodeName, SiteTimeZone};
use crate::guard::Machines;
use crate::plan::{Change, ChangeKind, Plan, Request};
use crate::record::{NodeRecord, Phase, Store};
use crate::report::json::line;
use crate::report::run::{NodeRow, differences, node_rows};
use crate::reservation::Reservations;
use crate::run::Connection;
use crate::serve::host::Host;
use crate::serve::rights::Parts;
use crate::site::At;
use crate::threads::lock;
use crate::workflow::{
    Checkout, Failure, Observed, PlanRequest, Planned, Planner, known_reservations,
};

/// How long the site is taken for what it was without a look: a burst of requests costs one.
const FRESH: Duration = Duration::from_millis(250);

/// The commit, the records and the reservations that a view was made of.
type Version = (String, String, Reservations);

/// The site by its committed design and its records.
#[derive(Debug)]
pub(in crate::serve) struct SiteView {
    pub(in crate::serve) status: StatusView,
    pub(in crate::serve) drift: Vec<NodeDrift>,
    /// The designs of nodes, sorted by name.
    pub(in crate::serve) nodes: Vec<NodeView>,
    phases: BTreeMap<&'static str, usize>,
    /// The nodes that the words mean by which rights are bound.
    parts: BTreeMap<Arc<str>, FxHashSet<NodeName>>,
    /// The day that it was made of, and the time zone in which it ends.
    day: (Arc<str>, SiteTimeZone),
    pub(super) status_json: Bytes,
    pub(super) nodes_json: Bytes,
}

impl SiteView {
    /// How many nodes the records have in a phase.
    pub(in crate::serve) fn in_phase(&self, phase: Phase) -> usize {
        self.phases.get(phase.as_str()).copied().unwrap_or_default()
    }

    /// Whether it was made on the day of a time, in seconds since 1970.
    fn is_of_day(&self, seconds: i64) -> bool {
        let (day, time_zone) = &self.day;
        time_zone.day(seconds) == *day
    }

    /// How many nodes differ from the design.
    pub(in crate::serve) fn differing(&self) -> usize {
        self.status.differing
    }
}

impl SiteView {
    /// The words by which rights are bound that mean no node.
    pub(in crate::serve) fn words_of_none(&self) -> impl Iterator<Item = &Arc<str>> {
        let empty = self.parts.iter().filter(|(_, nodes)| nodes.is_empty());
        empty.map(|(word, _)| word)
    }
}

impl Parts for SiteView {
    fn means(&self, word: &str, node: &str) -> bool {
        let part = self.parts.get(word);
        part.is_some_and(|nodes| nodes.contains(node))
    }
}

#[derive(Debug)]
struct Known {
    version: Version,
    checked: Instant,
    view: Arc<SiteView>,
}

/// The newest view of the site.
#[derive(Debug)]
pub(in crate::serve) struct SiteCache {
    known: Mutex<Option<Known>>,
    /// The words by which rights are bound.
    words: BTreeSet<Arc<str>>,
}

impl SiteCache {
    /// None yet; of each, the nodes are known that these words mean.
    pub(in crate::serve) fn new(words: BTreeSet<Arc<str>>) -> Self {
        Self {
            known: Mutex::default(),
            words,
        }
    }

    /// Whether there are such words.
    pub(in crate::serve) fn has_parts(&self) -> bool {
        !self.words.is_empty()
    }

    /// The site as it is now.
    pub(in crate::serve) fn view(&self, host: &dyn Host) -> Result<Arc<SiteView>, Failure> {
        let mut known = lock(&self.known);
        if let Some(known) = &*known
            && known.checked.elapsed() < FRESH
        {
            return Ok(known.view.clone());
        }
        let repository = host.repository()?;
        let checkout = host.checkout(&repository)?;
        let store = Store::open(&repository, &checkout.location.site)?;
        let tip = store.read()?.tip;
        let seconds = i64::try_from(host.seconds()).unwrap_or(i64::MAX);
        let version = (
            checkout.head()?.to_string(),
            tip.map(|tip| tip.to_string()).unwrap_or_default(),
            known_reservations(&checkout, seconds)?,
        );
        let checked = Instant::now();
        if let Some(known) = &mut *known
            && known.version == version
            && known.view.is_of_day(seconds)
        {
            known.checked = checked;
            return Ok(known.view.clone());
        }
        let view = Arc::new(view(host, &checkout, &version, &self.words)?);
        *known = Some(Known {
            version,
            checked: Instant::now(),
            view: view.clone(),
        });
        Ok(view)
    }
}

/// The plan of what is committed, by what is observed; without reservations, by those of the remote.
pub(super) fn plan(
    host: &dyn Host,
    checkout: &Checkout<'_>,
    connection: &Connection<'_>,
    (observed, reservations): (Observed, Option<Reservations>),
) -> Result<Planned, Failure> {
    let plan_request = PlanRequest {
        observed,
        reservations,
        without_forecast: true,
        by_checkpoints: false,
        only_looks: true,
        ..host.plan_request()
    };
    let planner = Planner {
        client: host.client(),
        checkout,
        at: At::Commit(checkout.head()?),
        connection,
        request: &Request::default(),
        plan_request: &plan_request,
    };
    planner.plan()
}

fn view(
    host: &dyn Host,
    checkout: &Checkout<'_>,
    (revision, _, reservations): &Version,
    words: &BTreeSet<Arc<str>>,
) -> Result<SiteView, Failure> {
    let known = Some(reservations.clone());
    let planned = plan(
        host,
        checkout,
        &Connection::Alone,
        (Observed::Nothing, known),
    )?;
    let (design, records) = (&planned.guarded, &planned.records);
    let changes: BTreeMap<&NodeName, &Change> = planned
        .plan
        .changes
        .iter()
        .filter(|change| change.kind != ChangeKind::None)
        .map(|change| (&change.node, change))
        .collect();
    let machines = Machines::new(design, &design.guards().groups, records);
    let parts = words.iter().map(|word| {
        // A word that means nothing here gives no right.
        let nodes = machines.meant_by(word).unwrap_or_default();
        (word.clone(), nodes.into_iter().cloned().collect())
    });
    let parts = parts.collect();
    let names: BTreeSet<&NodeName> = design.nodes.keys().chain(records.keys()).collect();
    let today = &planned.plan.options.as_of;
    let rows: Vec<NodeRow<'_>> = node_rows(design, records, today).collect();
    let retired: BTreeMap<&NodeName, &str> = rows
        .iter()
        .filter_map(|row| Some((&row.design.name, row.retired?)))
        .collect();
    let statuses = names.into_iter().map(|name| {
        let is_designed = design.nodes.contains_key(name);
        let mut status = node_status(name, is_designed, records.get(name));
        if let Some(reason) = retired.get(name) {
            status.retired = Some((*reason).to_owned());
        }
        status.reserved = reservations.of(name.as_str()).map(ToString::to_string);
        if let Some(change) = changes.get(name) {
            status.differs = differences(change)
                .iter()
                .map(ToString::to_string)
                .collect();
        }
        status
    });
    let nodes: Vec<NodeView> = rows.iter().map(node_view).collect();
    let drift = drifts(&planned.plan);
    let status = StatusView {
        site: checkout.location.site.to_string(),
        revision: revision.clone(),
        differing: drift.len(),
        nodes: statuses.collect(),
    };
    let mut phases = BTreeMap::new();
    for record in records.values() {
        *phases.entry(record.phase.as_str()).or_default() += 1;
    }
    Ok(SiteView {
        status_json: Bytes::from(line(&status)? + "\n"),
        nodes_json: Bytes::from(line(&nodes)? + "\n"),
        status,
        drift,
        nodes,
        phases,
        parts,
        day: (today.clone(), design.guards().policy.time_zone.clone()),
    })
}

fn node_status(name: &NodeName, is_designed: bool, record: Option<&NodeRecord>) -> NodeStatus {
    let of = |text: fn(&NodeRecord) -> Option<&str>| record.and_then(text).map(str::to_owned);
    NodeStatus {
        node: name.to_string(),
        is_designed,
        phase: record.map(|record| record.phase.as_str()),
        revision: of(|record| record.revision.as_deref()),
        run: of(|record| Some(record.run.as_str())),
        retired: of(|record| record.retired.as_deref()),
        maintenance: of(|record| record.maintenance.as_deref()),
        reserved: None,
        last_error: of(|record| record.last_error.as_deref()),
        differs: Vec::new(),
    }
}

fn node_view(row: &NodeRow<'_>) -> NodeView {
    let design = row.design;
    NodeView {
        name: design.name.to_string(),
        rack: design.rack.as_deref().map(str::to_owned),
        groups: row.groups.iter().map(ToString::to_string).collect(),
        host_profiles: design
            .host_profiles
            .iter()
            .map(ToString::to_string)
            .collect(),
        hardware_profile: design.hardware_profile.as_deref().map(str::to_owned),
        tags: design.tags.iter().map(ToString::to_string).collect(),
        labels: design
            .labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
    }
}

/// The nodes that a plan would change.
pub(super) fn drifts(plan: &Plan) -> Vec<NodeDrift> {
    let changes = plan.changes.iter();
    let changes = changes.filter(|change| change.kind != ChangeKind::None);
    changes
        .map(|change| NodeDrift {
            node: change.node.to_string(),
            change: serde_json::to_value(change.kind)
                .ok()
                .and_then(|kind| kind.as_str().map(str::to_owned))
                .unwrap_or_default(),
            differs: differences(change)
                .iter()
                .map(ToString::to_string)
                .collect(),
        })
        .collect()
}
