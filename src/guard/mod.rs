//! Guards that keep a site alive while it changes, as pure functions.
//!
//! The same functions judge a plan and the instant of the act.

mod criteria;
pub mod quorum;
mod waves;
pub mod windows;

pub use criteria::{Verdict, can_still_hold, evaluate, is_certain, may_fail};
pub use waves::{
    CONTROL_PLANE_LABELS, CONTROL_PLANE_TAGS, GroupSize, WaveLimits, WaveReason, WaveSize,
    has_control_plane_label, is_control_plane,
};

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
