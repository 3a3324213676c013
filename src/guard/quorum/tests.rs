//! Tables and properties of the guard of etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::design::{ClusterName, EtcdMember};
use crate::diagnostic::{Mark, SourceId};

/// The state of a member of [`QuorumFixture`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Healthy,
    /// It runs, cut off from the others.
    CutOff,
    Dead,
    Learner,
    /// It was added and never started.
    Unstarted,
    /// The design has it and the cluster has not.
    Absent,
    /// It answers what no etcd answers.
    Invalid,
}

use State::{Absent, CutOff, Dead, Healthy, Invalid, Learner, Unstarted};

/// A cluster in which member `m1` is on machine `n1` and so on.
#[derive(Clone, Debug)]
struct QuorumFixture {
    states: Vec<State>,
    minimum: Option<usize>,
}

fn fixture(states: &[State]) -> QuorumFixture {
    QuorumFixture {
        states: states.to_vec(),
        minimum: None,
    }
}

fn node(position: usize) -> NodeName {
    NodeName::from(format!("n{position}"))
}

impl QuorumFixture {
    fn cluster(&self) -> EtcdCluster {
        let members: Vec<EtcdMember> = (1..=self.states.len())
            .map(|position| EtcdMember {
                node: node(position),
                name: Arc::from(format!("m{position}")),
                peer_url: Arc::from(format!("https://10.0.0.{position}:2380")),
                client_url: Arc::from(format!("https://10.0.0.{position}:2379")),
            })
            .collect();
        EtcdCluster {
            name: ClusterName::from("main"),
            minimum_healthy: self.minimum.unwrap_or_else(|| quorum(members.len())),
            members,
            credentials: BTreeMap::new(),
            username: None,
            mark: Mark::new(SourceId(u32::MAX), 0),
        }
    }

    /// The members of the live cluster that are in one of some states.
    fn count(&self, states: &[State]) -> usize {
        let found = self.states.iter().filter(|state| states.contains(state));
        found.count()
    }

    fn voters(&self) -> usize {
        self.count(&[Healthy, CutOff, Dead, Unstarted, Invalid])
    }

    fn has_quorum(&self) -> bool {
        self.count(&[Healthy]) >= quorum(self.voters())
    }

    fn members(&self) -> Vec<EtcdMemberSeen> {
        let members = self
            .states
            .iter()
            .zip(1..)
            .filter(|(state, _)| **state != Absent);
        members
            .map(|(state, position)| EtcdMemberSeen {
                id: Arc::from(format!("{position:x}")),
                name: match state {
                    Unstarted => Arc::from(""),
                    _ => Arc::from(format!("m{position}")),
                },
                peer_urls: vec![Arc::from(format!("https://10.0.0.{position}:2380"))],
                client_urls: Vec::new(),
                learner: *state == Learner,
            })
            .collect()
    }

    fn seen(&self) -> EtcdSeen {
        let first = self.states.iter().position(|state| *state == Healthy);
        let leader = first.filter(|_| self.has_quorum());
        let mut seen = EtcdSeen::default();
        for (state, position) in self.states.iter().zip(1..) {
            let name: Arc<str> = Arc::from(format!("m{position}"));
            let fact = match state {
                Dead | Unstarted | Absent => Fact::Unknown(Arc::from("connection refused")),
                Invalid => {
                    seen.invalid
                        .insert(name.clone(), Arc::from("a page of HTML"));
                    Fact::Unknown(Arc::from("a page of HTML"))
                }
                Healthy | CutOff | Learner => Fact::Known(EtcdAnswer {
                    cluster_id: Arc::from("c1"),
                    member_id: Arc::from(format!("{position:x}")),
                    // A learner does not answer this.
                    members: match state {
                        Learner => Vec::new(),
                        _ => self.members(),
                    },
                    leader: leader
                        .filter(|_| *state != CutOff)
                        .map(|leader| Arc::from(format!("{:x}", leader + 1))),
                    learner: *state == Learner,
                    decides: leader.is_some() && *state == Healthy,
                    alarms: Vec::new(),
                    errors: Vec::new(),
                    version: Arc::from("3.5.1"),
                    db_size: 20480,
                    raft_index: 9,
                    raft_applied: 9,
                    raft_term: 2,
                }),
            };
            seen.answers.insert(name, fact);
        }
        seen
    }

    fn removal(&self, position: usize) -> Result<Vec<EtcdRemoval>, Refusal> {
        removal(&self.cluster(), &self.seen(), &node(position), false)
    }

    #[track_caller]
    fn refused(&self, position: usize) -> String {
        let refusal = self.removal(position).expect_err("it is refused");
        format!("{}: {refusal}", refusal.rule())
    }

    #[track_caller]
    fn allowed(&self, position: usize) -> Vec<String> {
        let removals = self.removal(position).expect("it is allowed");
        let ids = removals.iter().map(|removal| removal.member_id.to_string());
        ids.collect()
    }
}

/// Changes an answer of a member.
type Change = fn(&mut EtcdAnswer);

/// Changes what one member answered.
fn change(seen: &mut EtcdSeen, member: &str, how: impl FnOnce(&mut EtcdAnswer)) {
    match seen.answers.get_mut(member) {
        Some(Fact::Known(answer)) => how(answer),
        other => panic!("{member}: {other:?}"),
    }
}

fn rule(cluster: &EtcdCluster, seen: &EtcdSeen, position: usize) -> String {
    match removal(cluster, seen, &node(position), false) {
        Ok(removals) => format!("{} removed", removals.len()),
        Err(refusal) => refusal.rule().to_owned(),
    }
}

#[test]
fn a_healthy_member_of_three_goes_and_names_what_is_removed() {
    let removals = fixture(&[Healthy; 3]).removal(1).unwrap();
    let expected = EtcdRemoval {
        cluster: ClusterName::from("main"),
        cluster_id: Arc::from("c1"),
        member_id: Arc::from("1"),
        name: Arc::from("m1"),
    };
    assert_eq!(removals, [expected]);
}

#[test]
fn a_second_of_three_stays_since_the_document_wants_two() {
    assert_eq!(
        fixture(&[Absent, Healthy, Healthy]).refused(2),
        "etcd-minimum: etcd cluster `main` would be left with 1 healthy voter without n2, and its document \
         requires 2 (m1 is not a member, and does not answer: connection refused)"
    );
}

#[test]
fn a_healthy_member_stays_while_another_is_dead_and_the_dead_one_may_go() {
    let fixture = fixture(&[Healthy, Healthy, Dead]);
    assert_eq!(
        fixture.refused(1),
        "etcd-quorum: etcd cluster `main` would be left with 1 healthy voter without n1, and needs 2 \
         (m3 does not answer: connection refused)"
    );
    assert_eq!(fixture.allowed(3), ["3"]);
}

#[test]
fn a_dead_member_may_go_below_the_minimum_that_it_did_not_count_for() {
    let fixture = QuorumFixture {
        minimum: Some(3),
        ..fixture(&[Healthy, Healthy, Dead])
    };
    assert_eq!(fixture.allowed(3), ["3"]);
    assert_eq!(
        health(&fixture.cluster(), &fixture.seen(), None),
        Health::Unhealthy
    );
}

#[test]
fn of_two_dead_members_of_five_either_may_be_the_first_to_go() {
    let fixture = fixture(&[Healthy, Dead, Healthy, Dead, Healthy]);
    assert_eq!(fixture.allowed(2), ["2"]);
    assert_eq!(fixture.allowed(4), ["4"]);
    assert!(fixture.refused(1).starts_with("etcd-quorum"));
}

#[test]
fn nothing_goes_without_a_quorum() {
    let fixture = fixture(&[Healthy, Dead, Dead]);
    assert!(
        fixture.refused(2).starts_with("etcd-leader"),
        "{}",
        fixture.refused(2)
    );
    assert_eq!(
        fixture.refused(1),
        "etcd-silent: no other member of etcd cluster `main` can be asked (m2 does not answer: connection \
         refused; m3 does not answer: connection refused)"
    );
}

#[test]
fn an_only_member_stays_unless_the_cluster_is_to_be_lost_and_then_there_is_nothing_to_remove() {
    let only = fixture(&[Healthy]);
    assert_eq!(
        only.refused(1),
        "etcd-only-member: etcd cluster `main` has no other member and would be lost"
    );
    for fixture in [only, fixture(&[Dead])] {
        let removal = removal(&fixture.cluster(), &fixture.seen(), &node(1), true);
        assert_eq!(removal, Ok(Vec::new()));
    }
    let two = QuorumFixture {
        minimum: Some(1),
        ..fixture(&[Healthy, Healthy])
    };
    assert_eq!(two.allowed(1), ["1"], "one member is a quorum of itself");
    let mut seen = two.seen();
    let mut single = two.cluster();
    single.members.truncate(1);
    seen.answers.remove("m2");
    let refusal = removal(&single, &seen, &node(1), true).unwrap_err();
    assert_eq!(refusal.rule(), "etcd-stranger", "it is not alone");
}

#[test]
fn who_is_no_member_or_not_any_more_has_nothing_to_remove() {
    let fixture = fixture(&[Healthy, Healthy, Absent]);
    assert!(fixture.allowed(3).is_empty());
    assert!(fixture.allowed(9).is_empty());
    let lost = self::fixture(&[Healthy, Dead, Absent]);
    assert!(
        lost.refused(3).starts_with("etcd-undecided"),
        "{}",
        lost.refused(3)
    );
}

#[test]
fn a_learner_goes_freely_from_its_own_machine_and_blocks_every_other() {
    let fixture = QuorumFixture {
        minimum: Some(3),
        ..fixture(&[Healthy, Healthy, Dead, Learner])
    };
    assert_eq!(fixture.allowed(4), ["4"]);
    assert_eq!(
        fixture.refused(3),
        "etcd-learner: member m4 of etcd cluster `main`, on n4, is a learner: a change of members is under way"
    );
}

#[test]
fn survivors_must_agree_and_the_member_that_goes_is_not_asked() {
    let fixture = fixture(&[Healthy; 3]);
    let cluster = fixture.cluster();
    let cases: [(&str, Change); 5] = [
        ("etcd-two-clusters", |answer| {
            answer.cluster_id = Arc::from("c2")
        }),
        ("etcd-disagreement", |answer| answer.members.truncate(2)),
        ("etcd-leader", |answer| answer.leader = None),
        ("etcd-leader", |answer| answer.leader = Some(Arc::from("3"))),
        ("etcd-alarm", |answer| {
            answer.alarms.push(EtcdAlarm {
                member: Arc::from("3"),
                kind: Arc::from("NOSPACE"),
            });
        }),
    ];
    for (expected, how) in cases {
        let mut seen = fixture.seen();
        change(&mut seen, "m2", how);
        assert_eq!(rule(&cluster, &seen, 1), expected);
        assert_eq!(rule(&cluster, &seen, 3), expected);
    }
    for (_, how) in &cases[..4] {
        let mut seen = fixture.seen();
        change(&mut seen, "m2", how);
        assert_eq!(
            rule(&cluster, &seen, 2),
            "1 removed",
            "it is asked for nothing but its health"
        );
    }
}

#[test]
fn who_is_who_must_be_plain_before_anything_goes() {
    let fixture = fixture(&[Healthy; 3]);
    let cluster = fixture.cluster();
    let with = |how: fn(&mut Vec<EtcdMemberSeen>)| {
        let mut seen = fixture.seen();
        for name in ["m1", "m2", "m3"] {
            change(&mut seen, name, |answer| how(&mut answer.members));
        }
        removal(&cluster, &seen, &node(1), false)
    };
    let renamed = with(|members| members[2].name = Arc::from("m9")).unwrap_err();
    assert_eq!(
        renamed.to_string(),
        "a member of etcd cluster `main` is by its name on no machine and by its peer URL on n3: m9 (id 3, \
         https://10.0.0.3:2380)"
    );
    let swapped = with(|members| members[2].peer_urls = members[0].peer_urls.clone()).unwrap_err();
    assert_eq!(
        swapped.to_string(),
        "a member of etcd cluster `main` is by its name on n3 and by its peer URL on n1: m3 (id 3, \
         https://10.0.0.1:2380)"
    );
    let stranger = with(|members| {
        members.push(EtcdMemberSeen {
            id: Arc::from("9"),
            name: Arc::from(""),
            peer_urls: vec![Arc::from("https://10.0.0.9:2380")],
            client_urls: Vec::new(),
            learner: true,
        });
    });
    assert_eq!(
        stranger.unwrap_err().to_string(),
        "etcd cluster `main` has a member that the design does not know: one that never started (id 9, \
         https://10.0.0.9:2380)"
    );
    let twice = with(|members| members.push(members[2].clone())).unwrap_err();
    assert_eq!(
        twice.to_string(),
        "etcd cluster `main` has two members that are m3 by the design"
    );
    let slash = with(|members| members[0].peer_urls = vec![Arc::from("HTTPS://10.0.0.1:2380/")]);
    assert_eq!(slash.map(|removals| removals.len()), Ok(1));
}

#[test]
fn members_whose_machines_left_the_design_are_counted_when_named() {
    let fixture = fixture(&[Healthy; 5]);
    let (mut cluster, mut seen) = (fixture.cluster(), fixture.seen());
    cluster.members.truncate(3);
    cluster.minimum_healthy = 2;
    seen.answers.retain(|name, _| &**name < "m4");
    assert_eq!(rule(&cluster, &seen, 1), "etcd-stranger");
    assert_eq!(
        rule(&cluster, &seen, 4),
        "0 removed",
        "it is no member by the design"
    );
    let half = knowing(&cluster, &seen, |live| (&*live.id == "4").then(|| node(4)));
    assert_eq!(rule(&half, &seen, 4), "etcd-stranger");
    let known = knowing(&cluster, &seen, |live| {
        Some(NodeName::from(format!("n{}", live.id)))
    });
    assert_eq!(
        rule(&known, &seen, 4),
        "1 removed",
        "three of five are a majority without it"
    );
    assert_eq!(rule(&known, &seen, 1), "etcd-quorum");
    change(&mut seen, "m1", |answer| answer.decides = false);
    assert_eq!(rule(&known, &seen, 4), "etcd-quorum");
}

#[test]
fn another_member_at_a_client_url_is_found_out() {
    let fixture = fixture(&[Healthy; 3]);
    for (asked, expected) in [
        (
            2,
            "at https://10.0.0.2:2379, where member m2 of etcd cluster `main` should be, answers m3",
        ),
        (
            1,
            "at https://10.0.0.1:2379, where member m1 of etcd cluster `main` should be, answers m3",
        ),
    ] {
        let mut seen = fixture.seen();
        change(&mut seen, &format!("m{asked}"), |answer| {
            answer.member_id = Arc::from("3")
        });
        let refusal = removal(&fixture.cluster(), &seen, &node(1), false).unwrap_err();
        assert_eq!(refusal.to_string(), expected);
    }
}

#[test]
fn a_member_that_went_its_own_way_does_not_speak_for_the_cluster_that_it_left() {
    let fixture = fixture(&[Healthy; 3]);
    let mut seen = fixture.seen();
    change(&mut seen, "m1", |answer| {
        answer.cluster_id = Arc::from("c9");
        answer.members.truncate(1);
        answer.raft_term = 99;
    });
    assert_eq!(rule(&fixture.cluster(), &seen, 1), "1 removed");
    assert_eq!(rule(&fixture.cluster(), &seen, 2), "etcd-two-clusters");
}

#[test]
fn health_is_told_in_the_words_of_the_specification() {
    let cases: [(&[State], Option<usize>, &str, usize); 12] = [
        (&[Healthy, Healthy, Healthy], None, "Healthy", 1),
        (&[Healthy, Healthy, Dead], None, "Healthy", 0),
        (&[Healthy, Healthy, Dead], Some(3), "Unhealthy", 0),
        (&[Healthy, Healthy, Absent], None, "Healthy", 0),
        (&[Healthy, Dead, Dead], None, "Unhealthy", 0),
        (&[Healthy, Dead, CutOff], None, "Unhealthy", 0),
        (&[Healthy, Healthy, Healthy, Learner], None, "Healthy", 0),
        (
            &[Healthy, Healthy, Healthy, Healthy, Healthy],
            None,
            "Healthy",
            2,
        ),
        (&[Dead, Dead, Dead], None, "Unable to access Etcd", 0),
        (&[Healthy, Healthy, Invalid], None, "Healthy", 0),
        (&[Healthy, Invalid, Dead], None, "Unable to access Etcd", 0),
        (&[Healthy], None, "Healthy", 0),
    ];
    for (states, minimum, word, spare) in cases {
        let fixture = QuorumFixture {
            minimum,
            ..fixture(states)
        };
        let (cluster, seen) = (fixture.cluster(), fixture.seen());
        let health = health(&cluster, &seen, None);
        assert_eq!(
            (health.as_str(), can_lose(&cluster, &seen)),
            (word, spare),
            "{states:?}"
        );
        assert_eq!(health.is_error(), word.starts_with("Unable"));
    }
    let invalid = fixture(&[Healthy, Invalid, Dead]);
    assert_eq!(
        health(&invalid.cluster(), &invalid.seen(), None),
        Health::Invalid
    );
    let mut seen = fixture(&[Healthy; 3]).seen();
    change(&mut seen, "m2", |answer| {
        answer.alarms.push(EtcdAlarm {
            member: Arc::from("2"),
            kind: Arc::from("CORRUPT"),
        });
    });
    let cluster = fixture(&[Healthy; 3]).cluster();
    assert_eq!(health(&cluster, &seen, None), Health::Unhealthy);
}

#[test]
fn a_corrupt_member_may_go_where_the_others_are_a_healthy_quorum_and_only_it() {
    let corrupt = |states: &[State]| {
        let fixture = fixture(states);
        let mut seen = fixture.seen();
        change(&mut seen, "m2", |answer| {
            answer.alarms.push(EtcdAlarm {
                member: Arc::from("3"),
                kind: Arc::from("CORRUPT"),
            });
        });
        let mut cluster = fixture.cluster();
        // It counts for no minimum any more.
        cluster.minimum_healthy = states.len();
        (cluster, seen)
    };
    let (cluster, seen) = corrupt(&[Healthy; 3]);
    assert_eq!(rule(&cluster, &seen, 3), "1 removed");
    assert_eq!(rule(&cluster, &seen, 1), "etcd-alarm");
    let (mut cluster, seen) = corrupt(&[Dead, Healthy, Healthy]);
    assert_eq!(rule(&cluster, &seen, 3), "etcd-quorum");
    cluster.minimum_healthy = 1;
    assert_eq!(health(&cluster, &seen, Some(&node(3))), Health::Unhealthy);
    let (mut cluster, seen) = corrupt(&[Healthy; 3]);
    cluster.minimum_healthy = 1;
    assert_eq!(health(&cluster, &seen, Some(&node(3))), Health::Healthy);
    assert_eq!(health(&cluster, &seen, None), Health::Unhealthy);
}

#[test]
fn a_machine_that_is_torn_down_does_not_count_for_health() {
    let fixture = fixture(&[Healthy, Healthy, Dead]);
    let (cluster, seen) = (fixture.cluster(), fixture.seen());
    assert_eq!(health(&cluster, &seen, Some(&node(3))), Health::Healthy);
    assert_eq!(health(&cluster, &seen, Some(&node(1))), Health::Unhealthy);
    let only = self::fixture(&[Dead]);
    let health = health(&only.cluster(), &only.seen(), Some(&node(1)));
    assert_eq!(health, Health::Healthy, "nothing else is left to wait for");
}

#[test]
fn a_member_is_back_when_it_votes_and_answers_for_itself() {
    let cases = [
        (Healthy, None),
        (Dead, Some("does not answer: connection refused")),
        (Learner, Some("is a learner")),
        (Unstarted, Some("does not answer: connection refused")),
        (Absent, Some("is not a member")),
        (CutOff, Some("has no leader")),
    ];
    for (state, expected) in cases {
        let fixture = fixture(&[Healthy, Healthy, state]);
        let missing = missing(&fixture.cluster(), &fixture.seen(), &node(3));
        let expected =
            expected.map(|problem| format!("member m3 of etcd cluster `main` {problem}"));
        assert_eq!(missing, expected);
    }
    let fixture = fixture(&[Healthy; 3]);
    assert_eq!(missing(&fixture.cluster(), &fixture.seen(), &node(9)), None);
}

#[test]
fn what_a_plan_relies_on_is_what_the_survivors_know() {
    let fixture = fixture(&[Healthy, Healthy, Dead, Learner]);
    let standing = standing(&fixture.cluster(), &fixture.seen()).unwrap();
    let text = |ids: &BTreeSet<Arc<str>>| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(&*standing.cluster_id, "c1");
    assert_eq!(text(&standing.voters), ["1", "2", "3"]);
    assert_eq!(text(&standing.learners), ["4"]);
    assert_eq!(text(&standing.healthy), ["1", "2"]);
    assert!(super::standing(&fixture.cluster(), &EtcdSeen::default()).is_none());
}

fn some_world() -> impl Strategy<Value = QuorumFixture> {
    let state = prop_oneof![
        12 => Just(Healthy),
        2 => Just(Dead),
        1 => Just(CutOff),
        1 => Just(Learner),
        1 => Just(Unstarted),
        1 => Just(Absent),
        1 => Just(Invalid),
    ];
    let states = proptest::collection::vec(state, 1..8);
    (states, proptest::option::of(1..5_usize)).prop_map(|(states, minimum)| QuorumFixture {
        minimum: minimum.map(|minimum| minimum.min(states.len())),
        states,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_allowed_sequence_takes_any_cluster_below_quorum(
        mut fixtures in proptest::collection::vec(some_world(), 1..4),
        order in proptest::collection::vec((0..4_usize, 1..8_usize), 0..24),
    ) {
        for (which, position) in order {
            let which = which % fixtures.len();
            let fixture = &mut fixtures[which];
            let before = fixture.clone();
            match fixture.removal(position) {
                Err(refusal) => {
                    prop_assert!(refusal.to_string().len() > 30, "{refusal:?}");
                    prop_assert!(refusal.rule().starts_with("etcd-"));
                    prop_assert_eq!(refusal.cluster().as_str(), "main");
                }
                Ok(removals) if removals.is_empty() => {
                    prop_assert!(fixture.states.get(position - 1).is_none_or(|state| *state == Absent));
                }
                Ok(removals) => {
                    prop_assert_eq!(removals.len(), 1);
                    prop_assert!(before.has_quorum(), "no quorum could have agreed to it");
                    let state = std::mem::replace(&mut fixture.states[position - 1], Absent);
                    prop_assert!(fixture.voters() > 0, "the last voter went");
                    prop_assert!(fixture.has_quorum(), "{before:?} lost its quorum with {position}");
                    let healthy = fixture.count(&[Healthy]);
                    if state == Healthy {
                        prop_assert!(healthy >= fixture.cluster().minimum_healthy);
                    } else {
                        prop_assert_eq!(healthy, before.count(&[Healthy]));
                    }
                    prop_assert!(state == Learner || fixture.count(&[Learner]) == 0);
                    let needed = needed(&before.cluster(), &before.seen(), &removals);
                    prop_assert!(before.count(&[Healthy]) >= needed, "{needed} needed of {before:?}");
                    // The forecast equals the observed state then, but for the leader and the members that do not answer.
                    let forecast = without(&before.seen(), &removals);
                    let (cluster, seen) = (fixture.cluster(), fixture.seen());
                    prop_assert_eq!(standing(&cluster, &forecast), standing(&cluster, &seen));
                    for next in 1..=fixture.states.len() {
                        prop_assert_eq!(
                            removal(&cluster, &forecast, &node(next), false).is_ok(),
                            removal(&cluster, &seen, &node(next), false).is_ok()
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_cluster_that_could_lose_one_more_lets_any_healthy_voter_go(fixture in some_world()) {
        let (cluster, seen) = (fixture.cluster(), fixture.seen());
        let is_plain = fixture.count(&[Learner, CutOff]) == 0;
        if is_plain && can_lose(&cluster, &seen) > 0 {
            for (state, position) in fixture.states.iter().zip(1..) {
                if *state == Healthy {
                    prop_assert!(fixture.removal(position).is_ok(), "{position} of {fixture:?}");
                }
            }
        }
    }

    #[test]
    fn fewer_healthy_members_than_needed_are_refused(fixture in some_world(), position in 1..8_usize, dies in 1..8_usize) {
        let Ok(removals) = fixture.removal(position) else { return Ok(()) };
        if removals.is_empty() || dies == position || fixture.states.get(dies - 1) != Some(&Healthy) {
            return Ok(());
        }
        let needed = needed(&fixture.cluster(), &fixture.seen(), &removals);
        let mut later = fixture.clone();
        later.states[dies - 1] = Dead;
        if later.count(&[Healthy]) < needed {
            prop_assert!(later.removal(position).is_err(), "{later:?}");
        } else {
            prop_assert!(later.removal(position).is_ok(), "{later:?}");
        }
    }
}
