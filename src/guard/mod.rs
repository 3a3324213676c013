//! What keeps a site alive while it changes, as pure functions.
//!
//! The same functions judge a plan and the instant of the act.

mod criteria;
pub mod quorum;
mod waves;
pub mod windows;

pub use criteria::{Verdict, can_still_hold, evaluate, is_certain};
pub use waves::{
    CONTROL_PLANE_LABELS, CONTROL_PLANE_TAGS, Limits, has_control_plane_label, is_control_plane,
};
