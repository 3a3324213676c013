//! Attempts, backoff, versions and the breaker, as tables.

use std::time::Duration;

use proptest::prelude::*;

use crate::remediation::{
    HostState, MAX_UNHEALTHY, Refusal, Release, RemediationLimits, Share, Tried, UnhealthyCount,
    after_failure, breaker, refusal,
};

const LIMITS: RemediationLimits = RemediationLimits {
    attempts: 4,
    power_off: 10,
    power_on: 20,
    release: 30,
    ready: 40,
    settling: 5,
    backoff: 60,
    method: Release::DeleteNode,
};

#[test]
fn each_wait_between_attempts_is_twice_as_long_and_never_longer_than_an_hour() {
    let waits = |attempt| LIMITS.backoff_before(attempt).as_secs();
    assert_eq!([0, 1, 2, 3, 4].map(waits), [0, 0, 60, 120, 240]);
    assert_eq!(waits(9), 3600);
    assert_eq!(waits(u32::MAX), 3600);
}

#[test]
fn after_the_last_attempt_there_is_no_other() {
    let again = |attempt, seconds| Tried::Again {
        attempt,
        after: Duration::from_secs(seconds),
    };
    assert_eq!(after_failure(1, &LIMITS), again(2, 60));
    assert_eq!(after_failure(3, &LIMITS), again(4, 240));
    assert_eq!(after_failure(4, &LIMITS), Tried::Enough);
    // The limit was lowered while it was running.
    assert_eq!(after_failure(7, &LIMITS), Tried::Enough);
    let none = RemediationLimits {
        attempts: 0,
        ..LIMITS
    };
    assert_eq!(after_failure(0, &none), Tried::Enough);
}

#[test]
fn a_whole_remediation_has_a_bound() {
    assert_eq!(
        LIMITS.longest(),
        4 * (10 + 20 + 30 + 40 + 60) + 60 + 120 + 240
    );
    let endless = RemediationLimits {
        attempts: u32::MAX,
        ready: u64::MAX,
        ..LIMITS
    };
    assert_eq!(endless.longest(), u64::MAX);
}

#[test]
fn the_taint_is_for_workload_clusters_from_1_28_on() {
    let cases = [
        ("v1.27.9", false),
        ("v1.28.0", true),
        ("1.28", true),
        ("v1.33.2+k3s1", true),
        ("v1.28-rc.1", true),
        ("v2.0.0", true),
        ("v0.99", false),
        ("", false),
        ("newest", false),
    ];
    for (version, expected) in cases {
        assert_eq!(
            Release::OutOfService.is_known_to(version),
            expected,
            "{version}"
        );
        assert!(Release::DeleteNode.is_known_to(version));
    }
}

#[test]
fn the_breaker_counts_as_a_machine_health_check_does() {
    let holds = |unhealthy, machines, limit: &str| {
        let (half, limit) = (unhealthy / 2, limit.parse().unwrap());
        let are_all = UnhealthyCount {
            unhealthy,
            machines,
            ..UnhealthyCount::default()
        };
        let were_half = UnhealthyCount {
            unhealthy: unhealthy - half,
            returned: half,
            machines,
        };
        let holds = breaker(are_all, limit).is_ok();
        assert_eq!(holds, breaker(were_half, limit).is_ok());
        holds
    };
    assert!(holds(2, 5, "40%") && !holds(3, 5, "40%"));
    assert!(holds(3, 9, "40%") && !holds(4, 9, "40%"));
    assert!(holds(2, 9, "2") && !holds(3, 9, "2"));
    assert!(holds(5, 5, "100%"));
    // A site of two can lose one.
    assert!(holds(1, 2, "40%") && !holds(2, 2, "40%"));
    assert!(!holds(1, 9, "0%") && !holds(1, 9, "0") && holds(0, 9, "0"));
    assert_eq!(MAX_UNHEALTHY.of(300), 120);
    for wrong in ["", "%", "-1", "101%", "a", "4 %", "1.5"] {
        assert!(wrong.parse::<Share>().is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn more_unhealthy_machines_never_close_the_breaker(machines in 0_usize..2000, percent in 0_u32..=100, one in 0_usize..2000, more in 0_usize..2000) {
        let limit = Share::Percent(percent);
        let tally = |unhealthy, returned| UnhealthyCount { unhealthy, returned, machines };
        if breaker(tally(one, 0), limit).is_err() {
            prop_assert!(breaker(tally(one + more, 0), limit).is_err());
            prop_assert!(breaker(tally(one, more), limit).is_err());
        }
        prop_assert_eq!(limit.to_string().parse::<Share>(), Ok(limit));
    }
}

type Change = fn(&mut HostState);

#[test]
fn a_host_that_would_not_be_switched_off_and_on_again_is_refused_with_the_reason() {
    let set = |change: Change| {
        let mut host = HostState::default();
        change(&mut host);
        refusal(&host)
    };
    assert_eq!(refusal(&HostState::default()), None);
    let cases: [(Change, Refusal, &str); 9] = [
        (
            |host| host.paused = true,
            Refusal::Paused,
            "baremetalhost.metal3.io/paused",
        ),
        (
            |host| host.detached = true,
            Refusal::Detached,
            "baremetalhost.metal3.io/detached",
        ),
        (
            |host| host.offline = true,
            Refusal::Offline,
            "online: false",
        ),
        (
            |host| host.never_off = true,
            Refusal::NeverOff,
            "disablePowerOff",
        ),
        (|host| host.unused = true, Refusal::Unused, "consumer"),
        (
            |host| host.of_another = true,
            Refusal::OfAnother,
            "another consumer",
        ),
        (
            |host| host.elsewhere = true,
            Refusal::Elsewhere,
            "another namespace",
        ),
        (
            |host| host.not_provisioned = true,
            Refusal::NotProvisioned,
            "not provisioned",
        ),
        (|host| host.going = true, Refusal::Going, "deleted"),
    ];
    for (change, expected, words) in cases {
        assert_eq!(set(change), Some(expected));
        assert!(expected.to_string().contains(words), "{expected}");
    }
}
