//! The client against services that answer as etcd does, and as none does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::backend::http::tests::server::{Received, Reply, Server};
use crate::backend::{NoSecrets, Secret, SecretError};
use crate::design::{EtcdMember, RunId};
use crate::diagnostic::{Mark, SourceId};
use crate::guard::quorum::{Health, health, problem, removal};
use crate::step::{Effect, EtcdRemoval, Parameters, Step, StepId};

/// A member's answers as etcd 3.4 gives them: numbers as strings, empty fields left out, a trailer behind
/// what is no success.
fn etcd(position: u64, asked: &Received) -> Reply {
    let header = json!({"cluster_id": "13983733752805916581", "member_id": position.to_string(), "raft_term": "2"});
    let member = |id: u64| {
        json!({
            "ID": id.to_string(), "name": format!("m{id}"),
            "peerURLs": [format!("http://10.0.0.{id}:2380")], "clientURLs": [format!("http://10.0.0.{id}:2379")],
        })
    };
    match asked.path.as_str() {
        "/v3/maintenance/status" => Reply::json(
            200,
            json!({
                "header": header, "version": "3.4.23", "dbSize": "20480", "leader": "1", "raftIndex": "9",
                "raftTerm": "2", "raftAppliedIndex": "9",
            }),
        ),
        "/v3/maintenance/alarm" => Reply::json(200, json!({})),
        "/v3/kv/range" => Reply::json(200, json!({"header": header})),
        "/v3/cluster/member/list" => Reply::json(
            200,
            json!({"header": header, "members": [member(3), member(1), member(2)]}),
        ),
        _ => Reply::json(404, Value::Null),
    }
}

fn refusal(status: u16, text: &str) -> Reply {
    let body = format!(
        "{{\"error\":\"{text}\",\"message\":\"{text}\",\"code\":14}}Grpc-Trailer-Content-Type: application/grpc\n"
    );
    Reply::Raw(
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// Three members at these URLs.
fn cluster(urls: [&str; 3]) -> EtcdCluster {
    EtcdCluster {
        name: ClusterName::from("main"),
        members: (1..=3)
            .zip(urls)
            .map(|(position, url)| EtcdMember {
                node: NodeName::from(format!("n{position}")),
                name: Arc::from(format!("m{position}")),
                peer_url: Arc::from(format!("http://10.0.0.{position}:2380")),
                client_url: Arc::from(url),
            })
            .collect(),
        minimum_healthy: 2,
        credentials: BTreeMap::new(),
        username: None,
        mark: Mark::new(SourceId(u32::MAX), 0),
    }
}

/// Three members, the last of which answers some requests otherwise.
async fn fixture(
    otherwise: impl Fn(&Received) -> Option<Reply> + Send + Sync + 'static,
) -> (Vec<Server>, EtcdCluster, Etcd) {
    let servers = vec![
        Server::plain(|asked| etcd(1, asked)).await,
        Server::plain(|asked| etcd(2, asked)).await,
        Server::plain(move |asked| otherwise(asked).unwrap_or_else(|| etcd(3, asked))).await,
    ];
    let cluster = cluster([&servers[0].url, &servers[1].url, &servers[2].url]);
    let secrets: Arc<dyn Secrets> = Arc::new(NoSecrets);
    let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
    (servers, cluster, etcd)
}

async fn look(etcd: &Etcd) -> EtcdSeen {
    etcd.look().await.into_values().next().unwrap()
}

/// An order to remove `m1`, which the other two are asked for.
fn order(timeout: u64) -> Order {
    let removal = EtcdRemoval {
        cluster: ClusterName::from("main"),
        cluster_id: Arc::from("c21033c259a2ffa5"),
        member_id: Arc::from("1"),
        name: Arc::from("m1"),
    };
    let parameters = json!({"etcd_members": [removal]});
    Order {
        leaving: Arc::default(),
        soaked: Arc::default(),
        run: RunId::from("01JH0000000000000000000000"),
        step: Arc::new(Step {
            id: StepId {
                kind: StepKind::RemoveEtcd,
                group: None,
                node: Some(NodeName::from("n1")),
                wave: None,
            },
            timeout,
            effect: Effect::Destructive,
            standby: false,
            parameters: Parameters::of(StepKind::RemoveEtcd, &parameters),
            needs: Vec::new(),
        }),
        node: None,
        notes: Vec::new(),
        reporter: crate::backend::Reporter::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_member_says_is_carried_whole_and_ids_in_hexadecimal() {
    let (_servers, cluster, etcd) = fixture(|_| None).await;
    let seen = look(&etcd).await;
    assert_eq!(health(&cluster, &seen, None), Health::Healthy);
    let answer = seen.answers["m2"].known().unwrap();
    assert_eq!(&*answer.cluster_id, "c21033c259a2ffa5");
    assert_eq!(
        (&*answer.member_id, answer.leader.as_deref()),
        ("2", Some("1"))
    );
    assert_eq!((&*answer.version, answer.db_size), ("3.4.23", 20480));
    assert_eq!(
        (answer.raft_index, answer.raft_applied, answer.raft_term),
        (9, 9, 2)
    );
    assert!(answer.decides && !answer.learner && answer.alarms.is_empty());
    let ids: Vec<&str> = answer.members.iter().map(|member| &*member.id).collect();
    assert_eq!(ids, ["1", "2", "3"]);
    let removals = removal(&cluster, &seen, &NodeName::from("n1"), false);
    assert_eq!(removals.unwrap(), *order(0).step.given().etcd_members());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_of_etcd_is_told_apart_from_what_is_no_answer() {
    type Case = (fn(&Received) -> Option<Reply>, bool, &'static str);
    let cases: [Case; 7] = [
        (
            |_| {
                Some(Reply::Raw(b"HTTP/1.1 404 Not Found\r\ncontent-length: 33\r\n\r\n<html><title>Lamp</title></html>\n".to_vec()))
            },
            true,
            "answers, but not as etcd does: 404 Not Found: a page `Lamp`",
        ),
        (
            |asked| {
                asked
                    .path
                    .ends_with("status")
                    .then(|| Reply::json(200, json!({"status": "ok"})))
            },
            true,
            "answers, but not as etcd does: an answer that cannot be understood: missing field `header` at line 1 column 15",
        ),
        (
            |asked| {
                asked.path.ends_with("list").then(|| {
                    Reply::json(
                        200,
                        json!({"header": {"cluster_id": "-1", "member_id": "3"}}),
                    )
                })
            },
            true,
            "answers, but not as etcd does: an answer that cannot be understood: `-1` is not a 64-bit number",
        ),
        (
            |_| {
                Some(Reply::Json(
                    302,
                    vec![("location", "http://127.0.0.1:9/".to_owned())],
                    Value::Null,
                ))
            },
            true,
            "answers, but not as etcd does: ",
        ),
        (|_| Some(Reply::Raw(Vec::new())), false, "does not answer: "),
        (
            |asked| {
                asked
                    .path
                    .ends_with("range")
                    .then(|| refusal(503, "etcdserver: request timed out"))
            },
            false,
            "cannot read through the quorum",
        ),
        (
            |asked| {
                asked
                    .path
                    .ends_with("status")
                    .then(|| refusal(401, "etcdserver: user name is empty"))
            },
            false,
            "does not answer: 401 Unauthorized: etcdserver: user name is empty",
        ),
    ];
    for (otherwise, is_invalid, expected) in cases {
        let (_servers, cluster, etcd) = fixture(otherwise).await;
        let seen = look(&etcd).await;
        let found = problem(&cluster, &seen, "m3").unwrap();
        assert!(found.starts_with(expected), "{found}");
        assert_eq!(seen.invalid.contains_key("m3"), is_invalid, "{found}");
        assert_eq!(
            health(&cluster, &seen, None),
            Health::Healthy,
            "the other two suffice"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_read_the_key_has_read_through_the_quorum_all_the_same() {
    let denied = |asked: &Received| {
        asked
            .path
            .ends_with("range")
            .then(|| refusal(403, "etcdserver: permission denied"))
    };
    let (_servers, cluster, etcd) = fixture(denied).await;
    assert_eq!(problem(&cluster, &look(&etcd).await, "m3"), None);
}

/// The password of the user.
#[derive(Debug)]
struct Password;

impl Secrets for Password {
    fn reveal(&self, _: &crate::design::Reference) -> Result<Secret, SecretError> {
        Ok(Secret::new("the password of etcd's user".to_owned()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_is_made_known_once_and_again_where_a_member_has_forgotten_it() {
    // Which token it knows, of how many that it has given.
    let known = AtomicU64::new(0);
    let given = Arc::new(AtomicU64::new(0));
    let count = given.clone();
    let asks = move |asked: &Received| {
        let current = known.load(Ordering::SeqCst);
        let is_known = asked.headers.get("authorization") == Some(&format!("t{current}"));
        match asked.path.as_str() {
            "/v3/auth/authenticate" => {
                let expected = json!({"name": "root", "password": "the password of etcd's user"});
                assert_eq!(asked.body, expected);
                let token = count.fetch_add(1, Ordering::SeqCst) + 1;
                known.store(token, Ordering::SeqCst);
                Some(Reply::json(200, json!({"token": format!("t{token}")})))
            }
            "/v3/kv/range" if is_known && current == 1 => {
                known.store(9, Ordering::SeqCst);
                Some(refusal(401, "etcdserver: invalid auth token"))
            }
            _ if is_known => None,
            _ => Some(refusal(401, "etcdserver: user name is empty")),
        }
    };
    let (_servers, mut cluster, _) = fixture(asks).await;
    cluster.members.drain(..2);
    cluster.username = Some(Arc::from("root"));
    let reference = crate::design::Reference::Env(Arc::from("ETCD_PASSWORD"));
    cluster.credentials.insert(Arc::from("password"), reference);
    let secrets: Arc<dyn Secrets> = Arc::new(Password);
    let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
    for _ in 0..2 {
        assert_eq!(problem(&cluster, &look(&etcd).await, "m3"), None);
        assert_eq!(given.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_wants_a_user_is_told_as_such_and_not_as_one_without_a_quorum() {
    let wants = |asked: &Received| {
        let is_read = asked.path.ends_with("range");
        is_read.then(|| refusal(401, "etcdserver: user name is empty"))
    };
    let (_servers, cluster, etcd) = fixture(wants).await;
    let found = problem(&cluster, &look(&etcd).await, "m3").unwrap();
    let expected = "does not answer: 401 Unauthorized: etcdserver: user name is empty";
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn without_the_credentials_that_the_document_names_nothing_is_sent() {
    let (servers, mut cluster, _) = fixture(|_| None).await;
    let reference = crate::design::Reference::Env(Arc::from("ETCD_CA"));
    cluster.credentials.insert(Arc::from("ca"), reference);
    let secrets: Arc<dyn Secrets> = Arc::new(NoSecrets);
    let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
    let seen = look(&etcd).await;
    let found = problem(&cluster, &seen, "m1").unwrap();
    assert_eq!(
        found,
        "does not answer: credentials: ca: no secrets are to be had here"
    );
    assert!(servers[0].received.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_etcd_is_permanent_in_its_own_words_and_a_lost_answer_ambiguous() {
    type Case = (fn() -> Reply, fn(&ActError) -> bool, &'static str);
    let cases: [Case; 5] = [
        (
            || {
                refusal(
                    500,
                    "etcdserver: re-configuration failed due to not enough started members",
                )
            },
            |error| matches!(error, ActError::Permanent(_)),
            "not enough started members",
        ),
        (
            || refusal(503, "etcdserver: request timed out"),
            |error| matches!(error, ActError::Ambiguous(_)),
            "503 Service Unavailable: etcdserver: request timed out",
        ),
        (
            || Reply::Raw(Vec::new()),
            |error| matches!(error, ActError::Ambiguous(_)),
            "m1",
        ),
        (
            || Reply::Silent,
            |error| matches!(error, ActError::Ambiguous(_)),
            "no complete answer within",
        ),
        (
            || {
                Reply::json(
                    200,
                    json!({"header": {"cluster_id": "1", "member_id": "2"}, "members": [{"ID": "1"}]}),
                )
            },
            |error| matches!(error, ActError::Ambiguous(_)),
            "it is still a member",
        ),
    ];
    for (reply, is_right, expected) in cases {
        let servers = [
            Server::plain(|asked| etcd(1, asked)).await,
            Server::plain(move |asked| match asked.path.ends_with("remove") {
                true => reply(),
                false => etcd(2, asked),
            })
            .await,
            Server::plain(|asked| etcd(3, asked)).await,
        ];
        let cluster = cluster([&servers[0].url, &servers[1].url, &servers[2].url]);
        let secrets: Arc<dyn Secrets> = Arc::new(NoSecrets);
        let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
        let error = etcd.act(&order(3)).await.unwrap_err();
        assert!(
            is_right(&error) && error.to_string().contains(expected),
            "{error:?}"
        );
        assert_eq!(etcd.probe(&order(3)).await, Probe::NotBegun);
        let asked = servers[0].received.lock().unwrap();
        assert!(
            !asked.iter().any(|asked| asked.path.ends_with("remove")),
            "never through itself"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_is_asked_for_one_thing_and_the_others_are_seen() {
    let servers = [
        Server::plain(|_| Reply::Silent).await,
        Server::plain(|asked| etcd(2, asked)).await,
        Server::plain(|asked| etcd(3, asked)).await,
    ];
    let cluster = cluster([&servers[0].url, &servers[1].url, &servers[2].url]);
    let secrets: Arc<dyn Secrets> = Arc::new(NoSecrets);
    let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
    let seen = look(&etcd).await;
    assert!(seen.answers["m1"].known().is_none());
    assert!(seen.answers["m2"].known().is_some() && seen.answers["m3"].known().is_some());
    let asked = servers[0].received.lock().unwrap();
    let paths: Vec<&str> = asked.iter().map(|each| &*each.path).collect();
    assert_eq!(paths, ["/v3/maintenance/status"]);
}

#[tokio::test(start_paused = true)]
async fn leadership_is_moved_and_the_move_confirmed_before_a_leader_is_removed() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    // What the leader answers to the request, and how the removal ends.
    type Case = (
        fn(&AtomicU64) -> Reply,
        &'static str,
        &'static [&'static str],
    );
    let moves: fn(&AtomicU64) -> Reply = |leader| {
        leader.store(2, SeqCst);
        Reply::json(200, json!({}))
    };
    let cases: [Case; 4] = [
        (moves, "", &["transfer-leadership", "remove"]),
        // The member of n2 is removed later: it is better with the third.
        (
            |leader| {
                leader.store(3, SeqCst);
                Reply::json(200, json!({}))
            },
            "",
            &["transfer-leadership to 3", "remove"],
        ),
        // It says yes and stays: each healthy voter is tried, and nothing is removed.
        (
            |_| Reply::json(200, json!({})),
            "leadership of etcd cluster `main` could not be moved from member m1, and nothing was removed",
            &["transfer-leadership", "transfer-leadership"],
        ),
        // It does not know the request: the others elect a leader.
        (
            |_| Reply::json(404, Value::Null),
            "",
            &["transfer-leadership", "remove"],
        ),
    ];
    for (reply, expected, asked) in cases {
        let (leader, removed) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let calls: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let is_second_leaving = asked[0].ends_with("to 3");
        let answer = |position: u64| {
            let (leader, removed, calls) = (leader.clone(), removed.clone(), calls.clone());
            move |asked: &Received| {
                let header = json!({"cluster_id": "13983733752805916581", "member_id": position.to_string()});
                let word = asked.path.rsplit('/').next().unwrap_or_default();
                if matches!(word, "transfer-leadership" | "remove") {
                    let to = asked.body["targetID"].as_str().unwrap_or_default();
                    let to = match to == "3" && is_second_leaving {
                        true => " to 3",
                        false => "",
                    };
                    calls.lock().unwrap().push(format!("{word}{to}"));
                }
                match word {
                    "transfer-leadership" => {
                        assert_eq!(position, 1, "only the leader hands over");
                        reply(&leader)
                    }
                    "remove" => {
                        removed.store(1, SeqCst);
                        Reply::json(200, json!({"header": header, "members": []}))
                    }
                    "list" if removed.load(SeqCst) == 1 => Reply::json(
                        200,
                        json!({"header": header, "members": [{"ID": "2"}, {"ID": "3"}]}),
                    ),
                    "status" => Reply::json(
                        200,
                        json!({
                            "header": header, "version": "3.4.23", "leader": leader.load(SeqCst).to_string(),
                        }),
                    ),
                    _ => etcd(position, asked),
                }
            }
        };
        let servers = [
            Server::plain(answer(1)).await,
            Server::plain(answer(2)).await,
            Server::plain(answer(3)).await,
        ];
        let cluster = cluster([&servers[0].url, &servers[1].url, &servers[2].url]);
        let secrets: Arc<dyn Secrets> = Arc::new(NoSecrets);
        let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
        let mut order = order(0);
        if is_second_leaving {
            order.leaving = Arc::new([NodeName::from("n2")].into());
        }
        let acted = etcd.act(&order).await;
        match expected {
            "" => assert_eq!(acted, Ok(())),
            _ => assert!(
                matches!(&acted, Err(ActError::Passing(text)) if text.contains(expected)),
                "{acted:?}"
            ),
        }
        assert_eq!(*calls.lock().unwrap(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn another_cluster_or_another_id_than_planned_is_never_touched() {
    let (servers, _, etcd) = fixture(|_| None).await;
    let changed = |how: fn(&mut EtcdRemoval)| {
        let mut order = order(5);
        let step = Arc::make_mut(&mut order.step);
        let mut members = step.given().etcd_members().clone();
        how(&mut members[0]);
        step.give("etcd_members", members);
        order
    };
    for (order, expected) in [
        (
            changed(|removal| removal.cluster_id = Arc::from("77")),
            "etcd cluster `main` has the id c21033c259a2ffa5, and the plan was made for 77",
        ),
        (
            changed(|removal| removal.member_id = Arc::from("77")),
            "member m1 of etcd cluster `main` has the id 1 now, and the plan was made for 77",
        ),
        (
            changed(|removal| removal.cluster = ClusterName::from("other")),
            "the design has no etcd cluster `other`",
        ),
    ] {
        let acted = etcd.act(&order).await;
        let expected = format!("RemoveEtcdError: {expected}");
        assert_eq!(acted, Err(ActError::Permanent(Arc::from(expected))));
    }
    for server in &servers {
        let asked = server.received.lock().unwrap();
        assert!(!asked.iter().any(|asked| asked.path.ends_with("remove")));
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::excessive_nesting, reason = "a server in one expression")]
async fn a_member_whose_machine_left_the_design_is_removed_and_not_taken_for_gone() {
    for is_left in [false, true] {
        let removed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let answer = |position: u64| {
            let removed = removed.clone();
            move |asked: &Received| {
                use std::sync::atomic::Ordering::SeqCst;
                let header = json!({"cluster_id": "13983733752805916581", "member_id": position.to_string()});
                let members = |ids: &[u64]| {
                    let members = ids.iter().map(|id| {
                        json!({"ID": id.to_string(), "name": format!("m{id}"), "peerURLs": [format!("http://10.0.0.{id}:2380")]})
                    });
                    json!({"header": header, "members": members.collect::<Vec<_>>()})
                };
                if asked.path.ends_with("remove") {
                    removed.store(true, SeqCst);
                    assert_eq!(asked.body, json!({"ID": "1"}));
                } else if !asked.path.ends_with("list") {
                    return etcd(position, asked);
                }
                match removed.load(SeqCst) {
                    true => Reply::json(200, members(&[2, 3])),
                    false => Reply::json(200, members(&[1, 2, 3])),
                }
            }
        };
        let servers = [
            Server::plain(answer(1)).await,
            Server::plain(answer(2)).await,
            Server::plain(answer(3)).await,
        ];
        let mut cluster = cluster([&servers[0].url, &servers[1].url, &servers[2].url]);
        if is_left {
            cluster.members.remove(0);
        }
        let secrets: Arc<dyn Secrets> = Arc::new(NoSecrets);
        let etcd = Etcd::new(std::slice::from_ref(&cluster), &secrets);
        assert_eq!(etcd.probe(&order(20)).await, Probe::NotBegun);
        assert_eq!(etcd.act(&order(20)).await, Ok(()));
        assert!(removed.load(std::sync::atomic::Ordering::SeqCst));
        assert_eq!(etcd.probe(&order(20)).await, Probe::Done);
    }
}
