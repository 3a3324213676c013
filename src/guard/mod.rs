//! What keeps a site alive while it changes, as pure functions.
//!
//! The same functions judge a plan and the instant of the act.

mod criteria;

pub use criteria::{Verdict, can_still_hold, evaluate, is_certain};
