//! Every order in which one machine can be observed and moved, exhaustively.
//!
//! The environment of the model: a host that its operator switches off while our annotation is there and on when
//! it is gone, at any instant; a health check that asks for remediation again at any instant; a kubelet that
//! makes a Node anew whenever the machine is on and has none. The four facts are observed one after the
//! other, in any order, with the environment moving in between, and one of the two samples of the power may be
//! wrong. The process may die between any two steps: then all is forgotten but what was noted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::remediation::{Backup, MachineSeen, Memory, NodeSeen, Note, Power, Task, next};

/// The Node, by its UID: none, the one that failed, or one that was made anew.
type Node = Option<usize>;

/// The Node that failed.
const OLD: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Fixture {
    node: Node,
    marked: bool,
    on: bool,
    held: bool,
}

/// The facts observed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Look {
    node: Option<Node>,
    marked: Option<bool>,
    held: Option<bool>,
    first: Option<bool>,
    second: Option<bool>,
    lied: bool,
}

/// The memory, as far as it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Remembered {
    attempt: u32,
    backed_up: [bool; UIDS.len()],
    releasing: [bool; UIDS.len()],
    backup: bool,
    let_go: bool,
    given_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    fixture: Fixture,
    look: Look,
    remembered: Remembered,
    /// How often the health check may still ask again.
    asks: u8,
}

/// As many as can be made: the first, and one after each time that remediation is asked for.
const UIDS: [&str; 4] = ["old", "new", "newer", "newest"];

impl Remembered {
    fn memory(self) -> Memory {
        let uids = |flags: [bool; UIDS.len()]| {
            let uids = UIDS.into_iter().zip(flags).filter(|(_, flag)| *flag);
            uids.map(|(uid, _)| Arc::from(uid)).collect()
        };
        Memory {
            attempt: self.attempt,
            backed_up: uids(self.backed_up),
            releasing: uids(self.releasing),
            backup: self.backup.then(|| Backup {
                unschedulable: true,
                ..Backup::default()
            }),
            let_go: self.let_go,
            given_up: self.given_up.then(|| Arc::from("enough")),
            ..Memory::default()
        }
    }

    /// Takes a note in as the memory itself does.
    fn note(&mut self, note: &Note) {
        let mut memory = self.memory();
        memory.take(note);
        let flags =
            |uids: &std::collections::BTreeSet<Arc<str>>| UIDS.map(|uid| uids.contains(uid));
        *self = Self {
            attempt: memory.attempt,
            backed_up: flags(&memory.backed_up),
            releasing: flags(&memory.releasing),
            backup: memory.backup.is_some(),
            let_go: memory.let_go,
            given_up: memory.given_up.is_some(),
        };
    }
}

impl Fixture {
    /// Moves that the environment makes by itself.
    fn moves(self, asks: u8, remembered: Remembered) -> Vec<(Self, u8)> {
        let mut moves = Vec::new();
        if self.held == self.on {
            moves.push((
                Self {
                    on: !self.held,
                    ..self
                },
                asks,
            ));
        }
        if self.on && self.node.is_none() {
            let made = (1..UIDS.len()).find(|uid| !remembered.releasing[*uid]);
            moves.extend(made.map(|uid| {
                let node = Some(uid);
                (Self { node, ..self }, asks)
            }));
        }
        if asks > 0 && !self.marked {
            moves.push((
                Self {
                    marked: true,
                    ..self
                },
                asks - 1,
            ));
        }
        moves
    }
}

fn uid(node: Node) -> Option<Arc<str>> {
    node.map(|uid| Arc::from(UIDS[uid]))
}

impl Look {
    /// Every way to observe one fact more.
    fn further(self, fixture: Fixture) -> Vec<Self> {
        let mut looks = Vec::new();
        if self.node.is_none() {
            looks.push(Self {
                node: Some(fixture.node),
                ..self
            });
        }
        if self.marked.is_none() {
            looks.push(Self {
                marked: Some(fixture.marked),
                ..self
            });
        }
        if self.held.is_none() {
            looks.push(Self {
                held: Some(fixture.held),
                ..self
            });
        }
        for lies in [false, true] {
            if lies && self.lied {
                continue;
            }
            let (sample, lied) = (Some(fixture.on != lies), self.lied | lies);
            if self.first.is_none() {
                looks.push(Self {
                    first: sample,
                    lied,
                    ..self
                });
            } else if self.second.is_none() {
                looks.push(Self {
                    second: sample,
                    lied,
                    ..self
                });
            }
        }
        looks
    }

    fn seen(self) -> Option<MachineSeen> {
        let node = uid(self.node?).map(|uid| NodeSeen {
            ready: *uid != *UIDS[OLD],
            uid,
            out_of_service: false,
        });
        Some(MachineSeen {
            node,
            needs_remediation: self.marked?,
            power: Power::of(self.first, self.second),
            reboot_annotation: self.held?,
        })
        .filter(|_| self.second.is_some())
    }
}

/// The results of the one task; the violation if it is not safe.
fn act(state: State, seen: &MachineSeen) -> Result<Vec<State>, String> {
    let task = next(seen, &state.remembered.memory());
    let (mut fixture, mut remembered) = (state.fixture, state.remembered);
    match task {
        Task::Hold => fixture.held = true,
        Task::BackUp(uid) => remembered.note(&Note::BackedUp {
            uid,
            backup: Backup {
                unschedulable: true,
                ..Backup::default()
            },
        }),
        Task::Release(released) => {
            if fixture.on {
                return Err(format!(
                    "the Node is deleted while the host is on: {state:?}"
                ));
            }
            if !remembered.backup {
                return Err(format!(
                    "the Node is deleted before it is backed up: {state:?}"
                ));
            }
            remembered.note(&Note::Releasing {
                uid: released.clone(),
            });
            // By its UID: another one of the same name stays.
            if uid(fixture.node).as_ref() == Some(&released) {
                fixture.node = None;
            }
        }
        Task::Unmark => fixture.marked = false,
        Task::LetGo => {
            fixture.held = false;
            remembered.note(&Note::LetGo);
        }
        Task::Restore => {
            if fixture.node.is_some_and(|uid| remembered.releasing[uid]) {
                return Err(format!(
                    "a released Node is taken for the new one: {state:?}"
                ));
            }
            if fixture.node.is_some() {
                remembered.note(&Note::Restored);
            }
        }
        Task::AwaitOff
        | Task::AwaitOn
        | Task::AwaitNode
        | Task::AwaitReady
        | Task::Nothing
        | Task::Stuck => {}
    }
    let after = State {
        fixture,
        look: Look::default(),
        remembered,
        ..state
    };
    Ok(vec![after])
}

fn initial() -> Vec<State> {
    let mut states = Vec::new();
    for number in 0..16_u8 {
        for attempt in [0, 1] {
            for given_up in [false, true] {
                let bit = |mask| number & mask != 0;
                states.push(State {
                    fixture: Fixture {
                        node: bit(8).then_some(OLD),
                        marked: bit(4),
                        on: bit(2),
                        held: bit(1),
                    },
                    look: Look::default(),
                    remembered: Remembered {
                        attempt,
                        given_up,
                        ..Remembered::default()
                    },
                    asks: 1,
                });
            }
        }
    }
    states
}

/// Everything that can follow.
fn following(state: State) -> Result<Vec<State>, String> {
    let mut states = Vec::new();
    for (fixture, asks) in state.fixture.moves(state.asks, state.remembered) {
        states.push(State {
            fixture,
            asks,
            ..state
        });
    }
    match state.look.seen() {
        Some(seen) => states.extend(act(state, &seen)?),
        None => {
            let looks = state.look.further(state.fixture);
            states.extend(looks.into_iter().map(|look| State { look, ..state }));
        }
    }
    // The process dies, and another one begins with what was noted.
    states.push(State {
        look: Look::default(),
        ..state
    });
    Ok(states)
}

/// Every state that can be reached; each thing that is done on the way is safe.
fn reachable() -> HashSet<State> {
    let mut known: HashSet<State> = HashSet::new();
    let mut open: VecDeque<State> = initial().into();
    while let Some(state) = open.pop_front() {
        if known.insert(state) {
            open.extend(following(state).unwrap());
        }
    }
    known
}

#[test]
fn in_no_order_of_observations_is_a_node_deleted_while_its_host_is_on() {
    let known = reachable();
    // The model is no empty one.
    assert!(known.len() > 10_000, "{} states", known.len());
    let is_back = |state: &&State| {
        state.fixture.node > Some(OLD)
            && state.fixture.on
            && !state.fixture.held
            && !state.fixture.marked
    };
    assert!(known.iter().any(|state| is_back(&state)));
}

/// A whole observation of an environment that does not change, in which no sample is wrong.
fn look(fixture: Fixture) -> Look {
    Look {
        node: Some(fixture.node),
        marked: Some(fixture.marked),
        held: Some(fixture.held),
        first: Some(fixture.on),
        second: Some(fixture.on),
        lied: false,
    }
}

#[test]
fn from_every_state_that_can_be_reached_the_machine_comes_back_when_nothing_more_happens() {
    let known = reachable();
    let settled: HashMap<(Fixture, Remembered), ()> = known
        .into_iter()
        .filter(|state| !state.remembered.given_up)
        .map(|state| ((state.fixture, state.remembered), ()))
        .collect();
    for (mut fixture, mut remembered) in settled.into_keys() {
        let began = (fixture, remembered);
        let mut steps = 0;
        loop {
            // The operator and the kubelet do their part before each look.
            while let Some((moved, _)) = fixture.moves(0, remembered).pop() {
                fixture = moved;
            }
            let state = State {
                fixture,
                look: look(fixture),
                remembered,
                asks: 0,
            };
            let seen = state.look.seen().unwrap();
            let task = next(&seen, &remembered.memory());
            match task {
                Task::Nothing => break,
                Task::AwaitReady if fixture.node.is_some() => {
                    break;
                }
                _ => {}
            }
            let after = act(state, &seen).unwrap()[0];
            (fixture, remembered) = (after.fixture, after.remembered);
            steps += 1;
            assert!(
                steps < 20,
                "{began:?} never ends: {task:?} at {fixture:?} {remembered:?}"
            );
        }
        assert!(
            fixture.on && !fixture.held && !fixture.marked,
            "{began:?} ends at {fixture:?}"
        );
    }
}

#[test]
fn a_machine_whose_remediation_failed_is_unfenced_and_its_node_left_alone() {
    for number in 0..8_u8 {
        let bit = |mask| number & mask != 0;
        let seen = MachineSeen {
            node: bit(4).then(|| NodeSeen {
                uid: Arc::from(UIDS[0]),
                ready: false,
                out_of_service: false,
            }),
            needs_remediation: false,
            power: if bit(2) { Power::On } else { Power::Off },
            reboot_annotation: bit(1),
        };
        let memory = Memory {
            attempt: 2,
            given_up: Some(Arc::from("enough")),
            ..Memory::default()
        };
        let expected = if bit(1) {
            Task::LetGo
        } else if bit(2) {
            Task::Nothing
        } else {
            Task::Stuck
        };
        assert_eq!(next(&seen, &memory), expected);
    }
}
