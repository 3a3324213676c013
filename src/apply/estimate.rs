//! How long a run of a plan takes: the run is simulated, many times, with durations drawn from past ones.
//!
//! A simulated run follows the dispatcher's own decisions ([`super::schedule`]), so parallelism, waves and gates count
//! as they will. All steps succeed in it, but for those that the plan refuses. The draws depend on the seed alone.
//!
//! Few recorded values say less about the next ones than many. Each simulated run first draws which of them it goes
//! by, three less than there are, with repetition: that widens the spread of means by as much as Student's t does. And
//! one value more than there are stands for a step that takes longer than any before. So the interval of nine of ten
//! runs holds as often as it should, from five values on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;

use super::Error;
use super::driver::Driver;
use super::expected::ExpectedDurations;
use super::schedule::Schedule;
use crate::journal::StepOutcome;
use crate::plan::{Plan, StepTimes, TimeForecast};
use crate::step::StepKind;

/// Of how many values less than there are a simulated run goes by, with the one that was added.
const LEFT_OUT: usize = 4;
/// Simulated runs, by how many steps there are at most. The percentiles that are wanted of one more are whole numbers:
/// they are values that occurred, and another run is below them as often as they say.
const RUNS: [(usize, usize); 2] = [(99, 10_000), (39, 50_000)];
/// Simulated runs of a larger plan.
const FEWEST_RUNS: usize = 19;

/// How long a run of a plan takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The figures.
    pub time: TimeForecast,
    /// The times of each step in the simulated run of median length.
    pub schedule: Vec<StepTimes>,
}

/// Returns how long a run of the plan takes; `None` if nothing in it takes time. The same plan, durations and seed
/// give the same figures.
///
/// # Errors
///
/// The steps are no graph that can be run.
pub fn estimate(
    plan: &Plan,
    expected: &ExpectedDurations,
    seed: &str,
) -> Result<Option<Estimate>, Error> {
    if (0..plan.steps.len()).all(|index| expected.of_step(index).iter().all(|value| *value == 0)) {
        return Ok(None);
    }
    let start = Schedule::new(plan)?;
    let runs = runs(plan.steps.len());
    let mut random = Random::seeded(seed);
    // Each run with the state of the dice before it, so that it can be simulated once more.
    let mut ends: Vec<(u64, Random)> = (0..runs)
        .map(|_| {
            let before = random;
            let mut drawn = Drawn::new(expected, &mut random);
            let start = start.clone();
            let end = simulated(start, &[], None, &mut |index| drawn.of_step(index));
            (end, before)
        })
        .collect();
    ends.sort_unstable();
    let percentile = |percent: usize| ends[((runs + 1) * percent).div_ceil(100) - 1];
    let (median, mut dice) = percentile(50);
    let mut drawn = Drawn::new(expected, &mut dice);
    let mut schedule = vec![StepTimes::default(); plan.steps.len()];
    let times = Some(&mut schedule[..]);
    simulated(start.clone(), &[], times, &mut |index| drawn.of_step(index));
    let longest = simulated(start, &[], None, &mut |index| {
        longest(plan, expected, index)
    });
    let time = TimeForecast {
        median: (median + 500) / 1000,
        percentile_5: ends[(runs + 1) * 5 / 100 - 1].0 / 1000,
        percentile_90: percentile(90).0.div_ceil(1000),
        percentile_95: percentile(95).0.div_ceil(1000),
        timeouts: longest.max(ends[runs - 1].0).div_ceil(1000),
        runs,
    };
    Ok(Some(Estimate { time, schedule }))
}

/// How many runs of so many steps are simulated.
pub(super) fn runs(steps: usize) -> usize {
    let runs = RUNS.iter().find(|(_, most)| steps <= *most);
    runs.map_or(FEWEST_RUNS, |(runs, _)| *runs)
}

/// The longest that a step may take: its timeout, if it has one.
fn longest(plan: &Plan, expected: &ExpectedDurations, index: usize) -> u64 {
    match plan.steps.get(index).map(|step| step.timeout) {
        Some(timeout) if timeout > 0 => timeout.saturating_mul(1000),
        _ => expected.of_step(index).last().copied().unwrap_or_default(),
    }
}

/// How long the rest of a run takes, in milliseconds; `running`: the steps that run, and since how many milliseconds.
/// Each step has the same duration whenever it is asked for, unless it runs longer.
pub(super) fn rest(
    schedule: &Schedule<'_>,
    running: &[(usize, u64)],
    expected: &ExpectedDurations,
) -> u64 {
    let fixed = |index: usize| {
        let values = expected.of_step(index);
        let mut random = Random(index as u64);
        values[random.below(values.len())]
    };
    let left = |(index, since): &(usize, u64)| {
        let values = expected.of_step(*index);
        let first = fixed(*index);
        let next = values.iter().find(|value| **value > *since);
        let whole = match first > *since {
            true => first,
            false => next.copied().unwrap_or(*since),
        };
        (*index, whole - *since)
    };
    let running: Vec<(usize, u64)> = running.iter().map(left).collect();
    simulated(schedule.clone(), &running, None, &mut |index| fixed(index))
}

/// How long a run takes from where it is until nothing runs any more; `running`: what each step that runs still takes;
/// `times`: where the times of each step are written, if they are wanted.
fn simulated(
    schedule: Schedule<'_>,
    running: &[(usize, u64)],
    times: Option<&mut [StepTimes]>,
    duration: &mut dyn FnMut(usize) -> u64,
) -> u64 {
    played(schedule, running, times, &mut AllSucceed(duration)).0
}

/// Decides how the steps of a simulated run go.
pub(super) trait Play {
    /// A step begins; gives how long it takes, in milliseconds.
    fn begin(&mut self, index: usize) -> u64;

    /// A step ends.
    fn end(&mut self, index: usize) -> StepOutcome;
}

/// Steps that all succeed, each after its duration.
struct AllSucceed<'d>(&'d mut dyn FnMut(usize) -> u64);

impl Play for AllSucceed<'_> {
    fn begin(&mut self, index: usize) -> u64 {
        (self.0)(index)
    }

    fn end(&mut self, _: usize) -> StepOutcome {
        StepOutcome::Succeeded
    }
}

/// Simulates a run as it is played; gives how long it takes, and how its steps stand at the end.
pub(super) fn played<'a>(
    schedule: Schedule<'a>,
    running: &[(usize, u64)],
    times: Option<&mut [StepTimes]>,
    play: &mut dyn Play,
) -> (u64, Schedule<'a>) {
    let ends = running.iter().map(|(index, left)| Reverse((*left, *index)));
    let mut simulation = Simulation {
        schedule,
        now: 0,
        ends: ends.collect(),
        times,
        play,
    };
    let Ok(()) = simulation.run();
    simulation.tag();
    (simulation.now, simulation.schedule)
}

/// A run for which time is a number.
struct Simulation<'a, 'd> {
    schedule: Schedule<'a>,
    now: u64,
    /// When each running step ends.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    times: Option<&'d mut [StepTimes]>,
    play: &'d mut dyn Play,
}

/// Milliseconds as whole seconds.
fn seconds(milliseconds: u64) -> u32 {
    u32::try_from((milliseconds + 500) / 1000).unwrap_or(u32::MAX)
}

impl Simulation<'_, '_> {
    fn note(&mut self, index: usize, end: u64) {
        if let Some(times) = self.times.as_mut().and_then(|times| times.get_mut(index)) {
            *times = StepTimes(seconds(self.now), seconds(end));
        }
    }

    /// Puts the tag, which the dispatcher does not carry out, at the end.
    fn tag(&mut self) {
        let plan = self.schedule.plan;
        let steps = plan.steps.iter().enumerate();
        for (index, _) in steps.filter(|(_, step)| step.id.kind == StepKind::Tag) {
            self.note(index, self.now);
        }
    }

    fn run(&mut self) -> Result<(), Infallible> {
        loop {
            self.decide_ready()?;
            if self.schedule.has_free_place_for_waiting() {
                self.begin_waiting()?;
            }
            self.schedule.happened.clear();
            let Some(Reverse((end, _))) = self.ends.peek().copied() else {
                return Ok(());
            };
            self.now = end;
            while let Some(Reverse((at, index))) = self.ends.peek().copied()
                && at == end
            {
                self.ends.pop();
                self.schedule.stopped(index);
                let outcome = self.play.end(index);
                self.schedule.take_in(index, &outcome, true, 0);
            }
        }
    }
}

impl<'a> Driver<'a> for Simulation<'a, '_> {
    type Error = Infallible;

    fn schedule(&mut self) -> &mut Schedule<'a> {
        &mut self.schedule
    }

    fn settle_at_once(&mut self, index: usize, outcome: StepOutcome) -> Result<(), Infallible> {
        self.note(index, self.now);
        self.schedule.take_in(index, &outcome, false, 0);
        Ok(())
    }

    fn begin(&mut self, index: usize) -> Result<(), Infallible> {
        self.schedule.started(index);
        let end = self.now.saturating_add(self.play.begin(index));
        self.note(index, end);
        self.ends.push(Reverse((end, index)));
        Ok(())
    }
}

/// The durations of one simulated run.
struct Drawn<'e> {
    expected: &'e ExpectedDurations,
    /// For each list of values those that this run goes by.
    values: Vec<Vec<u64>>,
    random: Random,
}

impl<'e> Drawn<'e> {
    fn new(expected: &'e ExpectedDurations, random: &mut Random) -> Self {
        let values = expected.values.iter().map(|values| {
            let count = values.len().saturating_sub(LEFT_OUT).max(1);
            let drawn = (0..count).map(|_| values[random.below(values.len())]);
            drawn.collect()
        });
        Self {
            expected,
            values: values.collect(),
            random: Random(random.next()),
        }
    }

    fn of_step(&mut self, index: usize) -> u64 {
        let list = self.expected.of_step.get(index).copied();
        let values = list.and_then(|list| self.values.get(list as usize));
        values.map_or(0, |values| values[self.random.below(values.len())])
    }
}

/// Numbers that are the same on every machine and in every version: SplitMix64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Random(u64);

impl Random {
    /// FNV-1a of a text.
    pub(super) fn seeded(seed: &str) -> Self {
        let hash = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash)
    }

    /// The numbers of one of many, which do not depend on those of the others.
    pub(super) fn of(seed: u64, number: u64) -> Self {
        let mut first = Self(seed);
        Self(first.next() ^ Self(number).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.next()) * (limit as u128);
        (wide >> 64) as usize
    }
}
