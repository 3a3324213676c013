//! The etcd backend against a real etcd: three members, each a process of its own, over mutual TLS.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use trueup::backend::cluster::etcd::Etcd;
use trueup::backend::{
    ActError, Cluster as _, Listener, Order, Pending, Probe, Reporter, Secret, SecretError, Secrets,
};
use trueup::design::{ClusterName, EtcdCluster, EtcdMember, NodeName, Reference, RunId};
use trueup::diagnostic::{Mark, SourceId};
use trueup::guard::quorum::{self, Health};
use trueup::observed::EtcdSeen;
use trueup::step::{Effect, EtcdRemoval, Step, StepId, StepKind};

use super::harness::{Peer, given, wait_until};
use super::site::Site;

/// A real etcd cluster whose member `m1` is on machine `n1` and so on.
pub(crate) struct Real {
    peer: Peer,
    scheme: &'static str,
    count: u16,
    /// Its members ask for a user.
    has_user: Cell<bool>,
}

/// Reads the files that references name.
#[derive(Debug)]
struct Files;

impl Secrets for Files {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        let Reference::File(path) = reference else {
            return Err(SecretError("only files are known here".to_owned()));
        };
        let text = std::fs::read_to_string(&**path);
        text.map(Secret::new)
            .map_err(|error| SecretError(error.to_string()))
    }
}

/// Remembers what a step told.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listener for Heard {
    fn progress(&self, text: Arc<str>) {
        self.0.lock().unwrap().push(text.to_string());
    }

    fn note<'a>(&'a self, _: Arc<str>) -> Pending<'a, Result<(), ActError>> {
        Box::pin(async { Ok(()) })
    }
}

impl Real {
    /// Three members over TLS, all healthy; `None` if there is no etcd.
    pub(crate) fn three() -> Option<Self> {
        Self::start(3, "tls")
    }

    fn start(count: u16, mode: &'static str) -> Option<Self> {
        let peer = Peer::start("etcd-up.sh", |ports| {
            vec![count.to_string(), ports.at(0).to_string(), mode.to_owned()]
        })?;
        let scheme = if mode == "tls" { "https" } else { "http" };
        let real = Self {
            peer,
            scheme,
            count,
            has_user: Cell::new(false),
        };
        assert!(real.peer.said().starts_with(scheme));
        real.wait_until_all_are_well();
        Some(real)
    }

    fn wait_until_all_are_well(&self) {
        let cluster = self.cluster();
        wait_until("every member is healthy", || {
            let seen = self.look();
            let mut members = cluster.members.iter();
            members.all(|member| quorum::problem(&cluster, &seen, &member.name).is_none())
        });
    }

    fn url(&self, member: u16, peer: u16) -> String {
        let port = self.peer.ports().at((member - 1) * 10 + peer);
        format!("{}://127.0.0.1:{port}", self.scheme)
    }

    fn client_url(&self, member: u16) -> String {
        self.url(member, 0)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.peer.path(name)
    }

    fn cluster(&self) -> EtcdCluster {
        let members = (1..=self.count).map(|position| EtcdMember {
            node: NodeName::from(format!("n{position}")),
            name: Arc::from(format!("m{position}")),
            peer_url: Arc::from(self.url(position, 1)),
            client_url: Arc::from(self.client_url(position)),
        });
        let mut credentials = BTreeMap::new();
        if self.scheme == "https" {
            for (name, file) in [
                ("ca", "ca.crt"),
                ("cert", "client.crt"),
                ("key", "client.key"),
            ] {
                let path = self.file(file).to_str().unwrap().to_owned();
                credentials.insert(Arc::from(name), Reference::File(Arc::from(path)));
            }
        }
        if self.has_user.get() {
            let path = self.file("password").to_str().unwrap().to_owned();
            credentials.insert(Arc::from("password"), Reference::File(Arc::from(path)));
        }
        EtcdCluster {
            name: ClusterName::from("main"),
            members: members.collect(),
            minimum_healthy: usize::from(self.count) / 2 + 1,
            credentials,
            username: self.has_user.get().then(|| Arc::from("root")),
            mark: Mark::new(SourceId(u32::MAX), 0),
        }
    }

    fn etcd(&self) -> Etcd {
        let secrets: Arc<dyn Secrets> = Arc::new(Files);
        Etcd::new(&[self.cluster()], &secrets)
    }

    fn look(&self) -> EtcdSeen {
        let seen = on_runtime(async { self.etcd().look().await });
        seen.into_values().next().unwrap()
    }

    fn removal(&self, node: &str) -> Result<Vec<EtcdRemoval>, String> {
        let node = NodeName::from(node);
        quorum::removal(&self.cluster(), &self.look(), &node, false)
            .map_err(|refusal| format!("{}: {refusal}", refusal.rule()))
    }

    #[track_caller]
    fn refused(&self, node: &str) -> String {
        let text = self.removal(node).expect_err("it is refused");
        text.replace(&self.peer.ports().at(0).to_string(), "PORT")
    }

    fn names(&self) -> Vec<String> {
        let standing = quorum::standing(&self.cluster(), &self.look()).unwrap();
        let ids = standing.voters.into_iter().chain(standing.learners);
        ids.map(|id| id.to_string()).collect()
    }

    /// Asks a member something as a person would by `curl`.
    fn ask(&self, member: u16, path: &str, body: &Value) -> Value {
        let mut command = Command::new("curl");
        command.args(["-s", "--max-time", "20", "-d", &body.to_string()]);
        if self.scheme == "https" {
            for (option, file) in [
                ("--cacert", "ca.crt"),
                ("--cert", "client.crt"),
                ("--key", "client.key"),
            ] {
                command.arg(option).arg(self.file(file));
            }
        }
        let url = format!("{}/{path}", self.client_url(member));
        let output = command.arg(url).output().unwrap();
        let mut values = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
        values
            .next()
            .map_or(Value::Null, |value| value.unwrap_or(Value::Null))
    }

    pub(crate) fn kill(&self, member: u16) {
        self.peer.kill(&format!("m{member}.pid"));
    }

    fn signal(&self, member: u16, signal: &str) {
        let pid = std::fs::read_to_string(self.file(&format!("m{member}.pid"))).unwrap();
        let status = Command::new("kill").args([signal, pid.trim()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits until the members that are left see who is gone: etcd notices on its own time.
    fn wait_for_refusal(&self, node: &str, rule: &str) {
        wait_until(&format!("{rule} for {node}"), || {
            self.removal(node).is_err_and(|text| text.starts_with(rule))
        });
    }
}

fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

fn order(kind: StepKind, node: &str, members: Vec<EtcdRemoval>, heard: &Arc<Heard>) -> Order {
    let parameters = json!({"etcd_members": members});
    Order {
        leaving: Arc::default(),
        soaked: Arc::default(),
        run: RunId::from("01JH0000000000000000000000"),
        step: Arc::new(Step {
            id: StepId {
                kind,
                group: None,
                node: Some(NodeName::from(node)),
                wave: None,
            },
            timeout: 20,
            effect: Effect::Destructive,
            standby: false,
            parameters: given(StepKind::RemoveEtcd, &parameters),
            needs: Vec::new(),
        }),
        node: None,
        notes: Vec::new(),
        reporter: Reporter::new(heard.clone()),
    }
}

fn remove(real: &Real, node: &str, members: Vec<EtcdRemoval>) -> (Result<(), ActError>, Probe) {
    on_runtime(async {
        let etcd = real.etcd();
        let order = order(StepKind::RemoveEtcd, node, members, &Arc::default());
        let acted = etcd.act(&order).await;
        (acted, etcd.probe(&order).await)
    })
}

#[test]
fn one_of_three_goes_a_second_stays_and_asking_again_is_no_error() {
    let Some(real) = Real::three() else { return };
    let (cluster, seen) = (real.cluster(), real.look());
    assert_eq!(quorum::health(&cluster, &seen, None), Health::Healthy);
    assert_eq!(quorum::can_lose(&cluster, &seen), 1);
    let removals = real.removal("n1").unwrap();
    assert_eq!(removals.len(), 1);
    assert_eq!(&*removals[0].name, "m1");

    on_runtime(async {
        let etcd = real.etcd();
        let order = order(
            StepKind::RemoveEtcd,
            "n1",
            removals.clone(),
            &Arc::default(),
        );
        assert_eq!(etcd.probe(&order).await, Probe::NotBegun);
        assert_eq!(etcd.act(&order).await, Ok(()));
        assert_eq!(etcd.probe(&order).await, Probe::Done);
        assert_eq!(etcd.act(&order).await, Ok(()), "it is gone already");
    });
    assert_eq!(real.names().len(), 2);
    assert_eq!(real.removal("n1"), Ok(Vec::new()));

    let refused = real.refused("n2");
    assert!(
        refused.starts_with(
            "etcd-minimum: etcd cluster `main` would be left with 1 healthy voter without n2"
        ),
        "{refused}"
    );
    // A plan that was made before says who is meant by id; the guard says no at the instant.
    let seen = real.look();
    let standing = quorum::standing(&real.cluster(), &seen).unwrap();
    let other = EtcdRemoval {
        member_id: standing.voters.iter().next().unwrap().clone(),
        name: Arc::from("m2"),
        ..removals[0].clone()
    };
    let (acted, probed) = remove(&real, "n2", vec![other]);
    assert!(
        matches!(&acted, Err(ActError::Permanent(text))
            if text.starts_with("RemoveEtcdError: ") && text.contains("document requires 2")),
        "{acted:?}"
    );
    assert_eq!(probed, Probe::NotBegun);
    assert_eq!(real.names().len(), 2);
}

impl Real {
    /// The position of the member that leads.
    fn leader(&self) -> u16 {
        let mut leader = None;
        wait_until("all follow one leader", || {
            let seen = self.look();
            let ids = seen.answers.values().filter_map(|fact| fact.known());
            let ids: Vec<_> = ids.map(|answer| answer.leader.clone()).collect();
            let leads = |position: &u16| {
                let answer = seen.answers[&*format!("m{position}")].known();
                answer.is_some_and(|answer| {
                    ids.iter().all(|id| *id == Some(answer.member_id.clone()))
                })
            };
            leader = (1..=self.count).find(leads);
            leader.is_some()
        });
        leader.unwrap()
    }
}

#[test]
fn a_cluster_that_wants_a_user_is_asked_as_that_user() {
    let Some(real) = Real::start(3, "plain") else {
        return;
    };
    for (path, body) in [
        (
            "v3/auth/user/add",
            json!({"name": "root", "password": "of etcd's root"}),
        ),
        ("v3/auth/role/add", json!({"name": "root"})),
        (
            "v3/auth/user/grant",
            json!({"user": "root", "role": "root"}),
        ),
        ("v3/auth/enable", json!({})),
    ] {
        real.ask(1, path, &body);
    }
    let cluster = real.cluster();
    wait_until("it wants a user", || {
        let found = quorum::problem(&cluster, &real.look(), "m1");
        found.is_some_and(|text| text.contains("etcdserver: user name is empty"))
    });
    assert_eq!(
        quorum::health(&cluster, &real.look(), None),
        Health::Inaccessible
    );
    assert!(real.removal("n1").unwrap_err().starts_with("etcd-silent"));

    real.has_user.set(true);
    std::fs::write(real.file("password"), "another").unwrap();
    let found = quorum::problem(&cluster, &real.look(), "m2").unwrap();
    assert!(found.contains("authentication failed"), "{found}");
    assert!(!found.contains("another"), "{found}");

    std::fs::write(real.file("password"), "of etcd's root").unwrap();
    assert_eq!(
        quorum::health(&real.cluster(), &real.look(), None),
        Health::Healthy
    );
    let removals = real.removal("n1").unwrap();
    assert_eq!(remove(&real, "n1", removals), (Ok(()), Probe::Done));
    assert_eq!(real.names().len(), 2);
}

#[test]
fn a_leader_hands_over_to_a_healthy_voter_before_it_is_removed() {
    let Some(real) = Real::three() else { return };
    let leader = real.leader();
    let (node, name) = (format!("n{leader}"), format!("m{leader}"));
    let heard: Arc<Heard> = Arc::default();
    let removals = real.removal(&node).unwrap();
    let acted = on_runtime(async {
        let order = order(StepKind::RemoveEtcd, &node, removals.clone(), &heard);
        real.etcd().act(&order).await
    });
    assert_eq!(acted, Ok(()));
    let moved = format!("moving leadership from member {name} to member m");
    let heard = heard.0.lock().unwrap().join("\n");
    assert!(heard.contains(&moved), "{heard}");
    // It followed another leader when it was removed: nobody had to be elected.
    let log = std::fs::read_to_string(real.file(&format!("{name}.log"))).unwrap();
    let (before, after) = log.split_once("leadership transfer").expect(&log);
    assert!(!before.contains("removed member"), "{log}");
    assert!(
        ["lost leader", "elected leader", "changed leader"]
            .iter()
            .any(|words| after.contains(words)),
        "{log}"
    );
    assert_eq!(real.names().len(), 2);
    assert!(!real.names().contains(&removals[0].member_id.to_string()));
}

#[test]
fn members_at_each_others_client_urls_are_not_healthy() {
    let Some(real) = Real::three() else { return };
    let mut swapped = real.cluster();
    let first = swapped.members[0].client_url.clone();
    swapped.members[0].client_url = swapped.members[1].client_url.clone();
    swapped.members[1].client_url = first;
    let secrets: Arc<dyn Secrets> = Arc::new(Files);
    let etcd = Etcd::new(std::slice::from_ref(&swapped), &secrets);
    let seen = on_runtime(async { etcd.look().await })
        .into_values()
        .next()
        .unwrap();
    assert_eq!(quorum::health(&swapped, &seen, None), Health::Unhealthy);
    let problem = quorum::problem(&swapped, &seen, "m1").unwrap();
    let expected = format!("does not answer at {}: member m2 does", real.client_url(2));
    assert_eq!(problem, expected);
    assert_eq!(quorum::problem(&swapped, &seen, "m3"), None);
    let site = real.site_of(&swapped);
    let text = site.trueup(&["etcd"], &[]).with(0).stdout;
    assert!(text.starts_with("main: Unhealthy"), "{text}");
    assert!(text.contains("member m1 does"), "{text}");
}

#[test]
fn with_one_dead_a_healthy_one_stays_and_the_dead_one_goes() {
    let Some(real) = Real::three() else { return };
    let before = real.removal("n1").unwrap();
    real.kill(3);
    real.wait_for_refusal("n1", "etcd-quorum");
    let refused = real.refused("n1");
    assert!(
        refused.contains("m3 does not answer: cannot be connected to"),
        "{refused}"
    );

    let (acted, probed) = remove(&real, "n1", before);
    assert!(
        matches!(&acted, Err(ActError::Permanent(text)) if text.contains("would be left with 1 healthy voter without n1, and needs 2")),
        "{acted:?}"
    );
    assert_eq!(probed, Probe::NotBegun);
    assert_eq!(real.names().len(), 3, "nothing changed");

    let (acted, probed) = remove(&real, "n3", real.removal("n3").unwrap());
    assert_eq!((acted, probed), (Ok(()), Probe::Done));
    assert_eq!(real.names().len(), 2);

    // Its place is not taken yet: a teardown that left it out is done, a machine that should be back is not.
    let heard = Arc::default();
    on_runtime(async {
        let etcd = real.etcd();
        let check = order(StepKind::CheckEtcd, "n3", Vec::new(), &heard);
        assert_eq!(etcd.act(&check).await, Ok(()));
        let mut back = order(StepKind::AwaitReady, "n3", Vec::new(), &heard);
        Arc::make_mut(&mut back.step).timeout = 2;
        assert_eq!(etcd.probe(&back).await, Probe::NotBegun);
        let acted = etcd.act(&back).await;
        let expected = "not within 2 s: member m3 of etcd cluster `main` is not a member";
        assert_eq!(acted, Err(ActError::Permanent(Arc::from(expected))));
        let healthy = order(StepKind::AwaitReady, "n1", Vec::new(), &heard);
        assert_eq!(etcd.act(&healthy).await, Ok(()));
    });
}

#[test]
fn without_a_quorum_everything_ends_in_time_with_a_clear_word_and_nothing_changes() {
    let Some(real) = Real::three() else { return };
    let removals = real.removal("n3").unwrap();
    real.kill(2);
    real.kill(3);
    real.wait_for_refusal("n3", "etcd-leader");
    let seen = real.look();
    assert_eq!(
        quorum::health(&real.cluster(), &seen, None),
        Health::Unhealthy
    );
    assert_eq!(quorum::can_lose(&real.cluster(), &seen), 0);
    let answer = seen.answers["m1"].known().unwrap();
    assert!(!answer.decides);
    assert_eq!(answer.members.len(), 3, "told from memory");

    let (acted, probed) = remove(&real, "n3", removals);
    assert!(
        matches!(&acted, Err(ActError::Passing(text)) if text.contains("has no leader")),
        "{acted:?}"
    );
    let Probe::Ambiguous(evidence) = probed else {
        panic!("{probed:?}")
    };
    assert!(
        evidence.contains("m1 cannot read through the quorum"),
        "{evidence}"
    );
    assert!(evidence.contains("`etcdctl member list`"), "{evidence}");

    let heard: Arc<Heard> = Arc::default();
    let check = order(StepKind::CheckEtcd, "n3", Vec::new(), &heard);
    let acted = on_runtime(async { real.etcd().act(&check).await });
    assert!(
        matches!(&acted, Err(ActError::Permanent(text)) if text.starts_with("not within 20 s: etcd cluster `main` is unhealthy")),
        "{acted:?}"
    );
    assert!(heard.0.lock().unwrap()[0].contains("m2 does not answer"));

    real.kill(1);
    let health = quorum::health(&real.cluster(), &real.look(), None);
    assert_eq!(health.as_str(), "Unable to access Etcd");
    let acted = on_runtime(async { real.etcd().act(&check).await });
    assert!(
        matches!(&acted, Err(ActError::Permanent(text))
            if text.starts_with("EtcdNotAccessible: not within 20 s: etcd cluster `main` cannot be accessed")),
        "{acted:?}"
    );
}

#[test]
fn a_member_that_hangs_is_waited_for_no_longer_than_the_client_says() {
    let Some(real) = Real::three() else { return };
    real.signal(2, "-STOP");
    let seen = real.look();
    real.signal(2, "-CONT");
    let problem = quorum::problem(&real.cluster(), &seen, "m2").unwrap();
    assert!(problem.starts_with("does not answer: no "), "{problem}");
    assert!(
        problem.ends_with(" in time") || problem.ends_with("within 4 s"),
        "{problem}"
    );
}

#[test]
fn an_alarm_is_seen_and_nothing_goes_while_it_lasts() {
    let Some(real) = Real::three() else { return };
    let alarm = |action: &str| {
        let seen = real.look();
        let id = &seen.answers["m2"].known().unwrap().member_id;
        let id = u64::from_str_radix(id, 16).unwrap().to_string();
        real.ask(
            1,
            "v3/maintenance/alarm",
            &json!({"action": action, "memberID": id, "alarm": "NOSPACE"}),
        )
    };
    alarm("ACTIVATE");
    wait_until("the alarm is told", || real.removal("n1").is_err());
    assert_eq!(
        real.refused("n1"),
        "etcd-alarm: etcd cluster `main` has the alarm NOSPACE, raised by member m2"
    );
    assert_eq!(
        quorum::health(&real.cluster(), &real.look(), None),
        Health::Unhealthy
    );
    alarm("DEACTIVATE");
    wait_until("the alarm is over", || real.removal("n1").is_ok());
}

#[test]
fn a_learner_blocks_every_machine_but_its_own() {
    let Some(mut real) = Real::three() else {
        return;
    };
    real.count = 4;
    let peer_url = real.url(4, 1);
    // etcd takes no change before its members are connected for some seconds.
    let learner = json!({"peerURLs": [peer_url], "isLearner": true});
    wait_until("a learner is added", || {
        let added = real.ask(1, "v3/cluster/member/add", &learner);
        added["member"]["isLearner"] == json!(true)
    });
    assert_eq!(
        real.refused("n1"),
        "etcd-learner: member m4 of etcd cluster `main`, on n4, is a learner: a change of members is under way"
    );

    // Once it runs, it answers for itself, but not for who the members are.
    let folder = real.peer.folder().to_owned();
    let initial: Vec<String> = (1..=4)
        .map(|m| format!("m{m}={}", real.url(m, 1)))
        .collect();
    let log = std::fs::File::create(folder.join("m4.log")).unwrap();
    let (client_url, cert) = (real.client_url(4), folder.join("server.crt"));
    let mut child = Command::new("etcd")
        .args(["--name", "m4", "--initial-cluster-state", "existing"])
        .arg("--data-dir")
        .arg(folder.join("m4"))
        .args([
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
        ])
        .args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ])
        .args(["--initial-cluster", &initial.join(",")])
        .arg("--cert-file")
        .arg(&cert)
        .arg("--key-file")
        .arg(folder.join("server.key"))
        .arg("--client-cert-auth")
        .arg("--trusted-ca-file")
        .arg(folder.join("ca.crt"))
        .arg("--peer-cert-file")
        .arg(&cert)
        .arg("--peer-key-file")
        .arg(folder.join("server.key"))
        .arg("--peer-client-cert-auth")
        .arg("--peer-trusted-ca-file")
        .arg(folder.join("ca.crt"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    std::fs::write(folder.join("m4.pid"), child.id().to_string()).unwrap();
    wait_until("the learner answers", || {
        real.look().answers["m4"].known().is_some()
    });
    let cluster = real.cluster();
    let problem = quorum::missing(&cluster, &real.look(), &NodeName::from("n4"));
    assert_eq!(
        problem.as_deref(),
        Some("member m4 of etcd cluster `main` is a learner")
    );
    assert!(real.refused("n1").starts_with("etcd-learner"));

    let (acted, probed) = remove(&real, "n4", real.removal("n4").unwrap());
    assert_eq!((acted, probed), (Ok(()), Probe::Done));
    assert!(
        real.refused("n1").starts_with("etcd-minimum"),
        "four are designed, three are wanted"
    );
    real.kill(4);
    child.wait().unwrap();
}

#[test]
fn an_only_member_is_never_asked_to_go() {
    let Some(real) = Real::start(1, "plain") else {
        return;
    };
    assert!(real.refused("n1").starts_with("etcd-only-member"));
    let node = NodeName::from("n1");
    let destroyed = quorum::removal(&real.cluster(), &real.look(), &node, true);
    assert_eq!(destroyed, Ok(Vec::new()));
}

#[test]
fn who_is_not_trusted_and_who_speaks_no_etcd_are_told_apart() {
    let Some(real) = Real::three() else { return };
    let text = |cluster: EtcdCluster| {
        let secrets: Arc<dyn Secrets> = Arc::new(Files);
        let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
        let seen = on_runtime(async { etcd.look().await })
            .into_values()
            .next()
            .unwrap();
        let health = quorum::health(&cluster, &seen, None);
        (health, quorum::problem(&cluster, &seen, "m1").unwrap())
    };
    let mut without_ca = real.cluster();
    without_ca.credentials.remove("ca");
    let (health, problem) = text(without_ca);
    assert_eq!(health, Health::Inaccessible);
    assert!(
        problem.contains("its certificate is not trusted"),
        "{problem}"
    );

    let mut anonymous = real.cluster();
    anonymous.credentials.retain(|name, _| &**name == "ca");
    let (health, problem) = text(anonymous);
    assert_eq!(health, Health::Inaccessible);
    assert!(problem.contains("does not answer"), "{problem}");

    let mut plain = real.cluster();
    for member in &mut plain.members {
        member.client_url = Arc::from(member.client_url.replace("https", "http"));
    }
    let (health, problem) = text(plain);
    assert!(health.is_error(), "{problem}");
}

impl Real {
    /// A site whose document names this cluster; `swapped`: each URL if the other should be.
    pub(crate) fn site(&self, swapped: bool) -> Site {
        let mut cluster = self.cluster();
        for member in cluster.members.iter_mut().filter(|_| swapped) {
            std::mem::swap(&mut member.peer_url, &mut member.client_url);
        }
        self.site_of(&cluster)
    }

    /// A site whose document names a cluster.
    fn site_of(&self, cluster: &EtcdCluster) -> Site {
        let members = cluster.members.iter().map(|member| {
            let (node, name) = (&member.node, &member.name);
            let (peer, client) = (&member.peer_url, &member.client_url);
            format!("{{node: {node}, name: {name}, peer_url: '{peer}', client_url: '{client}'}}")
        });
        let members: Vec<String> = members.collect();
        let credentials = |name: &str, file: &str| {
            let path = self.file(file);
            format!("{name}: {{file: '{}'}}", path.display())
        };
        let text = format!(
            "---\nschema: trueup/Backends/v1\nmetadata: {{name: backends}}\ndata: {{hardware: {{kind: redfish, redfish: {{networks: [127.0.0.0/8]}}}}}}\n\
             ---\nschema: promenade/EtcdClusters/v1\nmetadata: {{name: etcd}}\ndata:\n  clusters:\n  - name: main\n    \
             members: [{}]\n    credentials: {{{}, {}, {}}}\n",
            members.join(", "),
            credentials("ca", "ca.crt"),
            credentials("cert", "client.crt"),
            credentials("key", "client.key"),
        );
        let site = "---\nschema: pegleg/SiteDefinition/v1\nmetadata: {name: lab}\ndata: {}\n";
        Site::new(&[("site-definition.yaml", site), ("site.yaml", &text)])
    }
}

#[test]
fn the_command_tells_of_each_cluster_in_the_words_of_the_specification() {
    let Some(real) = Real::three() else { return };
    let site = real.site(false);
    let text = site.trueup(&["etcd"], &[]).with(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "main: Healthy; it can lose 1 member");
    assert!(lines[1].starts_with("MEMBER  NODE  ROLE"), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(text.matches(" leader ").count(), 1, "{text}");
    assert_eq!(text.matches(" voter ").count(), 2, "{text}");
    assert_eq!(text.matches(" healthy\n").count(), 3, "{text}");

    let status = site
        .trueup(&["etcd", "main", "--format", "json"], &[])
        .with(0)
        .json();
    let message =
        json!({"message": "Healthy", "error": false, "kind": "HealthMessage", "name": "main"});
    assert_eq!(status["details"]["messageList"], json!([message]));
    let head = ["kind", "apiVersion", "status", "reason", "code"].map(|key| status[key].clone());
    assert_eq!(
        json!(head),
        json!(["Status", "v1.0", "Success", "Success", 200])
    );
    let members = &status["details"]["clusters"][0]["members"];
    assert_eq!(members[1]["node"], "n2");
    assert!(
        members[1]["db_size"].as_u64().is_some_and(|size| size > 0),
        "{members}"
    );

    // Where it was the leader, those that are left elect one first: etcd takes its own time for that.
    real.kill(3);
    let mut text = String::new();
    wait_until("the two that are left have a leader", || {
        text = site.trueup(&["etcd", "main"], &[]).with(0).stdout;
        text.starts_with("main: Healthy; it can lose no member")
    });
    assert!(
        text.contains("does not answer: cannot be connected to: connection refused"),
        "{text}"
    );

    let wrong = site
        .trueup(&["etcd", "mian", "--format", "json"], &[])
        .with(1);
    assert!(
        wrong.stderr.contains("there is no etcd cluster `mian`"),
        "{wrong:?}"
    );
    assert!(wrong.stderr.contains("did you mean `main`?"), "{wrong:?}");
    assert_eq!(wrong.json()["reason"], "NotFound");

    let invalid = real
        .site(true)
        .trueup(&["etcd", "--format", "json"], &[])
        .with(7);
    assert!(
        invalid
            .stderr
            .contains("EtcdNotAccessible: etcd cluster `main`: m1 answers, but not as etcd does"),
        "{invalid:?}"
    );
    let status = invalid.json();
    assert_eq!(
        json!([status["reason"], status["code"]]),
        json!(["EtcdNotAccessible", 500])
    );

    real.kill(1);
    real.kill(2);
    let status = site
        .trueup(&["etcd", "--format", "json"], &[])
        .with(0)
        .json();
    let message = json!({"message": "Unable to access Etcd", "error": true, "kind": "HealthMessage", "name": "main"});
    assert_eq!(status["details"]["messageList"], json!([message]));
    assert_eq!(status["details"]["errorCount"], 1);
}
