//! Documents and states of rollouts, and the decisions that follow from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::design::{RunId, SectionDigest, Share};
use crate::diagnostic::{Mark, SourceId, Sources};
use crate::document::{Instant, LoadSettings, Node, Value, load};
use crate::repository::CommitId;

fn commit() -> CommitId {
    "1111111111111111111111111111111111111111".parse().unwrap()
}

fn site(name: &str, labels: &[(&str, &str)]) -> RolloutSite {
    let labels = labels.iter();
    RolloutSite {
        name: Arc::from(name),
        labels: labels
            .map(|(key, value)| (Arc::from(*key), Arc::from(*value)))
            .collect(),
    }
}

/// The rollout of some data, or its problems with their lines.
fn read(data: &str) -> Result<Rollout, Vec<String>> {
    let text = format!("schema: trueup/Rollout/v1\nmetadata: {{name: fleet}}\ndata:\n{data}");
    let mut sources = Sources::new();
    let source = sources.add("rollouts/fleet.yaml", text.as_str());
    let settings = LoadSettings {
        flat: true,
        ..LoadSettings::default()
    };
    let file = load(source, &text, &settings);
    Rollout::read(&file.documents[0]).map_err(|found| lines(&found, &sources))
}

fn lines(found: &crate::diagnostic::Diagnostics, sources: &Sources) -> Vec<String> {
    let found = found.iter().map(|problem| {
        assert!(
            problem.hint.is_some() || problem.code.0.starts_with("schema-"),
            "{}",
            problem.message
        );
        let line = problem.mark.map_or(0, |mark| sources.place(mark).line);
        format!("{line} {}", problem.code.0)
    });
    found.collect()
}

fn phases(data: &str, sites: &[RolloutSite]) -> Result<Vec<String>, Vec<String>> {
    let rollout = read(data)?;
    let phases = rollout.phases(sites).map_err(|found| {
        let found = found.iter().map(|problem| problem.code.0.to_owned());
        found.collect::<Vec<_>>()
    })?;
    Ok(phases
        .all
        .iter()
        .map(|phase| phase.sites.join(" "))
        .collect())
}

fn fleet() -> Vec<RolloutSite> {
    let mut sites = vec![site("canary", &[("canary", "yes"), ("region", "west")])];
    for number in 0..9 {
        let region = if number < 6 { "west" } else { "east" };
        sites.push(site(&format!("edge-{number}"), &[("region", region)]));
    }
    sites
}

#[test]
fn a_site_is_in_the_first_phase_that_takes_it() {
    let data = "  phases: [{labels: {canary: 'yes'}}, {percent: 40, domains: {region: 1}}, {percent: 50, max_sites: 2}, {rest: true}]\n";
    assert_eq!(
        phases(data, &fleet()).unwrap(),
        [
            "canary",
            "edge-0 edge-6",
            "edge-1 edge-2",
            "edge-3 edge-4 edge-5 edge-7 edge-8"
        ]
    );
    let data = "  sites: [{names: ['edge-[12]']}, {names: [canary], labels: {region: west}}]\n  phases: [{sites: [edge-2]}, {rest: true}]\n";
    assert_eq!(phases(data, &fleet()).unwrap(), ["edge-2", "canary edge-1"]);
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_its_line() {
    let wrong = read(
        "  phases:\n    - {percent: 101}\n    - {rest: true}\n    - {sites: ['a[']}\n    - {sites: [a], soak: soon}\n  stop: {failed_nodes: 200%}\n",
    );
    let wrong = wrong.unwrap_err();
    for expected in [
        "5 schema-",
        "6 rule-rollout-rest",
        "7 rule-rollout-glob",
        "8 rule-rollout-soak",
        "9 rule-rollout-share",
    ] {
        assert!(
            wrong.iter().any(|line| line.starts_with(expected)),
            "{expected}: {wrong:?}"
        );
    }
    let data = "  sites: [{names: [nowhere]}, {names: ['edge-*']}]\n  phases: [{sites: [edge-1, canary]}, {labels: {canary: 'yes'}}]\n";
    let mut codes = phases(data, &fleet()).unwrap_err();
    codes.sort();
    assert_eq!(
        codes,
        [
            "rule-rollout-left-out",
            "rule-rollout-nothing",
            "rule-rollout-nothing",
            "rule-rollout-site-unknown",
            "rule-rollout-site-unknown"
        ]
    );
}

fn of_phases(sizes: &[(usize, u64)], stop: Stop) -> Phases {
    let mut number = 0;
    let all = sizes.iter().map(|(sites, soak)| {
        let sites = (0..*sites).map(|_| {
            number += 1;
            Arc::from(format!("site-{number:02}"))
        });
        Phase {
            sites: sites.collect(),
            soak: *soak,
        }
    });
    Phases {
        all: all.collect(),
        stop,
    }
}

fn state() -> RolloutState {
    let data = Node::new(Value::Null, Mark::new(SourceId(0), 0));
    RolloutState::new("fleet", commit(), SectionDigest::of(&data), 0)
}

fn progress(result: SiteResult) -> SiteProgress {
    SiteProgress::new(result, commit())
}

const PATIENT: Stop = Stop {
    sites: 99,
    nodes: None,
};

#[test]
fn failed_sites_and_nodes_stop_a_rollout() {
    let mut state = state();
    let one = Arc::<str>::from("site-01");
    let of = |sites, nodes| of_phases(&[(3, 0)], Stop { sites, nodes });
    state
        .sites
        .insert(one.clone(), progress(SiteResult::Failed));
    assert!(stopped(&of(1, None), &state).is_some());
    assert!(stopped(&of(2, None), &state).is_none());
    state.sites.insert(
        one,
        SiteProgress {
            nodes: 100,
            failed_nodes: 2,
            ..progress(SiteResult::Succeeded)
        },
    );
    assert!(stopped(&of(1, Some(Share::Percent(2))), &state).is_some());
    assert!(stopped(&of(1, Some(Share::Percent(3))), &state).is_none());
    assert!(stopped(&of(1, Some(Share::Machines(2))), &state).is_some());
    assert!(stopped(&of(1, Some(Share::Machines(3))), &state).is_none());
}

#[test]
fn a_soak_ends_by_time_and_by_a_proof() {
    let phases = of_phases(&[(1, 60), (1, 0)], PATIENT);
    let (one, two) = (Arc::<str>::from("site-01"), Arc::<str>::from("site-02"));
    let mut state = state();
    let none = BTreeSet::new();
    assert_eq!(
        decide(&phases, &state, &none, 0),
        Decision::Begin(one.clone())
    );
    let soaking = SiteProgress {
        soak_until: Some(Instant(60)),
        ..progress(SiteResult::Succeeded)
    };
    state.sites.insert(one.clone(), soaking.clone());
    assert_eq!(
        decide(&phases, &state, &none, 59),
        Decision::Soak(Instant(60))
    );
    assert_eq!(
        decide(&phases, &state, &none, 60),
        Decision::Prove(vec![one.clone()])
    );
    let soaked = SiteProgress {
        soaked: Some(Instant(61)),
        ..soaking
    };
    state.sites.insert(one, soaked);
    assert_eq!(
        decide(&phases, &state, &none, 61),
        Decision::Begin(two.clone())
    );
    state.sites.insert(two, progress(SiteResult::Succeeded));
    assert_eq!(decide(&phases, &state, &none, 61), Decision::Done);
}

#[test]
fn a_success_before_a_drift_counts_no_more() {
    let mut state = state();
    let done = SiteProgress {
        run: Some(RunId::from("R1")),
        ..progress(SiteResult::Succeeded)
    };
    // Begun once more with nothing to do, it has no run of its own.
    let again = SiteProgress {
        run: None,
        outdated: Some(RunId::from("R0")),
        ..done.clone()
    };
    for (name, site) in [("edge", done), ("east", again)] {
        let drifted = site.drifted("2 to deploy", Instant(1));
        assert_eq!(drifted.result, SiteResult::Failed);
        state.sites.insert(Arc::from(name), drifted);
    }
    state.resume();
    let outdated = |site: &str| {
        let site = &state.sites[site];
        assert_eq!((site.result, &site.why), (SiteResult::Pending, &None));
        site.outdated.clone()
    };
    assert_eq!(outdated("edge"), Some(RunId::from("R1")));
    assert_eq!(outdated("east"), Some(RunId::from("R0")));
}

#[test]
fn a_state_is_read_as_it_was_written_and_a_hostile_one_is_refused() {
    let mut written = state();
    written.sites.insert(
        Arc::from("edge"),
        SiteProgress {
            run: Some(RunId::from("01K8")),
            ended: Some(Instant(5)),
            ..progress(SiteResult::Failed)
        }
        .because("a\nb"),
    );
    let bytes = written.write().unwrap();
    assert_eq!(RolloutState::read("fleet", &bytes).unwrap(), written);
    let text = String::from_utf8(bytes).unwrap();
    for (old, new, why) in [
        (
            "\"format_version\": 1",
            "\"format_version\": 2",
            "newer trueup",
        ),
        (
            "\"rollout\": \"fleet\"",
            "\"rollout\": \"other\"",
            "that of rollout `other`",
        ),
        ("\"edge\"", "\"../edge\"", "a site's name"),
        ("a b", "a\\u001b[31mb", "control characters"),
        (
            "\"result\": \"failed\"",
            "\"result\": \"fine\"",
            "cannot be read",
        ),
        (
            "\"phase\": 1",
            "\"phase\": 1, \"more\": 2",
            "cannot be read",
        ),
        ("01K8", "../01K8", "no id that a run can have"),
        ("{", "[", "cannot be read"),
    ] {
        assert!(text.contains(old), "{old} in {text}");
        let error = RolloutState::read("fleet", text.replacen(old, new, 1).as_bytes());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    let other = text.replacen("1111", "2222", 1);
    let error = RolloutState::read("fleet", other.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("another revision"), "{error}");
}

/// How a site is, in a random state.
fn any_progress() -> impl Strategy<Value = Option<SiteProgress>> {
    let results = prop_oneof![
        1 => Just(SiteResult::Pending),
        1 => Just(SiteResult::Running),
        4 => Just(SiteResult::Succeeded),
        1 => Just(SiteResult::Failed),
        1 => Just(SiteResult::Held),
    ];
    let soak = proptest::option::of(0..100i64);
    let soaked = proptest::option::of(0..100i64);
    let known = (results, soak, soaked).prop_map(|(result, soak, soaked)| SiteProgress {
        soak_until: soak.map(Instant),
        soaked: soaked.map(Instant),
        ..progress(result)
    });
    proptest::option::weighted(0.9, known)
}

proptest! {
    #[test]
    fn no_phase_begins_before_the_one_before_is_proven(
        sizes in proptest::collection::vec((1..4usize, prop_oneof![Just(0u64), Just(30u64)]), 1..5),
        known in proptest::collection::vec(any_progress(), 16),
        stop in 1..4usize,
        tried in proptest::collection::vec(any::<bool>(), 16),
        now in 0..120i64,
    ) {
        let phases = of_phases(&sizes, Stop { sites: stop, nodes: None });
        let names: Vec<Arc<str>> = phases.sites().cloned().collect();
        let mut state = state();
        state.sites = names
            .iter()
            .zip(known)
            .filter_map(|(name, known)| Some((name.clone(), known?)))
            .collect::<BTreeMap<_, _>>();
        let tried: BTreeSet<Arc<str>> = names.iter().zip(tried).filter(|(_, is)| *is).map(|(name, _)| name.clone()).collect();
        let is_proven = |name: &Arc<str>, soak: u64| {
            state.sites.get(name).is_some_and(|known| {
                known.result == SiteResult::Succeeded && (soak == 0 || known.soaked.is_some())
            })
        };
        let failed = state.sites.values().filter(|known| known.result == SiteResult::Failed).count();
        let touched = match decide(&phases, &state, &tried, now) {
            Decision::Begin(site) => {
                prop_assert!(failed < stop);
                prop_assert!(!tried.contains(&site));
                prop_assert!(matches!(state.result(&site), SiteResult::Pending | SiteResult::Held));
                vec![site]
            }
            Decision::Prove(sites) => {
                prop_assert!(sites.iter().all(|site| state.sites[site].soak_until.is_none_or(|until| until.0 <= now)));
                sites
            }
            Decision::Done => {
                for phase in &phases.all {
                    prop_assert!(phase.sites.iter().all(|site| is_proven(site, phase.soak)));
                }
                vec![]
            }
            _ => vec![],
        };
        for site in touched {
            let own = phases.of(&site).unwrap();
            for before in &phases.all[..own] {
                prop_assert!(before.sites.iter().all(|site| is_proven(site, before.soak)));
            }
        }
        // Neither a paused nor an aborted one does anything.
        let decree = Decree { reason: Arc::from("r"), by: Arc::from("b"), at: Instant(0) };
        state.paused = Some(decree.clone());
        prop_assert!(matches!(decide(&phases, &state, &tried, now), Decision::Paused(_) | Decision::Done));
        state.aborted = Some(decree);
        prop_assert!(matches!(decide(&phases, &state, &tried, now), Decision::Aborted(_)));
    }
}
