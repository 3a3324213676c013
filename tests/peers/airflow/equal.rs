//! Plans that a real scheduler has carried out by four workers come to what an apply comes to: of random sites with faults, and of
//! the examples. `TRUEUP_TEST_AIRFLOW` has more sites compared.

use super::drawn;
use super::many::{ALLOWED, SHARED, SitePlan, Sites};
use super::scheduler::{Scheduler, TaskState};
use super::sites::Text;
use crate::dice::Dice;

/// Random sites that are compared, and how many if more trials are asked for.
const SITES: usize = 2;
const MORE_SITES: usize = 10;
/// The run of each DAG.
const RUN: &str = "compared";

/// A site that is drawn, its documents as they were deployed before, and the largest size of its parts.
struct Drawn {
    site: String,
    before: Option<Text>,
    now: Text,
    nodes_per_part: usize,
}

impl Drawn {
    fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut now = drawn::fair(&mut dice);
        let before = dice.chance(60).then(|| Text {
            faults: Vec::new(),
            cluster_faults: Vec::new(),
            ..now.clone()
        });
        if before.is_some() {
            for kernel in &mut now.kernels {
                kernel.1 += u64::from(dice.chance(60));
            }
        }
        Self {
            site: format!("drawn-{seed}"),
            before,
            now,
            nodes_per_part: 1 + dice.below(3),
        }
    }
}

/// Random sites, planned.
fn random(sites: &Sites, count: usize) -> Vec<SitePlan> {
    let drawn: Vec<Drawn> = (0..2 * count as u64).map(Drawn::of).collect();
    for each in &drawn {
        sites.write(
            &each.site,
            &each.before.as_ref().unwrap_or(&each.now).to_string(),
        );
    }
    sites.commit();
    sites.clones();
    for each in drawn.iter().filter(|each| each.before.is_some()) {
        sites.apply(&each.site);
    }
    for each in &drawn {
        sites.write(&each.site, &each.now.to_string());
    }
    sites.commit();
    let plan = |each: &Drawn| sites.plan(&each.site, &ALLOWED, each.nodes_per_part);
    drawn.iter().filter_map(plan).take(count).collect()
}

/// Examples: of a control plane that is redeployed, of a group that fails, and of a critical one that does.
fn examples(sites: &Sites) -> Vec<SitePlan> {
    sites.copy("redeployed", "control-plane");
    let faults = [
        (
            "failing",
            "{nodes: [\"compute*\"], step: prepare, outcome: fail}, {nodes: [monitoring], step: deploy, outcome: fail}",
        ),
        (
            "critical",
            "{nodes: [\"control0?\"], step: deploy, outcome: fail}",
        ),
    ];
    for (site, faults) in faults {
        sites.copy(site, "one-rack");
        let backends = format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata:\n  \
             hardware: {{kind: sim, sim: {{clock: virtual, faults: [{faults}]}}}}\n"
        );
        sites
            .lab
            .write(&format!("first/{site}/backends.yaml"), &backends);
    }
    sites.commit();
    sites.apply("redeployed");
    let redeploy = ["redeploy", "control-*", "worker-1"];
    let planned = [
        sites.plan("redeployed", &redeploy, 2),
        sites.plan("failing", &ALLOWED, 3),
        sites.plan("critical", &ALLOWED, 2),
    ];
    planned.map(Option::unwrap).into()
}

/// The states that tasks of a run ended in.
fn ended(scheduler: &Scheduler<'_>, plan: &SitePlan, state: &str) -> Vec<String> {
    let tasks = scheduler.tasks(&plan.dag, RUN).into_iter();
    let tasks = tasks.filter(|task| task.state == state);
    tasks.map(|task| task.task).collect()
}

#[test]
fn runs_on_a_scheduler_come_to_what_applies_come_to_on_random_sites_and_the_examples() {
    let Some(mut sites) = Sites::new() else {
        return;
    };
    let count = match std::env::var_os("TRUEUP_TEST_AIRFLOW") {
        Some(_) => MORE_SITES,
        None => SITES,
    };
    let random = random(&sites, count);
    let examples = examples(&sites);
    let plans: Vec<SitePlan> = random.into_iter().chain(examples).collect();
    assert_eq!(plans.len(), count + 3);
    sites.fork(&plans);
    let ports = sites.lab.for_scheduler(4);
    let scheduler = Scheduler::start(&sites.lab, ports);
    for plan in &plans {
        scheduler.trigger(&plan.dag, RUN);
    }
    // The same on one process, while Airflow works.
    let expected: Vec<_> = plans.iter().map(|plan| sites.applied(plan)).collect();
    let mut compared = 0;
    for (plan, expected) in plans.iter().zip(&expected) {
        let Some((did_well, expected)) = expected else {
            continue;
        };
        let is_well = scheduler.await_end(&plan.dag, RUN);
        let tasks = scheduler.tasks(&plan.dag, RUN);
        let logs = || scheduler.logs(&plan.dag);
        // Stale as the clones of the workers are, no task is tried again.
        let attempts = |task: &TaskState| match task.tries {
            0 | 1 => 1,
            _ => scheduler.attempts(&plan.dag, RUN, &task.task),
        };
        assert!(
            tasks.iter().all(|task| attempts(task) <= 1),
            "{tasks:?} {}",
            logs()
        );
        let outcome = sites.outcome(plan, SHARED);
        let difference = outcome.difference(expected);
        assert_eq!(
            difference,
            "",
            "{}: {}",
            plan.site,
            scheduler.logs(&plan.dag)
        );
        sites
            .ledger(plan, SHARED)
            .check_requests(&sites.requests(plan), &[]);
        assert_eq!(is_well, *did_well, "{}", plan.site);
        compared += 1;
    }
    assert!(
        compared > count,
        "only {compared} of {} could be compared",
        plans.len()
    );
    let [.., redeployed, failing, critical] = &plans[..] else {
        unreachable!()
    };
    let waves = scheduler.tasks(&redeployed.dag, RUN).into_iter();
    let waves = waves.filter(|task| {
        task.task.ends_with(".teardown-1") && task.task.starts_with("control-plane.")
    });
    assert_eq!(waves.count(), 3);
    assert_eq!(ended(&scheduler, redeployed, "skipped"), [""; 0]);
    let failed = ended(&scheduler, failing, "failed");
    assert!(
        failed.contains(&"compute-nodes-1.gate-prepared".to_owned()),
        "{failed:?}"
    );
    let skipped = ended(&scheduler, failing, "skipped");
    assert!(
        skipped.contains(&"compute-nodes-1.deploy-1".to_owned()),
        "{skipped:?}"
    );
    let skipped = ended(&scheduler, critical, "skipped");
    assert!(
        skipped.contains(&"compute-nodes-1.prepare-1".to_owned()),
        "{skipped:?}"
    );
}
