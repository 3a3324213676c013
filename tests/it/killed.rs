//! The program killed at instants that nobody chose, and gone on with: nothing is lost and nothing happens
//! twice, as where it is killed at chosen system calls.
//!
//! `TRUEUP_TEST_KILLS=300` kills so often, `TRUEUP_TEST_KILL=17` only that once; a number gives the same delays,
//! as parts of the time that an unbroken run takes.

use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use crate::amount::number;
use crate::crash::{Outcome, Story, first_apply, redeploy_of_a_member};
use crate::dice::Dice;

/// Kills in both tests together, where nobody says how many.
const KILLS: u64 = 20;

const SIGKILL: i32 = 9;

fn wanted() -> std::ops::Range<u64> {
    match number("TRUEUP_TEST_KILL") {
        Some(kill) => kill..kill + 1,
        None => 0..number("TRUEUP_TEST_KILLS").unwrap_or(KILLS) / 2,
    }
}

/// How long a run takes that nobody kills, and how everything is then.
fn unbroken(story: &Story) -> (Duration, Outcome) {
    let fixture = story.fixture();
    let began = Instant::now();
    fixture.run(story.command).with(0);
    (began.elapsed(), Story::outcome(&fixture))
}

fn at_any_instant(story: &Story) {
    let (whole, expected) = unbroken(story);
    let (kills, mut hit) = (wanted(), 0);
    let count = kills.end - kills.start;
    for kill in kills {
        let mut dice = Dice(kill);
        let fixture = story.fixture();
        let mut delays = Vec::new();
        // Whoever goes on is killed, too, now and then.
        for command in [story.command, &["apply", "--resume"]] {
            let delay = whole.mul_f64(dice.below(1000) as f64 / 1000.0);
            delays.push(delay);
            let mut child = fixture.start(command);
            std::thread::sleep(delay);
            child.kill().unwrap();
            let ended = child.wait_with_output().unwrap();
            if ended.status.signal() != Some(SIGKILL) {
                break;
            }
            hit += 1;
            if dice.chance(60) {
                break;
            }
        }
        story.go_on(&fixture);
        assert_eq!(
            Story::outcome(&fixture),
            expected,
            "killed after {delays:?} of {whole:?}; again with TRUEUP_TEST_KILL={kill}"
        );
    }
    eprintln!("{hit} kills in {count} runs");
    assert!(
        hit * 4 >= count,
        "hardly any run was killed: {hit} of {count}"
    );
}

#[test]
fn a_first_apply_that_is_killed_at_any_instant_ends_as_if_it_had_not_been() {
    at_any_instant(&first_apply());
}

#[test]
fn a_redeploy_that_is_killed_at_any_instant_ends_as_if_it_had_not_been() {
    at_any_instant(&redeploy_of_a_member());
}
