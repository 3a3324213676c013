//! Which machine is taken for which: verdicts, records, and what two nodes may not share.

use proptest::prelude::*;

use super::*;

fn identity(uuid: &str, serial: &str, macs: &[&str]) -> Identity {
    Identity::of(Some(uuid), Some(serial)).with_macs(macs.iter().copied())
}

fn recorded<'a>(records: impl IntoIterator<Item = (&'a str, Identity)>) -> Registry {
    let registry = Registry::default();
    registry.record(records);
    registry
}

fn judged(registry: &Registry, node: &str, designed: &Identity, observed: &Identity) -> Proof {
    registry.judge(node, designed, observed).into_proof()
}

#[test]
fn what_many_boards_carry_is_no_identity() {
    let dummies = [
        "",
        " ",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "03000200-0400-0500-0006-000700080009",
        "fefefefe-fefe-fefe-fefe-fefefefefefe",
        "To be filled by O.E.M.",
        "Default string",
        "N/A",
        "0123456789",
        "xxxxxxx",
        "..........",
        "Not Specified",
        "none",
    ];
    for dummy in dummies {
        assert!(is_placeholder(dummy), "{dummy}");
        assert_eq!(Identity::of(Some(dummy), Some(dummy)), Identity::default());
    }
    for good in [
        "4c4c4544-0051-3510-8052-b4c04f4a3732",
        "CZJ31405ZL",
        "S-1",
        "uuid-1",
        "12",
    ] {
        assert!(!is_placeholder(good), "{good}");
    }
    assert_eq!(
        uuid("{4C4C4544005135108052B4C04F4A3732}").as_deref(),
        Some("4c4c4544-0051-3510-8052-b4c04f4a3732")
    );
    assert_eq!(
        mac("00-5C-52-00-00-01").as_deref(),
        Some("00:5c:52:00:00:01")
    );
    for bad in [
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
        "00:5c",
        "zz:5c:52:00:00:01",
    ] {
        assert_eq!(mac(bad), None, "{bad}");
    }
}

#[test]
fn a_machine_is_proven_by_what_document_or_record_names_and_refused_where_anything_differs() {
    let a = identity("uuid-a", "S-A", &["02:00:00:00:00:0a"]);
    let b = identity("uuid-b", "S-B", &["02:00:00:00:00:0b"]);
    let registry = recorded([("n1", a.clone())]);
    let none = Identity::default();
    assert_eq!(judged(&registry, "n1", &none, &a), Proof::Proven);
    assert!(matches!(
        judged(&registry, "n1", &none, &b),
        Proof::Refused(_)
    ));
    // Another node shows the machine of the first.
    assert!(matches!(
        judged(&registry, "n2", &none, &a),
        Proof::Refused(_)
    ));
    assert!(matches!(
        judged(&registry, "n2", &none, &b),
        Proof::Unverified(_)
    ));
    for designed in [
        Identity::of(Some("UUID-B"), None),
        Identity::of(None, Some("s-b")),
        Identity::default().with_macs(["02-00-00-00-00-0B"]),
    ] {
        assert_eq!(judged(&registry, "n2", &designed, &b), Proof::Proven);
        assert!(matches!(
            judged(&registry, "n1", &designed, &a),
            Proof::Refused(_)
        ));
    }
    // What was recorded without proof stays so until a document proves it.
    let mut unproven = b.clone();
    unproven.unverified = true;
    let registry = recorded([("n2", unproven)]);
    assert!(matches!(
        judged(&registry, "n2", &none, &b),
        Proof::Unverified(_)
    ));
    assert_eq!(
        judged(&registry, "n2", &Identity::of(Some("uuid-b"), None), &b),
        Proof::Proven
    );
}

#[test]
fn a_value_that_two_machines_share_proves_nothing_and_twins_are_refused() {
    let registry = Registry::default();
    let designed = Identity::of(Some("uuid-x"), None);
    let a = identity("uuid-x", "S-A", &[]);
    let b = identity("uuid-x", "S-B", &[]);
    registry.observe("n1", &designed, &a);
    registry.observe("n2", &designed, &b);
    // Which of the two is meant cannot be known from a UUID that both have.
    assert!(matches!(
        judged(&registry, "n1", &designed, &a),
        Proof::Unverified(_)
    ));
    let by_serial = Identity::of(Some("uuid-x"), Some("S-A"));
    assert_eq!(judged(&registry, "n1", &by_serial, &a), Proof::Proven);
    registry.observe("n3", &designed, &a);
    assert!(matches!(
        judged(&registry, "n1", &by_serial, &a),
        Proof::Refused(_)
    ));
    // MAC addresses may distinguish them.
    assert!(matches!(
        registry.judge("n1", &by_serial, &a),
        Verdict::NeedsMacs(_)
    ));
}

#[test]
fn what_a_step_notes_is_found_again() {
    let known = identity("uuid-a", "S-A", &["02:00:00:00:00:0a"]);
    let notes: Vec<Arc<str>> = vec![Arc::from("clean step x.y"), Arc::from(note(&known))];
    assert_eq!(noted(&notes), Some(known));
    assert_eq!(noted(&notes[..1]), None);
}

/// The values that a board may carry: of its own, shared, a placeholder or none.
fn value(own: String) -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        3 => Just(Some(own)),
        1 => Just(Some("shared-1".to_owned())),
        1 => Just(Some("To be filled by O.E.M.".to_owned())),
        1 => Just(None),
    ]
}

fn board(number: usize) -> impl Strategy<Value = Identity> {
    let own_mac = format!("02:00:00:00:00:{number:02x}");
    let macs = prop_oneof![3 => Just(vec![own_mac]), 1 => Just(vec![])];
    (
        value(format!("uuid-{number}")),
        value(format!("S-{number}")),
        macs,
    )
        .prop_map(|(uuid, serial, macs)| {
            Identity::of(uuid.as_deref(), serial.as_deref())
                .with_macs(macs.iter().map(|mac| &**mac))
        })
}

proptest! {
    /// Whatever boards carry and however they are swapped: a node is proven only on its own board.
    #[test]
    fn no_machine_is_proven_to_be_that_of_another_node(
        boards in (0..5_usize).map(board).collect::<Vec<_>>(),
        places in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
        twice in prop::option::of((0..5_usize, 0..5_usize)),
        is_recorded in prop::collection::vec(any::<bool>(), 5),
        named in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 5),
    ) {
        let mut boards = boards;
        if let Some((from, to)) = twice {
            boards[to] = boards[from].clone();
        }
        let name = |at: usize| format!("n{at}");
        let names: Vec<String> = (0..5).map(name).collect();
        let records = (0..5).filter(|at| is_recorded[*at]);
        let registry = recorded(records.map(|at| (&*names[at], boards[at].clone())));
        for (node, board) in names.iter().zip(&places) {
            registry.observe(node, &Identity::default(), &boards[*board]);
        }
        for (at, board) in places.iter().enumerate() {
            let (uuid, serial, mac) = named[at];
            let mut designed = boards[at].clone();
            designed.uuid = designed.uuid.filter(|_| uuid);
            designed.serial = designed.serial.filter(|_| serial);
            designed.macs.retain(|_| mac);
            let proof = judged(&registry, &names[at], &designed, &boards[*board]);
            let is_own = *board == at || boards[*board] == boards[at];
            if proof.is_proven() {
                prop_assert!(is_own, "{:?} is taken for {:?}", boards[*board], boards[at]);
            }
        }
    }
}
