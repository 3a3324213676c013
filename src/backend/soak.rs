//! The soak behind a wave: the cluster is observed again and again, and has to be healthy each time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{ActError, Cluster, Hardware, Look, Order, Sight};
use crate::design::{NodeDesign, NodeName};
use crate::observed::Fact;
use crate::step::SoakTerms;

/// How often it is looked.
const INTERVAL: Duration = Duration::from_secs(15);
/// How many looks in a row may be without an answer.
const MISSES: usize = 4;

/// Waits for the end of a soak. Without a cluster only time passes. The parts of machines are read as it begins and as it
/// ends: their controllers are slow.
pub(super) async fn await_end(
    order: &Order,
    cluster: Option<&dyn Cluster>,
    hardware: &dyn Hardware,
) -> Result<(), ActError> {
    let Some(terms) = order.step.given().soak().as_deref() else {
        let text = "a soak has no time";
        return Err(ActError::Permanent(Arc::from(text)));
    };
    let whole = Duration::from_secs(terms.seconds);
    let began = Instant::now();
    let mut misses = 0;
    let mut told: Option<(Duration, bool)> = None;
    let mut is_first = true;
    loop {
        let is_last = began.elapsed() >= whole;
        let mut looked = match cluster {
            Some(cluster) => look(cluster, terms).await,
            None => Ok(Vec::new()),
        };
        if is_first || is_last {
            let parts = parts(hardware, &order.soaked).await;
            looked = looked.and_then(|found| Ok([found, parts?].concat()));
            is_first = looked.is_err();
        }
        match looked {
            Ok(problems) if problems.is_empty() => misses = 0,
            Ok(problems) => {
                let text = format!("not healthy in its soak: {}", problems.join("; "));
                return Err(ActError::Permanent(text.into()));
            }
            Err(why) if misses + 1 == MISSES => {
                let text = format!("whether it is healthy in its soak is not known: {why}");
                return Err(ActError::Permanent(text.into()));
            }
            Err(_) => misses += 1,
        }
        if is_last && misses == 0 {
            return Ok(());
        }
        let over = began.elapsed();
        let left = whole.saturating_sub(over);
        // What changes, and else as the time that is left halves: a soak of a day has no thousand lines.
        let is_answered = misses == 0;
        let is_news =
            told.is_none_or(|(last, was_answered)| was_answered != is_answered || left <= last / 2);
        if is_news {
            let state = match is_answered {
                true => "healthy",
                false => "no answer of its cluster",
            };
            let text = format!("{state}, {} s of the soak are left", left.as_secs());
            order.reporter.progress(text);
            told = Some((left, is_answered));
        }
        sleep(left.min(INTERVAL).max(Duration::from_secs(1))).await;
    }
}

/// Returns the problems of a cluster.
async fn look(cluster: &dyn Cluster, terms: &SoakTerms) -> Result<Vec<String>, Arc<str>> {
    let named: BTreeSet<NodeName> = terms.nodes.iter().cloned().collect();
    let what = Look {
        etcd: !terms.etcd.is_empty(),
        ..Look::default()
    };
    let sight = cluster.observe(&named, what).await;
    let mut problems = Vec::new();
    if cluster.knows_nodes() {
        problems.extend(nodes(&sight, terms)?);
        let crashing = cluster.crashing(&terms.namespaces).await;
        let crashing = crashing.map_err(|error| Arc::from(error.to_string()))?;
        problems.extend(
            crashing
                .into_iter()
                .map(|pod| format!("{pod} crashes again and again")),
        );
    }
    for (name, wanted) in &terms.etcd {
        let seen = sight.etcd.get(name);
        let answers = seen.into_iter().flat_map(|seen| seen.answers.values());
        let healthy = answers.filter_map(Fact::known).filter(|answer| {
            answer.decides && answer.leader.is_some() && answer.errors.is_empty() && !answer.learner
        });
        let healthy = healthy.count();
        if healthy < *wanted {
            problems.push(format!(
                "etcd cluster `{name}` has {healthy} healthy members, and {wanted} are wanted"
            ));
        }
    }
    Ok(problems)
}

/// The parts that machines have otherwise than is expected of them.
async fn parts(
    hardware: &dyn Hardware,
    nodes: &[Arc<NodeDesign>],
) -> Result<Vec<String>, Arc<str>> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let mut problems = Vec::new();
    for (name, seen) in hardware.observe(nodes).await {
        let unread = match &seen.provision {
            Fact::Unknown(why) => Some(why),
            Fact::Known(_) => seen.unread_parts.as_ref(),
        };
        if let Some(why) = unread {
            return Err(Arc::from(format!("`{name}`: {why}")));
        }
        problems.extend(
            seen.unexpected_parts()
                .map(|part| format!("`{name}`: {part}")),
        );
    }
    Ok(problems)
}

/// The nodes that are not Ready.
fn nodes(sight: &Sight, terms: &SoakTerms) -> Result<Vec<String>, Arc<str>> {
    let known = match &sight.nodes {
        Fact::Known(known) => known,
        Fact::Unknown(why) => return Err(why.clone()),
    };
    let ready = |name: &&NodeName| known.get(*name).is_some_and(|node| node.ready);
    let not_ready = terms.nodes.iter().filter(|name| !ready(name));
    Ok(not_ready
        .map(|name| format!("`{name}` is not Ready"))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::backend::{Pending, Probe, Reporter};
    use crate::design::RunId;
    use crate::lifecycle::ProvisionState;
    use crate::observed::{ClusterNode, ObservedNode, ObservedNodes};
    use crate::step::{Effect, SoakParameters, Step, StepId, StepKind};

    /// A cluster whose looks were written down: whether its node is Ready; `None`: it does not answer. The last counts on.
    struct Scripted {
        looks: Mutex<Vec<Option<bool>>>,
        crashes_after: Option<usize>,
        looked: Mutex<usize>,
    }

    impl Cluster for Scripted {
        fn observe<'a>(&'a self, _: &'a BTreeSet<NodeName>, _: Look) -> Pending<'a, Sight> {
            Box::pin(async {
                *self.looked.lock().unwrap() += 1;
                let mut looks = self.looks.lock().unwrap();
                let look = if looks.len() > 1 {
                    looks.remove(0)
                } else {
                    looks[0]
                };
                let nodes = look.map(|ready| {
                    let node = ClusterNode {
                        ready,
                        ..crate::backend::site::tests::node("uid")
                    };
                    BTreeMap::from([(NodeName::from("n1"), node)])
                });
                Sight {
                    facts: None,
                    nodes: nodes.map_or_else(|| Fact::Unknown(Arc::from("no answer")), Fact::Known),
                    pods: BTreeMap::new(),
                    etcd: BTreeMap::new(),
                }
            })
        }

        fn crashing<'a>(&'a self, _: &'a [Arc<str>]) -> Pending<'a, Result<Vec<String>, ActError>> {
            let looked = *self.looked.lock().unwrap();
            let crashes = self.crashes_after.is_some_and(|after| looked > after);
            let pods = crashes.then(|| "pod `web/front`".to_owned());
            Box::pin(std::future::ready(Ok(pods.into_iter().collect())))
        }

        fn probe<'a>(&'a self, _: &'a Order) -> Pending<'a, Probe> {
            Box::pin(std::future::ready(Probe::NotBegun))
        }

        fn act<'a>(&'a self, _: &'a Order) -> Pending<'a, Result<(), ActError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    /// The memory that a machine shows, look by look: `None`: it does not answer. The last counts on.
    #[derive(Default)]
    struct Parts {
        memory: Mutex<Vec<Option<&'static str>>>,
        looked: Mutex<usize>,
    }

    impl Hardware for Parts {
        fn observe<'a>(&'a self, nodes: &'a [Arc<NodeDesign>]) -> Pending<'a, ObservedNodes> {
            *self.looked.lock().unwrap() += 1;
            let mut memory = self.memory.lock().unwrap();
            let look = if memory.len() > 1 {
                memory.remove(0)
            } else {
                memory[0]
            };
            let one = |node: &Arc<NodeDesign>| {
                let mut seen = ObservedNode::unknown("no answer");
                if let Some(memory) = look {
                    seen.provision = Fact::Known(ProvisionState::Active);
                    let name: Arc<str> = Arc::from("expect.memory_gib");
                    let values = BTreeMap::from([(name, Arc::from(memory))]);
                    seen.compare_hardware(node, &values, None);
                }
                (node.name.clone(), Box::new(seen))
            };
            let seen = nodes.iter().map(one).collect();
            Box::pin(std::future::ready(seen))
        }

        fn probe<'a>(&'a self, _: &'a Order) -> Pending<'a, Probe> {
            Box::pin(std::future::ready(Probe::NotBegun))
        }

        fn act<'a>(&'a self, _: &'a Order) -> Pending<'a, Result<(), ActError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_parts_of_machines_are_read_as_a_soak_begins_and_as_it_ends() {
        let site = crate::design::fixture::site(
            "---\nschema: drydock/BaremetalNode/v1\nmetadata: {name: n1}\ndata: {}\n\
             ---\nschema: trueup/Hardware/v1\nmetadata: {name: h}\ndata: {expect: {memory_gib: 512}}\n",
        );
        let nodes: Vec<Arc<NodeDesign>> = site.design.nodes.values().cloned().collect();
        let order = Order {
            soaked: nodes.into(),
            ..order()
        };
        let wrong = "`n1`: expect.memory_gib: 448, designed 512";
        let table = [
            (vec![Some("512")], 2, Ok(())),
            (vec![None, Some("512")], 3, Ok(())),
            (vec![Some("512"), Some("448")], 2, Err(wrong)),
            (vec![Some("448")], 1, Err(wrong)),
            (vec![None], 4, Err("is not known: `n1`: no answer")),
        ];
        for (memory, looks, expected) in table {
            let hardware = Parts {
                memory: Mutex::new(memory),
                looked: Mutex::new(0),
            };
            let ended = await_end(&order, None, &hardware).await;
            assert_eq!(*hardware.looked.lock().unwrap(), looks);
            match expected {
                Ok(()) => assert_eq!(ended, Ok(())),
                Err(why) => {
                    let error = ended.unwrap_err().to_string();
                    assert!(error.contains(why), "{error}");
                }
            }
        }
    }

    fn order() -> Order {
        let terms = SoakTerms {
            seconds: 100,
            namespaces: vec![Arc::from("web")],
            nodes: vec![NodeName::from("n1")],
            joined: Vec::new(),
            etcd: BTreeMap::new(),
            parts: false,
        };
        let soak = Some(Box::new(terms));
        Order {
            run: RunId::from("R1"),
            step: Arc::new(Step {
                id: StepId {
                    kind: StepKind::Soak,
                    group: None,
                    node: None,
                    wave: Some(1),
                },
                needs: Vec::new(),
                timeout: 220,
                effect: Effect::None,
                standby: false,
                parameters: Some(Arc::new(SoakParameters { soak }.into())),
            }),
            node: None,
            notes: Vec::new(),
            leaving: Arc::default(),
            soaked: Arc::default(),
            reporter: Reporter::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_soak_lasts_its_time_and_ends_at_what_is_not_healthy() {
        const YES: Option<bool> = Some(true);
        type Case = (
            &'static [Option<bool>],
            Option<usize>,
            Result<(), &'static str>,
        );
        let table: [Case; 5] = [
            (&[YES], None, Ok(())),
            // A look without an answer is made again.
            (&[YES, None, None, None, YES], None, Ok(())),
            (&[YES, None], None, Err("is not known: no answer")),
            (&[YES, YES, Some(false)], None, Err("`n1` is not Ready")),
            (&[YES], Some(3), Err("pod `web/front` crashes again")),
        ];
        for (looks, crashes_after, expected) in table {
            let cluster = Scripted {
                looks: Mutex::new(looks.to_vec()),
                crashes_after,
                looked: Mutex::new(0),
            };
            let began = Instant::now();
            let ended = await_end(&order(), Some(&cluster), &Parts::default()).await;
            match expected {
                Ok(()) => {
                    assert_eq!(ended, Ok(()));
                    assert!(began.elapsed() >= Duration::from_secs(100));
                }
                Err(why) => {
                    let error = ended.unwrap_err().to_string();
                    assert!(error.contains(why), "{error}");
                    assert!(began.elapsed() < Duration::from_secs(100));
                }
            }
        }
    }
}
