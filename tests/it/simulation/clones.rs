//! Runs that are killed in one clone and resumed in others, and back; pushes that are refused at each position;
//! journals that are damaged at each frame. Nobody is ever stuck, nothing happens twice, and a run that has
//! ended has all its records at the remote, or says so and the next command brings them there.

use std::path::Path;

use trueup::plan::{Action, Options, Request};
use trueup::record::Outcome as Ended;
use trueup::run::{Process, catch_up, ensure_site_is_free, unpublished};

use super::death::{Death, Places};
use super::exhaustive::text;
use super::hub::{How, Refusal};
use super::ledger::Outcome;
use super::{CLONES, End, RunCommand, Stage, actor, allowing_all, chain, request};
use crate::amount::every;

/// Trips that are tried of each kind, spread evenly, unless `TRUEUP_TEST_CRASHES=all` asks for every one.
const TRIPS: usize = 8;

/// What a file is like that lost something.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// It is not there.
    Removed,
    /// It is empty.
    Emptied,
    /// It says something else altogether.
    Garbled,
    /// It ends behind so many frames.
    Cut(usize),
    /// A byte in a frame is another.
    Flipped(usize),
}

/// How a run is led to its end.
#[derive(Clone, Debug, Default)]
struct Trip {
    /// The deaths of its lives, in order.
    deaths: Vec<Death>,
    /// In which clone each of its lives is, and those behind them in the last.
    clones: Vec<usize>,
    refusal: Option<Refusal>,
    damage: Option<Damage>,
}

/// What a trip came to.
struct Arrived {
    outcome: Outcome,
    places: Places,
    pushes: usize,
    refused: usize,
    frames: usize,
}

struct Story {
    stage: Stage,
    request: Request,
    options: Options,
}

impl Story {
    /// The first apply of a site of three members of etcd and two workers.
    fn first() -> Self {
        let stage = Stage::shared();
        stage.commit(&text().to_string());
        Self {
            stage,
            request: request(Action::Update, &[]),
            options: allowing_all(),
        }
    }

    /// The redeploy of a member of etcd on that site.
    fn redeploy() -> Self {
        let first = Self::first();
        first.at_rest();
        first.takes(&Trip::default(), &first.stage);
        Self {
            request: request(Action::Redeploy, &["c1"]),
            ..first
        }
    }

    fn at_rest(&self) {
        assert!(self.stage.lock().is_none());
    }

    fn travels(&self, trip: &Trip) -> Arrived {
        self.takes(trip, &self.stage.copy())
    }

    /// Leads a run to its end, and looks whether everybody can see it.
    fn takes(&self, trip: &Trip, stage: &Stage) -> Arrived {
        let mut stage = stage.alias();
        let hub = stage.hub.clone().unwrap();
        let before = stage.records().0.site.last_run;
        let planned = stage.plan(&self.request, self.options.clone()).unwrap();
        let mut deaths = trip.deaths.iter();
        let mut clones = trip.clones.iter();
        let mut places = None;
        let (mut pushes, mut frames) = (0, 0);
        let mut command = RunCommand::Apply(&planned);
        hub.refuse(trip.refusal);
        let mut report = None;
        for life in 0..12 {
            if let Some(clone) = clones.next() {
                stage.move_to(*clone);
            }
            let lived = stage.live(&command, deaths.next().copied());
            if places.is_none() {
                (places, pushes) = (Some(lived.passed), hub.pushes());
            }
            hub.refuse(None);
            frames = frames.max(frames_of(&stage));
            match lived.end {
                End::Ended(ended) if !ended.1.interrupted => {
                    report = Some(ended.0);
                }
                End::Ended(ended) => panic!("{trip:?}: {:?} {:#?}", ended.1.undecided, lived.told),
                End::Died | End::Nothing => {}
                // Its end waits in the clone where it was.
                End::Failed(error) if error.contains("wait to be published") => {
                    stage.move_to(trip.clones[0]);
                }
                // It was refused before it had begun anything, or so that it could not say its end.
                End::Failed(error) => {
                    assert!(
                        trip.refusal.is_some(),
                        "{trip:?}: {error} {:#?}",
                        lived.told
                    );
                }
            }
            let (state, _) = stage.records();
            let has_begun = state.site.last_run != before;
            let is_over = has_begun && stage.interrupted_run().is_none();
            if is_over && stage.lock().is_none() {
                let report = report.unwrap_or_else(|| stage.last_report());
                check_end(&mut stage, trip);
                return Arrived {
                    outcome: stage.outcome(&report),
                    places: places.unwrap(),
                    pushes,
                    refused: hub.refused(),
                    frames,
                };
            }
            if life == 0 {
                self.hurt(&stage, trip);
            }
            if !has_begun && report.is_none() {
                command = RunCommand::Apply(&planned);
            } else {
                command = RunCommand::Resume(Default::default());
            }
        }
        panic!("{trip:?}: it does not come to its end: {:?}", stage.lock());
    }

    /// Damages the journal of the run that was interrupted.
    fn hurt(&self, stage: &Stage, trip: &Trip) {
        let (Some(damage), Some(run)) = (trip.damage, stage.interrupted_run()) else {
            return;
        };
        let path = stage.journal(&run);
        if path.exists() {
            damage.hurt(&path);
        }
    }
}

impl Damage {
    fn hurt(self, path: &Path) {
        let mut bytes = std::fs::read(path).unwrap();
        let frames = frames(&bytes);
        match self {
            Self::Removed => return std::fs::remove_file(path).unwrap(),
            Self::Emptied => bytes.clear(),
            Self::Garbled => bytes = b"what was never a journal".repeat(9),
            Self::Cut(frame) => bytes.truncate(*frames.get(frame).unwrap_or(&bytes.len())),
            Self::Flipped(frame) => {
                if let Some(at) = frames.get(frame)
                    && *at + 20 < bytes.len()
                {
                    bytes[at + 20] ^= 0x41;
                }
            }
        }
        std::fs::write(path, bytes).unwrap();
    }
}

/// Where the frames of a journal begin.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut frames = Vec::new();
    let mut at = 12;
    while let Some(length) = bytes.get(at..at + 4) {
        frames.push(at);
        at += 12 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
    }
    frames
}

fn frames_of(stage: &Stage) -> usize {
    let run = stage.interrupted_run();
    let bytes = run.and_then(|run| std::fs::read(stage.journal(&run)).ok());
    bytes.map_or(0, |bytes| frames(&bytes).len())
}

/// Whether everybody can see the end of the last run, and can begin another.
fn check_end(stage: &mut Stage, trip: &Trip) {
    let hub = stage.hub.clone().unwrap();
    // A tag that was refused is published by the next command, which notes that.
    let site = stage.site();
    let noted = ensure_site_is_free(Process::new(&site, &actor(), &stage.clock));
    noted.unwrap_or_else(|error| panic!("{trip:?}: {}", chain(&error)));
    drop(site);
    let (state, records) = stage.records();
    let report = stage.last_report();
    if report.outcome == Ended::Succeeded {
        for node in report.nodes.iter().filter(|node| node.complete) {
            assert!(records.contains_key(&node.node), "{trip:?}: {}", node.node);
        }
    }
    for clone in 0..CLONES.len() {
        stage.move_to(clone);
        let site = stage.site();
        let found = ensure_site_is_free(Process::new(&site, &actor(), &stage.clock));
        let found = found.unwrap_or_else(|error| panic!("{trip:?}: {}", chain(&error)));
        assert_eq!(found.set_aside, None, "{trip:?} {clone}");
        let left = unpublished(Process::new(&site, &actor(), &stage.clock)).unwrap();
        assert_eq!(left, None, "{trip:?} {clone}");
        let tip = stage
            .repository
            .read_ref(&format!("refs/trueup/{}/state", super::SITE));
        assert_eq!(tip.unwrap(), state.tip.map(|tip| tip.0), "{trip:?} {clone}");
    }
    assert!(hub.repository.read_lock(super::SITE).unwrap().is_none());
    assert_eq!(stage.tags_of_runs(), stage.tags().join(" "), "{trip:?}");
    // What was cut off so that nobody can see it may have told how a node was before it was drained.
    if !matches!(trip.damage, Some(Damage::Cut(_))) {
        let left = stage.ledger().left_behind(&stage.records().1);
        assert!(left.is_empty(), "{trip:?}: {left:?}");
    }
}

/// Every death that a life can have.
fn deaths(places: &Places) -> Vec<Death> {
    let mut deaths = Vec::new();
    for commit in 0..places.commits {
        deaths.extend([7, 40, usize::MAX].map(|left| Death::Torn(commit, left)));
        deaths.push(Death::Written(commit));
    }
    for call in 0..places.calls {
        deaths.extend([Death::Before(call), Death::Behind(call)]);
    }
    deaths.extend((0..places.looks).map(Death::Looking));
    deaths
}

/// All of them, or some, spread evenly.
fn some<T: Clone>(all: &[T]) -> Vec<T> {
    all.iter()
        .step_by(every(TRIPS, all.len()))
        .cloned()
        .collect()
}

#[track_caller]
fn same(found: &Outcome, expected: &Outcome, trip: &Trip) {
    assert!(
        found == expected,
        "{trip:?}:\n{}",
        found.difference(expected)
    );
}

/// Dies in one clone after the other, everywhere, and ends in the first.
fn there_and_back(story: &Story) {
    let whole = story.travels(&Trip::default());
    let all = deaths(&whole.places);
    let mut trips = Vec::new();
    for (index, death) in all.iter().enumerate() {
        // The second life does less than the first, the third less than the second.
        let second = all[(index * 7 + 3) % all.len()];
        let third = all[(index * 11 + 5) % all.len()];
        trips.push(Trip {
            deaths: vec![*death, second],
            clones: vec![0, 1, 0],
            ..Trip::default()
        });
        trips.push(Trip {
            deaths: vec![*death, second, third],
            clones: vec![0, 1, 2, 0],
            ..Trip::default()
        });
    }
    for trip in some(&trips) {
        same(&story.travels(&trip).outcome, &whole.outcome, &trip);
    }
}

/// Pushes are refused at each position: one, a few, all from then on; and the run is looked at again if it
/// was, or somewhere else first.
fn refused(story: &Story) {
    let whole = story.travels(&Trip::default());
    assert!(whole.pushes >= 4, "hardly anything is published");
    let mut trips = Vec::new();
    for from in 0..whole.pushes + 2 {
        for how in [
            How::Refused,
            How::StateRefused,
            How::TagsRefused,
            How::Away,
            How::AnswerLost,
        ] {
            for (count, clones) in [(1, vec![0]), (1000, vec![0]), (1000, vec![0, 1, 0])] {
                trips.push(Trip {
                    clones,
                    refusal: Some(Refusal { from, count, how }),
                    ..Trip::default()
                });
            }
        }
    }
    let (mut hit, tried) = (0, some(&trips));
    let count = tried.len();
    for trip in tried {
        let arrived = story.travels(&trip);
        hit += usize::from(arrived.refused > 0);
        same(&arrived.outcome, &whole.outcome, &trip);
    }
    assert!(
        hit * 2 >= count,
        "hardly anything was refused: {hit} of {count}"
    );
}

/// The journal is damaged at each frame, after deaths at each of them.
fn damaged(story: &Story) {
    let whole = story.travels(&Trip::default());
    let mut trips = Vec::new();
    for commit in 0..whole.places.commits {
        let mut damages = vec![Damage::Removed, Damage::Emptied, Damage::Garbled];
        for frame in 0..=commit + 1 {
            damages.extend([Damage::Cut(frame), Damage::Flipped(frame)]);
        }
        trips.extend(damages.into_iter().map(|damage| Trip {
            deaths: vec![Death::Written(commit)],
            clones: vec![0],
            damage: Some(damage),
            ..Trip::default()
        }));
    }
    for trip in some(&trips) {
        let arrived = story.travels(&trip);
        assert!(arrived.frames > 0, "there was no journal: {trip:?}");
        if !matches!(trip.damage, Some(Damage::Cut(_))) {
            same(&arrived.outcome, &whole.outcome, &trip);
        }
    }
}

#[test]
fn a_first_apply_that_is_killed_in_three_clones_and_back_ends_as_if_it_had_not_been() {
    there_and_back(&Story::first());
}

#[test]
fn a_redeploy_that_is_killed_in_three_clones_and_back_ends_as_if_it_had_not_been() {
    there_and_back(&Story::redeploy());
}

#[test]
fn a_first_apply_whose_pushes_are_refused_anywhere_is_published_by_the_next_command() {
    refused(&Story::first());
}

#[test]
fn a_redeploy_whose_pushes_are_refused_anywhere_is_published_by_the_next_command() {
    refused(&Story::redeploy());
}

#[test]
fn a_first_apply_whose_journal_is_damaged_at_any_frame_has_all_its_records() {
    damaged(&Story::first());
}

#[test]
fn a_redeploy_whose_journal_is_damaged_at_any_frame_has_all_its_records() {
    damaged(&Story::redeploy());
}

#[test]
fn a_clone_that_has_nothing_to_publish_contacts_no_remote() {
    let story = Story::first();
    let stage = story.stage.copy();
    let hub = stage.hub.clone().unwrap();
    hub.refuse(Some(Refusal {
        from: 0,
        count: 1,
        how: How::Away,
    }));
    assert_eq!(
        catch_up(Process::new(&stage.site(), &actor(), &stage.clock)).unwrap(),
        None
    );
    assert_eq!(hub.pushes(), 0);
}
