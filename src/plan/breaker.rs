//! The circuit breaker of remediation: with too many unhealthy machines, it is not the machines.
//!
//! It is asked where a remediation is planned and where it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::item::Item;
use super::remedy::{asks, is_begun};
use super::subject::Subject;
use crate::design::{FailureDomain, Guards, NodeDesign, NodeName};
use crate::lifecycle::PowerState;
use crate::observed::{Fact, Observations, ObservedNode};
use crate::remediation::{Broken, Share, UnhealthyCount, breaker};

/// The domain that counts if a policy names no failure domains.
static RACK: FailureDomain = FailureDomain::Rack;

/// A machine as the circuit breaker counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachineHealth {
    /// It is in no cluster, and was not deployed into one.
    NotCounted,
    Healthy,
    /// Its node came back so many seconds ago.
    Returned(u64),
    Unhealthy,
}

impl MachineHealth {
    /// The health of a machine. Its node that is not Ready or not found, its power and the request for its remediation show that it has
    /// failed; what could not be observed shows nothing.
    fn of(machine: Option<&ObservedNode>, is_deployed: bool, asks: bool) -> Self {
        let node = machine.and_then(|machine| match &machine.cluster {
            Fact::Known(node) => Some(node.as_ref()),
            Fact::Unknown(_) => None,
        });
        let is_in = matches!(node, Some(Some(_)));
        if !is_in && !is_deployed {
            return Self::NotCounted;
        }
        let is_off = machine.is_some_and(|machine| machine.power == Fact::Known(PowerState::Off));
        let has_failed = node.is_some_and(|node| node.is_none_or(|node| !node.ready));
        if has_failed || is_off || asks {
            return Self::Unhealthy;
        }
        match node.flatten().and_then(|node| node.returned) {
            Some(ago) => Self::Returned(ago),
            None => Self::Healthy,
        }
    }
}

/// Whose machines are counted: the site's, or those of one of its failure domains.
type CountedDomain = Option<(FailureDomain, Arc<str>)>;

/// The circuit breaker over a site and each of its failure domains.
struct Breaker<'a> {
    limit: Share,
    cooldown: u64,
    domains: Vec<&'a FailureDomain>,
    /// Where machines stand in another revision whose guards hold, too.
    elsewhere: &'a BTreeMap<NodeName, BTreeSet<(FailureDomain, Arc<str>)>>,
    tallies: BTreeMap<CountedDomain, UnhealthyCount>,
}

/// That machines are not remediated, since too many of their site or failure domain are unhealthy, or were a moment ago.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TooManyUnhealthy {
    domain: CountedDomain,
    broken: Broken,
    cooldown: u64,
}

impl fmt::Display for TooManyUnhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken {
            tally,
            allowed,
            limit,
        } = self.broken;
        let (unhealthy, machines) = (tally.unhealthy, tally.machines);
        let of = match &self.domain {
            None => String::new(),
            Some((FailureDomain::Rack, rack)) => format!(" of rack `{rack}`"),
            Some((FailureDomain::Label(key), value)) => format!(" with label `{key}={value}`"),
        };
        if unhealthy > allowed {
            return write!(
                f,
                "{unhealthy} of {machines} machines{of} are unhealthy, and with more than {allowed} ({limit}) none is remediated: look for a common cause"
            );
        }
        let (returned, cooldown) = (tally.returned, self.cooldown);
        let are = if unhealthy == 1 { "is" } else { "are" };
        write!(
            f,
            "of {machines} machines{of}, {unhealthy} {are} unhealthy and {returned} came back in the last {cooldown} s: after more than {allowed} ({limit}) at once, none is remediated before that is over"
        )
    }
}

impl<'a> Breaker<'a> {
    fn new(guards: &'a Guards, limit: Share) -> Self {
        let named = &guards.policy.failure_domains.by;
        Self {
            limit,
            cooldown: guards.policy.remediation.cooldown(),
            domains: match named.is_empty() {
                true => vec![&RACK],
                false => named.iter().collect(),
            },
            elsewhere: &guards.policy.failure_domains.elsewhere,
            tallies: BTreeMap::new(),
        }
    }

    /// The site and the failure domains that a machine belongs to.
    fn counted_domains(&self, node: &NodeDesign) -> impl Iterator<Item = CountedDomain> {
        let own = self.domains.iter();
        let own = own.filter_map(|domain| Some(((*domain).clone(), domain.of(node)?.clone())));
        let others = self.elsewhere.get(&node.name).into_iter().flatten();
        let others = others.filter(|(domain, _)| self.domains.contains(&domain));
        let all: BTreeSet<_> = own.chain(others.cloned()).collect();
        std::iter::once(None).chain(all.into_iter().map(Some))
    }

    fn count(&mut self, node: &NodeDesign, health: MachineHealth) {
        let (is_unhealthy, is_returned) = match health {
            MachineHealth::NotCounted => return,
            MachineHealth::Healthy => (false, false),
            MachineHealth::Returned(ago) => (false, ago < self.cooldown),
            MachineHealth::Unhealthy => (true, false),
        };
        let counted_domains: Vec<_> = self.counted_domains(node).collect();
        for domain in counted_domains {
            let tally = self.tallies.entry(domain).or_default();
            tally.machines += 1;
            tally.unhealthy += usize::from(is_unhealthy);
            tally.returned += usize::from(is_returned);
        }
    }

    /// How many machines of the site count.
    fn counted(&self) -> usize {
        self.tallies.get(&None).map_or(0, |tally| tally.counted())
    }

    /// Whether a machine may be remediated; `None`: one of which nothing is designed.
    fn allows(&self, node: Option<&NodeDesign>) -> Result<(), TooManyUnhealthy> {
        let counted_domains: Vec<_> = match node {
            Some(node) => self.counted_domains(node).collect(),
            None => vec![None],
        };
        counted_domains.into_iter().try_for_each(|domain| {
            let tally = self.tallies.get(&domain).copied().unwrap_or_default();
            breaker(tally, self.limit).map_err(|broken| TooManyUnhealthy {
                domain,
                broken,
                cooldown: self.cooldown,
            })
        })
    }
}

/// Blocks what the circuit breaker does not allow. A running remediation is finished all the same, so that no machine stays off.
pub(super) fn judge<'i, 's>(
    mut items: Vec<Item<'i>>,
    subjects: impl Iterator<Item = Subject<'s>>,
    guards: &Guards,
    limit: Share,
) -> Vec<Item<'i>> {
    let mut breaker = Breaker::new(guards, limit);
    for subject in subjects {
        if let Some(node) = subject.missed_as() {
            let is_deployed = subject.is_recorded_deployed();
            breaker.count(
                node,
                MachineHealth::of(subject.machine, is_deployed, asks(&subject)),
            );
        }
    }
    for item in items.iter_mut().filter(|item| !is_begun(&item.subject)) {
        if let Err(many) = breaker.allows(item.subject.missed_as()) {
            let flag = format!("--max-unhealthy {}", breaker.counted());
            item.block_as(&many.to_string(), Some(&flag));
        }
    }
    items
}

/// The circuit breaker at the instant at which the remediation of a machine begins, over all machines of the site, with those that are
/// recorded and have left its design. What is deployed is told by the provisioners alone: records are not read again.
///
/// # Errors
///
/// Too many are unhealthy.
pub fn may_remediate(
    node: &NodeDesign,
    all: &[Arc<NodeDesign>],
    seen: &Observations,
    (guards, limit): (&Guards, Share),
) -> Result<(), TooManyUnhealthy> {
    let mut breaker = Breaker::new(guards, limit);
    for each in all {
        let Some(machine) = seen.nodes.get(&each.name) else {
            continue;
        };
        let is_deployed = matches!(&machine.provision, Fact::Known(state) if state.is_deployed());
        let remediation = seen.remediation.get(&each.name);
        let asks = remediation.is_some_and(|seen| seen.needs_remediation);
        breaker.count(each, MachineHealth::of(Some(machine), is_deployed, asks));
    }
    breaker.allows(Some(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Policy;
    use crate::observed::ClusterNode;

    #[test]
    fn the_breaker_counts_machines_alike_in_plan_and_act() {
        use MachineHealth::{Healthy, NotCounted, Returned, Unhealthy};
        let node = |ready| {
            Fact::Known(Some(ClusterNode {
                ready,
                ..ClusterNode::default()
            }))
        };
        let back = |ready, ago| {
            Fact::Known(Some(ClusterNode {
                ready,
                returned: Some(ago),
                ..ClusterNode::default()
            }))
        };
        let unread = || Fact::Unknown(Arc::from("not read"));
        let (on, off) = (Fact::Known(PowerState::On), Fact::Known(PowerState::Off));
        let table = [
            (node(true), on.clone(), false, false, Healthy),
            (node(false), on.clone(), false, false, Unhealthy),
            (back(true, 30), on.clone(), false, false, Returned(30)),
            (back(true, 30), off.clone(), false, false, Unhealthy),
            (back(false, 30), on.clone(), false, false, Unhealthy),
            // Its kubelet was heard of a moment ago.
            (node(true), off.clone(), false, false, Unhealthy),
            (node(true), on.clone(), false, true, Unhealthy),
            (Fact::Known(None), on.clone(), true, false, Unhealthy),
            (Fact::Known(None), on.clone(), false, false, NotCounted),
            (Fact::Known(None), off.clone(), false, true, NotCounted),
            (unread(), on, true, false, Healthy),
            (unread(), off, true, false, Unhealthy),
            (unread(), unread_power(), false, false, NotCounted),
        ];
        for (cluster, power, is_deployed, asks, expected) in table {
            let mut machine = ObservedNode::unknown("a test");
            (machine.cluster, machine.power) = (cluster, power);
            let found = MachineHealth::of(Some(&machine), is_deployed, asks);
            assert_eq!(found, expected, "{machine:?} {is_deployed} {asks}");
        }
    }

    fn unread_power() -> Fact<PowerState> {
        Fact::Unknown(Arc::from("not read"))
    }

    /// The breaker of a site of machines, each with its rack, its value of the label `feed` and its health.
    fn tallied<'a>(guards: &'a Guards, machines: &[(&str, &str, MachineHealth)]) -> Breaker<'a> {
        let mut breaker = Breaker::new(guards, Share::Percent(40));
        for (rack, feed, health) in machines {
            breaker.count(&machine(rack, feed), *health);
        }
        breaker
    }

    fn machine(rack: &str, feed: &str) -> NodeDesign {
        NodeDesign {
            rack: Some(Arc::from(rack)),
            labels: Arc::new([(Arc::from("feed"), Arc::from(feed))].into()),
            ..crate::plan::tests::node("n1")
        }
    }

    fn by(domains: &[FailureDomain]) -> Guards {
        let mut policy = Policy::default();
        policy.failure_domains.by = domains.iter().cloned().collect();
        Guards {
            policy,
            ..Guards::default()
        }
    }

    const SIX: [(&str, &str); 6] = [
        ("r1", "a"),
        ("r1", "b"),
        ("r1", "a"),
        ("r2", "b"),
        ("r2", "a"),
        ("r2", "b"),
    ];

    /// The six machines, of which some have a health and the others are healthy.
    fn six(healths: &[(usize, MachineHealth)]) -> Vec<(&'static str, &'static str, MachineHealth)> {
        let of = |at: usize| healths.iter().find(|(one, _)| *one == at);
        let machines = SIX.iter().enumerate();
        machines
            .map(|(at, (rack, feed))| {
                (
                    *rack,
                    *feed,
                    of(at).map_or(MachineHealth::Healthy, |(_, is)| *is),
                )
            })
            .collect()
    }

    #[test]
    fn a_storm_in_a_failure_domain_holds_its_machines_and_no_others() {
        let guards = by(&[]);
        let breaker = tallied(
            &guards,
            &six(&[(0, MachineHealth::Unhealthy), (1, MachineHealth::Unhealthy)]),
        );
        let held = breaker.allows(Some(&machine("r1", "b"))).unwrap_err();
        assert_eq!(
            held.to_string(),
            "2 of 3 machines of rack `r1` are unhealthy, and with more than 1 (40%) none is remediated: look for a common cause"
        );
        assert_eq!(breaker.allows(Some(&machine("r2", "b"))), Ok(()));

        // The domains that a policy names count, and racks if it names none.
        let guards = by(&[FailureDomain::Label(Arc::from("feed"))]);
        let breaker = tallied(
            &guards,
            &six(&[(0, MachineHealth::Unhealthy), (1, MachineHealth::Unhealthy)]),
        );
        assert_eq!(breaker.allows(Some(&machine("r1", "b"))), Ok(()));
        let breaker = tallied(
            &guards,
            &six(&[(1, MachineHealth::Unhealthy), (3, MachineHealth::Unhealthy)]),
        );
        let held = breaker.allows(Some(&machine("r1", "b"))).unwrap_err();
        assert_eq!(
            held.to_string(),
            "2 of 3 machines with label `feed=b` are unhealthy, and with more than 1 (40%) none is remediated: look for a common cause"
        );
        assert_eq!(breaker.allows(Some(&machine("r1", "a"))), Ok(()));
    }

    #[test]
    fn a_machine_that_a_commit_moves_counts_in_its_old_rack_too() {
        let mut guards = by(&[]);
        let moved = BTreeSet::from([(FailureDomain::Rack, Arc::from("r1"))]);
        let elsewhere = &mut guards.policy.failure_domains.elsewhere;
        elsewhere.insert(machine("r9", "a").name, moved);
        let breaker = Breaker::new(&guards, Share::Percent(40));
        let domains: Vec<_> = breaker.counted_domains(&machine("r9", "a")).collect();
        let rack = |name: &str| Some((FailureDomain::Rack, Arc::from(name)));
        assert_eq!(domains, [None, rack("r1"), rack("r9")]);
    }

    #[test]
    fn after_a_storm_nothing_is_remediated_until_its_machines_have_stayed_for_the_cooldown() {
        let guards = by(&[]);
        let cooldown = guards.policy.remediation.cooldown();
        let storm = |ago| {
            six(&[
                (0, MachineHealth::Unhealthy),
                (3, MachineHealth::Returned(ago)),
                (4, MachineHealth::Returned(ago)),
            ])
        };
        let breaker = tallied(&guards, &storm(cooldown - 1));
        assert_eq!(breaker.counted(), 3);
        let held = breaker.allows(Some(&machine("r1", "a"))).unwrap_err();
        assert_eq!(
            held.to_string(),
            "of 6 machines, 1 is unhealthy and 2 came back in the last 600 s: after more than 2 (40%) at once, none is remediated before that is over"
        );
        let breaker = tallied(&guards, &storm(cooldown));
        assert_eq!(breaker.allows(Some(&machine("r1", "a"))), Ok(()));
        assert_eq!(breaker.counted(), 1);
    }
}
