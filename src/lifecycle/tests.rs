//! Every row of the tables, laid beside Ironic's own and beside what the specifications promise.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;
use ProvisionState as S;

const PLAIN: Flags = Flags {
    retired: false,
    maintenance: false,
    protected: false,
};
const RETIRED: Flags = Flags {
    retired: true,
    ..PLAIN
};
const MAINTENANCE: Flags = Flags {
    maintenance: true,
    ..PLAIN
};
const PROTECTED: Flags = Flags {
    protected: true,
    ..PLAIN
};

/// Differences from Ironic's table on purpose: (state, event, its state, ours, why); `-` for none.
const DIFFERENCES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "cleaning",
        "done",
        "available",
        "available manageable",
        "a retired machine that was cleaned goes to manageable; Ironic fires `manage` for that",
    ),
    (
        "cleaning",
        "manage",
        "manageable",
        "-",
        "the end of a manual cleaning; Ironic takes it as a verb too, and the machine would be left uncleaned",
    ),
    (
        "cleaning",
        "return",
        "-",
        "manageable",
        "the end of a manual cleaning, which has no verb",
    ),
    (
        "clean failed",
        "clean",
        "-",
        "cleaning",
        "ironic-cleaning: from CLEANFAIL to CLEANING",
    ),
    (
        "clean failed",
        "provide",
        "-",
        "available",
        "ironic-cleaning: from CLEANFAIL to AVAILABLE, as determined by the operator",
    ),
    (
        "service failed",
        "hold",
        "service hold",
        "-",
        "nothing runs that could pause",
    ),
    (
        "service failed",
        "wait",
        "service wait",
        "-",
        "nothing runs that could wait",
    ),
    (
        "service hold",
        "fail",
        "service failed",
        "-",
        "a pause does not fail by itself, it is aborted",
    ),
];

fn event_name(event: LifecycleEvent) -> &'static str {
    match event {
        LifecycleEvent::Done => "done",
        LifecycleEvent::Return => "return",
        LifecycleEvent::Fail => "fail",
        LifecycleEvent::Wait => "wait",
        LifecycleEvent::Resume => "resume",
        LifecycleEvent::Hold => "hold",
        LifecycleEvent::Clean => "clean",
    }
}

fn names(row: &Transition) -> (String, String, String) {
    let cause = match row.cause {
        Cause::Asked(verb) => verb.as_str(),
        Cause::Happens(event) => event_name(event),
    };
    (row.from.to_string(), cause.to_owned(), row.to.to_string())
}

/// The rows of a table beside the repository, without its heading.
fn shared_rows(name: &str) -> Option<Vec<Vec<String>>> {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/ironic"
    ));
    let Ok(text) = std::fs::read_to_string(folder.join(name)) else {
        crate::skipped::skipped(&format!("there is no {name} beside the repository"));
        return None;
    };
    let fields = |line: &str| line.split(',').map(str::to_owned).collect();
    Some(text.lines().skip(1).map(fields).collect())
}

#[test]
fn the_table_is_that_of_ironic_but_for_what_the_specifications_change() {
    let Some(rows) = shared_rows("transitions.csv") else {
        return;
    };
    assert_eq!(rows.len(), 93);
    let theirs: BTreeSet<_> = rows
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone(), row[2].clone()))
        .collect();
    let ours: BTreeSet<_> = TRANSITIONS.iter().map(names).collect();
    let mut expected = theirs;
    for (state, event, their_state, our_states, _) in DIFFERENCES {
        let row = |to: &str| (state.to_string(), event.to_string(), to.to_owned());
        if *their_state != "-" {
            assert!(
                expected.remove(&row(their_state)),
                "{state} {event} is no row of Ironic's"
            );
        }
        for to in our_states.split(' ').filter(|to| *to != "-") {
            expected.insert(row(to));
        }
    }
    let missing: Vec<_> = expected.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&expected).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

#[test]
fn the_states_are_those_of_ironic() {
    let Some(rows) = shared_rows("states.csv") else {
        return;
    };
    let theirs: BTreeSet<_> = rows.iter().map(|row| row[0].as_str()).collect();
    let ours: BTreeSet<_> = ProvisionState::ALL
        .iter()
        .map(|state| state.as_str())
        .collect();
    assert_eq!(theirs, ours);
    for row in &rows {
        let state = ProvisionState::from_name(&row[0]);
        if row[1] == "true" {
            assert!(!state.is_transient(), "{state} is stable");
        }
    }
    assert_eq!(ProvisionState::from_name("dreaming"), ProvisionState::Other);
}

#[test]
fn a_cause_leads_from_a_state_to_one_state_for_each_machine() {
    for state in ProvisionState::ALL {
        for flags in [PLAIN, RETIRED] {
            let mut seen = BTreeSet::new();
            for row in TRANSITIONS.iter().filter(|row| row.from == state) {
                if row.retired.is_none_or(|retired| retired == flags.retired) {
                    assert!(seen.insert(row.cause), "{state} {:?} twice", row.cause);
                }
            }
        }
    }
}

#[test]
fn what_is_under_way_ends_and_what_is_at_rest_waits_to_be_asked() {
    for state in ProvisionState::ALL {
        let happens = LifecycleEvent::ALL
            .into_iter()
            .any(|event| follow(state, event, PLAIN).is_some());
        assert_eq!(happens, state.is_transient(), "{state}");
        assert!(!allowed(state, PLAIN).is_empty(), "{state}");
    }
}

#[test]
fn a_machine_is_cleaned_by_hand_from_manageable_or_clean_failed_only() {
    for state in ProvisionState::ALL {
        let may = step(state, Verb::Clean, PLAIN).is_ok();
        assert_eq!(
            may,
            matches!(state, S::Manageable | S::CleanFailed),
            "{state}"
        );
    }
    assert_eq!(
        follow(S::Cleaning, LifecycleEvent::Return, PLAIN),
        Some(S::Manageable)
    );
}

#[test]
fn neither_power_nor_state_changes_while_a_machine_is_cleaned() {
    for state in [S::Cleaning, S::CleanWait, S::CleanHold] {
        assert!(state.is_cleaning());
        for verb in Verb::ALL {
            let may = matches!(
                (state, verb),
                (S::CleanWait | S::CleanHold, Verb::Abort)
                    | (S::CleanHold, Verb::Unhold)
                    | (
                        _,
                        Verb::SetRetired
                            | Verb::UnsetRetired
                            | Verb::SetMaintenance
                            | Verb::UnsetMaintenance
                    )
            );
            assert_eq!(
                step(state, verb, PLAIN).is_ok(),
                may,
                "{verb} while {state}"
            );
        }
    }
}

#[test]
fn after_cleaning_failed_it_can_be_switched_cleaned_again_skipped_or_managed() {
    for flags in [PLAIN, MAINTENANCE] {
        for verb in [
            Verb::PowerOn,
            Verb::PowerOff,
            Verb::Clean,
            Verb::Provide,
            Verb::Manage,
        ] {
            assert!(step(S::CleanFailed, verb, flags).is_ok(), "{verb}");
        }
        assert!(step(S::CleanFailed, Verb::Deploy, flags).is_err());
    }
    assert_eq!(step(S::CleanFailed, Verb::Provide, PLAIN), Ok(S::Available));
    assert!(step(S::CleanFailed, Verb::Provide, RETIRED).is_err());
    assert_eq!(step(S::CleanFailed, Verb::Clean, RETIRED), Ok(S::Cleaning));
}

#[test]
fn the_retired_flag_can_be_set_everywhere_but_in_available() {
    for state in ProvisionState::ALL {
        let may = step(state, Verb::SetRetired, PLAIN);
        assert_eq!(may.is_ok(), state != S::Available, "{state}");
        assert_eq!(step(state, Verb::UnsetRetired, RETIRED), Ok(state));
    }
}

#[test]
fn a_retired_machine_reaches_available_and_deploying_from_nowhere() {
    for state in ProvisionState::ALL {
        for verb in Verb::ALL {
            let next = step(state, verb, RETIRED);
            if let Ok(next) = next {
                let stays = next == state;
                assert!(stays || next != S::Available, "{verb} from {state}");
                let rebuilt = verb == Verb::Rebuild;
                assert!(
                    stays || rebuilt || next != S::Deploying,
                    "{verb} from {state}"
                );
            }
        }
        for event in LifecycleEvent::ALL {
            let next = follow(state, event, RETIRED);
            assert_ne!(next, Some(S::Available), "{event:?} from {state}");
        }
    }
    assert_eq!(
        follow(S::Cleaning, LifecycleEvent::Done, RETIRED),
        Some(S::Manageable)
    );
    assert_eq!(
        follow(S::Cleaning, LifecycleEvent::Done, PLAIN),
        Some(S::Available)
    );
}

#[test]
fn retirement_disturbs_neither_cleaning_nor_rebuilding_nor_tearing_down() {
    for (state, verb) in [
        (S::Manageable, Verb::Clean),
        (S::CleanFailed, Verb::Clean),
        (S::CleanWait, Verb::Abort),
        (S::Active, Verb::Rebuild),
        (S::Active, Verb::Delete),
        (S::Enroll, Verb::Manage),
        (S::Manageable, Verb::Inspect),
    ] {
        assert_eq!(
            step(state, verb, RETIRED),
            step(state, verb, PLAIN),
            "{verb}"
        );
    }
    for event in [
        LifecycleEvent::Wait,
        LifecycleEvent::Resume,
        LifecycleEvent::Fail,
        LifecycleEvent::Hold,
        LifecycleEvent::Return,
    ] {
        for state in [S::Cleaning, S::CleanWait] {
            assert_eq!(follow(state, event, RETIRED), follow(state, event, PLAIN));
        }
    }
}

#[test]
fn maintenance_and_protection_stand_in_the_way_of_what_they_are_for() {
    assert!(step(S::Available, Verb::Deploy, MAINTENANCE).is_err());
    assert!(step(S::Active, Verb::Rebuild, MAINTENANCE).is_err());
    assert!(step(S::Manageable, Verb::Clean, MAINTENANCE).is_err());
    assert!(step(S::Manageable, Verb::Provide, MAINTENANCE).is_ok());
    for state in ProvisionState::ALL {
        assert!(step(state, Verb::Delete, PROTECTED).is_err(), "{state}");
        assert!(step(state, Verb::Rebuild, PROTECTED).is_err(), "{state}");
    }
}

#[test]
fn nothing_is_asked_of_a_machine_in_an_unknown_state_but_its_flags() {
    assert_eq!(
        allowed(S::Other, PLAIN),
        [
            Verb::SetRetired,
            Verb::UnsetRetired,
            Verb::SetMaintenance,
            Verb::UnsetMaintenance
        ]
    );
}

#[test]
fn a_refusal_names_state_and_verb_and_what_would_be_allowed() {
    let refusal = step(S::Active, Verb::Provide, PLAIN).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "`provide` is refused while the machine is active; allowed: rebuild, delete, rescue, service, \
         power on, power off, set retired, unset retired, set maintenance, unset maintenance"
    );
    let refusal = step(S::Manageable, Verb::Provide, RETIRED).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "`provide` is refused while the machine is manageable, since a retired machine never becomes \
         available: take the flag off first; allowed: inspect, clean, adopt, power on, power off, \
         set retired, unset retired, set maintenance, unset maintenance"
    );
}
