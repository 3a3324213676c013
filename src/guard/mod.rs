//! Guards that keep a site alive while it changes, as pure functions.
//!
//! The same functions judge a plan and the instant of the act. Which machine a word means is decided here, too.

mod criteria;
mod expected;
mod join;
mod merge;
mod order;
pub mod quorum;
mod selection;
mod subject;
mod table;
mod waves;
pub mod windows;
mod word_list;

pub use criteria::{Verdict, can_still_hold, evaluate, is_certain, may_fail};
pub use expected::{Unexpected, unexpected};
pub use join::expected_parts;
pub use merge::{BuiltOf, Guarded, MergeFor, OlderRevision, Revisions};
pub use order::times as maintenance_windows_of;
pub use selection::{ALL, Machines, WordError, WordKind, check_word, glob, is_by_name, is_glob};
pub use subject::{GuardFiles, SignerTime, Subject};
pub use table::{Guard, TABLE, about, is_weaker_at_once, values, weaker};
pub use waves::{
    CONTROL_PLANE_LABELS, CONTROL_PLANE_TAGS, GroupSize, PlaceLimit, WaveLimits, WaveReason,
    WaveSize, has_control_plane_label, is_control_plane,
};
pub use word_list::{in_list, split_words, start_of_last_word, words_of};

/// Nodes worked on at the same time, if neither flag nor policy says otherwise: as many as a wave has.
pub const PARALLELISM: usize = 10;

/// Machines that are remediated at the same time, if neither flag nor policy says otherwise: what fails twice at once
/// is seldom a machine.
pub const REMEDIATIONS: usize = 1;

/// Why the last API server is not taken away.
const LAST_API_SERVER: &str = "no other API server of its cluster is ready (EndpointSlices of service `kubernetes` in namespace \
     `default`): the node could not be brought back";

/// Whether an API server stays ready when a control-plane node with `here` of the `ready` ones goes.
///
/// # Errors
///
/// None does.
pub const fn api_servers_left(ready: usize, here: usize) -> Result<(), &'static str> {
    match ready > here {
        true => Ok(()),
        false => Err(LAST_API_SERVER),
    }
}
