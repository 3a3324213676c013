//! Remediation while much goes wrong: the API server away at every point, power that is late, that comes never,
//! that goes by itself, many machines at once; and how often the server is asked.

use std::process::{Child, Stdio};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Management;
use super::counted::Counted;
use super::lab::{HOLD, Lab, QUICK, begin, get, kubeconfig_of, site, trueup, until};
use super::rights::{ACCOUNT, create, manifest};
use crate::harness::Ports;

/// A run beside the test, and what it says.
struct Run {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Run {
    fn begin(lab: &Lab, arguments: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let stderr = Stdio::from(log.reopen().unwrap());
        let child = begin(&lab.site, arguments, stderr);
        Self { child, log }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    async fn ended(&mut self) -> Option<i32> {
        for _ in 0..1800 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("it never ends:\n{}", self.said());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Takes the API server away for a while, and brings it back.
async fn outage(lab: &Lab, dies: bool) {
    let fixture = &lab.management.fixture;
    if dies {
        fixture.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.revive().await;
    } else {
        fixture.signal("kube-apiserver", "STOP");
        tokio::time::sleep(Duration::from_secs(4)).await;
        fixture.signal("kube-apiserver", "CONT");
    }
}

#[tokio::test]
async fn an_api_server_that_goes_away_at_every_point_loses_nothing_and_leaves_no_host_off() {
    let Some(management) = Management::start().await else {
        return;
    };
    // Not as an administrator: a server that has just come back may not know yet what others may do.
    create(&management, &manifest("")).await;
    let kubeconfig = kubeconfig_of(&management, ACCOUNT);
    let policy = "{power_settling: 1, attempts: 1}";
    let lab = Lab::of(management, &kubeconfig, 3, policy).await;
    lab.management
        .operator
        .tell(|it| it.power_delay = Duration::from_secs(2));
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let mut run = Run::begin(&lab, &["apply", "remediate", "--yes"]);
    let annotation = |key: &'static str| {
        let lab = &lab;
        async move { !lab.management.host("n1").await["metadata"]["annotations"][key].is_null() }
    };
    until("it is not held", async || annotation(HOLD).await).await;
    // Its kubelet stays silent from here on, so that no node of it comes and goes between two looks.
    lab.dead.lock().unwrap().insert("n1".to_owned());
    outage(&lab, true).await;
    until("it is not seen off", async || {
        lab.management.host("n1").await["status"]["poweredOn"] == json!(false)
            && !lab.management.operator.is_on("n1")
    })
    .await;
    outage(&lab, false).await;
    until("its node is not deleted", async || {
        lab.node("n1").await.is_none()
    })
    .await;
    outage(&lab, true).await;
    until("it is not let go", async || !annotation(HOLD).await).await;
    lab.dead.lock().unwrap().clear();
    until("its node is not back", async || {
        lab.node("n1").await.is_some()
    })
    .await;
    outage(&lab, true).await;
    assert_eq!(run.ended().await, Some(0), "{}", run.said());
    lab.is_healed("n1", &old).await;
    assert_eq!(lab.cycles("n1"), (1, 1));
    // Once deleted, once made anew.
    assert_eq!(lab.registered("n1"), 1, "{}", run.said());
}

#[tokio::test]
async fn power_that_comes_late_or_never_or_goes_by_itself_has_an_end() {
    let policy = "{power_settling: 1, power_off_timeout: 30, power_on_timeout: 4, ready_timeout: 40, attempts: 2, \
                  backoff: 1, max_unhealthy: '100%', max_at_once: 3}";
    let Some(lab) = Lab::start(3, policy).await else {
        return;
    };
    let old = [
        lab.uid("n1").await,
        lab.uid("n2").await,
        lab.uid("n3").await,
    ];
    lab.management.operator.tell(|it| {
        it.never_on.insert("n1".to_owned());
        it.power_delays
            .insert("n3".to_owned(), Duration::from_secs(3));
    });
    let mut run = Run::begin(&lab, &["apply", "remediate", "n1", "n2", "n3", "--yes"]);
    lab.dead.lock().unwrap().insert("n2".to_owned());
    until("n2 is not let go", async || {
        let (off, on) = lab.cycles("n2");
        off == 1 && on == 1
    })
    .await;
    // By the time that it is back, it goes off once more, and comes back by its operator.
    until("n2 is not on", async || lab.management.operator.is_on("n2")).await;
    lab.management.operator.tell(|it| {
        it.spurious.insert("n2".to_owned());
    });
    until("n2 does not go off by itself", async || {
        let events = lab.management.operator.events("n2");
        events.iter().any(|event| event == "spurious off")
    })
    .await;
    lab.dead.lock().unwrap().clear();
    assert_eq!(run.ended().await, Some(7), "{}", run.said());
    let said = run.said();
    assert!(
        said.contains("n1") && said.contains("remediation failed after 2 attempts"),
        "{said}"
    );
    // Nobody holds the one off that never came on; its operator is free to switch it on.
    let host = lab.management.host("n1").await;
    let annotations = &host["metadata"]["annotations"];
    assert!(
        annotations[HOLD].is_null() && annotations["trueup.dev/remediation-given-up"].is_string()
    );
    assert_eq!(lab.annotations("n1").await, json!([false, false, true]));
    assert_eq!(lab.cycles("n1").0, 1);
    for number in [2, 3] {
        lab.is_healed(&format!("n{number}"), &old[number - 1]).await;
    }
    assert_eq!((lab.cycles("n2").0, lab.cycles("n3").0), (1, 1));
    // Once it can be switched on, a person has it brought back with what it carried.
    lab.management.operator.tell(|it| it.never_on.clear());
    until("n1 does not come on", async || {
        lab.node("n1").await.is_some()
    })
    .await;
    lab.trueup(&["apply", "remediate", "n1", "--yes"])
        .await
        .with(0);
    lab.is_healed("n1", &old[0]).await;
}

/// Machines that ask at the same time.
const MANY: usize = 200;

#[tokio::test]
async fn with_too_many_unhealthy_machines_none_is_touched_and_otherwise_only_so_many_at_a_time() {
    let Some(lab) = Lab::start(MANY, QUICK).await else {
        return;
    };
    for number in 1..=MANY {
        lab.ask(&format!("n{number}")).await;
    }
    let ports = Ports::claim();
    let listen = format!("127.0.0.1:{}", ports.at(0));
    let watch = ["apply", "remediate", "--watch", "--listen", &listen];
    let run = Run::begin(&lab, &watch);
    let words = "200 of 200 machines are unhealthy, and with more than 80 (40%) none is remediated";
    until("nothing is said", async || run.said().contains(words)).await;
    let metrics = get(ports.at(0), "/metrics");
    for line in [
        "trueup_asking{kind=\"machine\"} 200",
        "trueup_remediations_begun_total 0",
    ] {
        assert!(
            metrics.lines().any(|each| each == line),
            "{line}: {metrics}"
        );
    }
    drop(run);
    let touched = |lab: &Lab| {
        let all = 1..=MANY;
        all.filter(|number| lab.cycles(&format!("n{number}")).0 > 0)
            .count()
    };
    assert_eq!(touched(&lab), 0);

    // Thirty of them, ten at a time.
    let names: Vec<String> = (1..=30).map(|number| format!("n{number}")).collect();
    let mut arguments = vec!["apply", "remediate", "--yes"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(["--max-unhealthy", "100%", "--max-remediations", "10"]);
    let mut run = Run::begin(&lab, &arguments);
    let mut most = 0;
    let code = loop {
        if let Some(status) = run.child.try_wait().unwrap() {
            break status.code();
        }
        let is_off = |name: &&String| !lab.management.operator.is_on(name);
        most = most.max(names.iter().filter(is_off).count());
        tokio::time::sleep(Duration::from_millis(30)).await;
    };
    assert_eq!(code, Some(0), "{}", run.said());
    assert!((2..=10).contains(&most), "{most} were off at the same time");
    assert_eq!(touched(&lab), 30);
    for name in &names {
        assert_eq!(lab.cycles(name).0, 1, "{name}");
        assert_eq!(lab.annotations(name).await, json!([false, false, false]));
    }
}

/// Which lists of pods were asked for, by the node to which they are bound to.
fn lists_of_pods(counted: &Counted) -> Vec<String> {
    let is_list = |asked: &String| asked.starts_with("GET /api/v1/pods");
    let selector = |asked: String| {
        let (_, query) = asked.split_once('?').unwrap_or_default();
        let mut fields = query.split('&');
        let fields = fields.find_map(|part| part.strip_prefix("fieldSelector="));
        fields.unwrap_or("all").replace("%3D", "=")
    };
    let mut lists: Vec<_> = counted.take_whole();
    lists.retain(is_list);
    lists.into_iter().map(selector).collect()
}

#[tokio::test]
async fn of_few_nodes_only_their_own_pods_are_listed_and_for_status_none() {
    let Some(lab) = Lab::start(24, QUICK).await else {
        return;
    };
    for node in ["n1", "n2", "n3"] {
        let fixture = &lab.management.fixture;
        fixture.run(&format!("web-{node}"), node, json!({})).await;
    }
    let (counted, kubeconfig) = Counted::before(&lab.management.fixture.kubeconfig());
    let site = site(&kubeconfig, 24, QUICK);
    let lists = async |arguments: &[&str]| {
        trueup(site.clone(), arguments).await;
        let mut lists = lists_of_pods(&counted);
        lists.sort_unstable();
        lists
    };
    assert_eq!(lists(&["status"]).await, [""; 0]);
    assert_eq!(lists(&["status", "--format", "json"]).await, [""; 0]);
    assert_eq!(lists(&["plan", "drain", "n1"]).await, ["spec.nodeName=n1"]);
    assert_eq!(
        lists(&["plan", "drain", "n1", "n2"]).await,
        ["spec.nodeName=n1", "spec.nodeName=n2"]
    );
    let kubelets = lab.management.fixture.play_kubelets();
    let drain = lists(&["apply", "drain", "n1", "--yes"]).await;
    kubelets.abort();
    assert!(!drain.is_empty());
    assert!(drain.iter().all(|of| of == "spec.nodeName=n1"), "{drain:?}");
}

#[tokio::test]
async fn a_plan_counts_the_pods_that_its_drain_evicts() {
    let Some(lab) = Lab::start(2, QUICK).await else {
        return;
    };
    let fixture = &lab.management.fixture;
    for name in ["one", "two", "three", "done", "broken"] {
        fixture.run(name, "n1", json!({})).await;
    }
    for (name, phase) in [("done", "Succeeded"), ("broken", "Failed")] {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        let pods = fixture.pods();
        let parameters = PatchParams::default();
        pods.patch_status(name, &parameters, &status).await.unwrap();
    }
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    fixture.run("mirror", "n1", mirror).await;
    fixture.run("elsewhere", "n2", json!({})).await;
    let kubelets = fixture.play_kubelets();
    let (counted, kubeconfig) = Counted::before(&fixture.kubeconfig());
    let site = site(&kubeconfig, 2, QUICK);
    let plan = trueup(site.clone(), &["plan", "drain", "n1", "--format", "json"]).await;
    let forecast = plan.with(0).json()["forecast"]["nodes"][0]["evicted"].clone();
    counted.take();
    trueup(site, &["apply", "drain", "n1", "--yes"])
        .await
        .with(0);
    let mut evicted = counted.take();
    evicted.retain(|it| it.starts_with("POST ") && it.ends_with("/eviction"));
    evicted.sort_unstable();
    evicted.dedup();
    assert_eq!(evicted.len(), 5, "{evicted:?}");
    assert_eq!(forecast, json!(evicted.len()));
    kubelets.abort();
}

#[tokio::test]
async fn a_remediation_asks_the_server_for_no_more_than_it_needs() {
    let Some(lab) = Lab::start(3, QUICK).await else {
        return;
    };
    let (counted, kubeconfig) = Counted::before(&lab.management.fixture.kubeconfig());
    let site = site(&kubeconfig, 3, QUICK);
    let old = lab.uid("n1").await;
    lab.ask("n1").await;
    let plan = trueup(site.clone(), &["plan", "remediate"]).await;
    plan.with(0);
    let for_plan = counted.take();
    trueup(site, &["apply", "remediate", "--yes"]).await.with(0);
    let for_all = counted.take();
    lab.is_healed("n1", &old).await;
    let count = |requests: &[String]| {
        let mut counts = std::collections::BTreeMap::new();
        for request in requests {
            *counts.entry(request.clone()).or_insert(0) += 1;
        }
        counts
    };
    eprintln!(
        "a plan asks {} times: {:#?}",
        for_plan.len(),
        count(&for_plan)
    );
    eprintln!(
        "a remediation asks {} times: {:#?}",
        for_all.len(),
        count(&for_all)
    );
    // Rights and API servers are asked about when it is planned, before it begins and at its end.
    let of_cluster = [
        "/selfsubjectaccessreviews",
        "/apis/discovery.k8s.io",
        "/endpointslices",
    ];
    let is_of_cluster = |it: &&String| of_cluster.iter().any(|path| it.ends_with(path));
    let (asked, own): (Vec<&String>, Vec<&String>) = for_all.iter().partition(is_of_cluster);
    assert_eq!(asked.len(), 9, "{:#?}", count(&for_all));
    let writes = own.iter().filter(|it| !it.starts_with("GET"));
    assert_eq!(writes.count(), 9, "{:#?}", count(&for_all));
    // The breaker counts the machines that are down by their hosts, too: by one list, and none of the others by itself.
    assert!(own.len() <= 112, "{:#?}", count(&for_all));
    let is_other = |it: &&&String| it.contains("/baremetalhosts/") && !it.ends_with("/n1");
    assert_eq!(own.iter().find(is_other), None, "{:#?}", count(&for_all));
}
