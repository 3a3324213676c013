//! A stand-in for MAAS, what judges it, and the backend against it.

mod airship;
mod answers;
mod client;
mod describe;
mod drift;
mod faults;
mod harm;
mod judged;
mod lab;
mod life;
mod many;
mod parts;
mod placed;
mod program;
mod refusals;
mod region;
mod remedy;
mod rules;
mod runs;
mod serve;
mod shown;
mod statuses;
mod wrong;

use crate::amount::takes_all;

/// The key of the administrator, as an operator has it.
pub(crate) const KEY_TEXT: &str = "Consumer0:Token0:S3cret0fTheAdministrator";
