//! Checks that those who are told of runs can be: each destination gets a message that is a test.

use std::sync::Arc;

use super::checks::Checks;
use crate::backend::notify::{Moment, Notification, Notifier};
use crate::cli::Failure;
use crate::cli::context::Context;
use crate::design::Guards;
use crate::workflow::{Checkout, Client as _};

/// Tries the destinations of a site that is trusted.
pub(super) fn check(
    context: &Context,
    checkout: &Checkout<'_>,
    guards: &Guards,
    checks: &mut Checks,
) {
    let backends = match context.backends(checkout, &checkout.location) {
        Ok(backends) => backends,
        Err(failure) => return checks.failure("notify", &failure, "`trueup validate`"),
    };
    let notifier = match Notifier::open(guards, &backends) {
        Ok(None) => return,
        Ok(Some(notifier)) => notifier,
        Err(error) => {
            let failure = Failure::error(error.to_string());
            return checks.failure("notify", &failure, error.hint().unwrap_or_default());
        }
    };
    let now = Arc::from(jiff::Timestamp::now().to_string());
    let mut test = Notification::new(checkout.location.site.as_str(), Moment::Test, now);
    test.summary = "a test by `trueup doctor`: nothing has happened".to_owned();
    for (name, result) in notifier.try_all(&test.bounded()) {
        match result {
            Ok(()) => checks.ok("notify", format!("{name} has taken a test message")),
            Err(why) => checks.fail(
                "notify",
                format!("{name} takes no message: {why}"),
                "check address, key and certificate below `notify` of the Backends document",
            ),
        }
    }
}
