//! A request for a plan, from its JSON to what the planner takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;

use super::view::{ObservedWord, PlanOrder};
use crate::design::Share;
use crate::plan::{Action, Allowance, Options, Request};
use crate::serve::answer::Refusal;
use crate::serve::design_ref::DesignRef;
use crate::serve::host::Host;
use crate::workflow::{Observed, PlanRequest};

/// The most names in a list.
const MOST_NAMES: usize = 10_000;

/// A plan that is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) design: DesignRef,
    order: PlanOrder,
}

impl Asked {
    /// Reads a request for a plan; an empty body asks for an update of the whole site.
    pub(super) fn of_body(body: &[u8]) -> Result<Self, Refusal> {
        let order: PlanOrder = match body.is_empty() {
            true => PlanOrder::default(),
            false => object(body, "a request for a plan")?,
        };
        let action = order.action.as_deref().unwrap_or(Action::Update.as_str());
        let Some(action) = Action::named(action) else {
            let hint = Action::near(action);
            let action = crate::report::Visible(action);
            let text = format!("there is no action `{action}`; {hint}");
            return Err(Refusal::bad_request(text));
        };
        order.check(action)?;
        let design = match (&order.revision, action.has_target_revision()) {
            (Some(revision), _) => DesignRef::parse(revision)?,
            (None, true) => DesignRef::parse("successful-site-action")?,
            (None, false) => DesignRef::default(),
        };
        let request = Request {
            action,
            nodes: set(&order.nodes),
            reason: order.reason.as_deref().map(Arc::from),
            ..Request::default()
        };
        Ok(Self {
            request,
            design,
            order,
        })
    }

    /// The site that the caller means, if it names one.
    pub(super) fn site(&self) -> Option<&str> {
        self.order.site.as_deref()
    }

    /// The settings of the plan.
    pub(super) fn plan_request(&self, host: &dyn Host) -> PlanRequest {
        let (base, order) = (host.plan_request(), &self.order);
        PlanRequest {
            options: Options {
                targets: set(&order.targets),
                excludes: set(&order.excludes),
                allow_restart: allowance(&order.allow_restart),
                allow_reinstall: allowance(&order.allow_reinstall),
                allow_redeploy: allowance(&order.allow_redeploy),
                allow_destroy: allowance(&order.allow_destroy),
                adopt: allowance(&order.adopt),
                allow_unverified: allowance(&order.allow_unverified),
                skip_blocked: order.skip_blocked,
                allow_intermediate_commits: order.allow_intermediate_commits,
                parallelism: order.parallelism.map_or(0, |most| usize::from(most.get())),
                max_unavailable: order.max_unavailable,
                canary: order.canary,
                ticket: order.ticket.clone(),
                max_failures: order.max_failures.map(u64::from),
                ..base.options
            },
            observed: match order.observed {
                ObservedWord::Now => Observed::Now,
                ObservedWord::None => Observed::Nothing,
            },
            ..base
        }
    }
}

/// Reads a body that has to be an object: a list of its values, which the library takes as well, is none.
pub(super) fn object<'b, T: Deserialize<'b>>(body: &'b [u8], what: &str) -> Result<T, Refusal> {
    let refused = |why: &dyn std::fmt::Display| {
        Refusal::bad_request(format!(
            "the body must be {what} as an object of JSON: {why}"
        ))
    };
    match body.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(body).map_err(|error| refused(&error)),
        _ => Err(refused(&"it does not begin as one")),
    }
}

impl PlanOrder {
    /// Refuses what does not belong to an action, as the command line does, so that nothing is ignored.
    fn check(&self, action: Action) -> Result<(), Refusal> {
        let of_update = [
            ("targets", &self.targets),
            ("excludes", &self.excludes),
            ("allow_restart", &self.allow_restart),
            ("allow_reinstall", &self.allow_reinstall),
            ("allow_redeploy", &self.allow_redeploy),
            ("allow_destroy", &self.allow_destroy),
            ("adopt", &self.adopt),
        ];
        if let Some(Err(least)) = self.max_unavailable.map(Share::at_least_one) {
            return Err(Refusal::bad_request(format!("`max_unavailable`: {least}")));
        }
        let is_long = |list: &Vec<String>| list.len() > MOST_NAMES;
        if of_update.iter().any(|(_, list)| is_long(list))
            || [&self.nodes, &self.allow_unverified]
                .into_iter()
                .any(is_long)
        {
            let text = format!("a list has more than {MOST_NAMES} names");
            return Err(Refusal::bad_request(text));
        }
        let lists = of_update.iter().map(|(name, list)| (*name, *list));
        let lists = lists.chain([
            ("nodes", &self.nodes),
            ("allow_unverified", &self.allow_unverified),
        ]);
        for (name, list) in lists {
            if list.iter().any(String::is_empty) {
                let text = format!("`{name}` has an empty name");
                return Err(Refusal::bad_request(text));
            }
        }
        let stray = of_update.iter().find(|(_, list)| !list.is_empty());
        let stray = stray.map(|(name, _)| *name);
        let stray = stray.or(self
            .allow_intermediate_commits
            .then_some("allow_intermediate_commits"));
        let has_reason = matches!(action, Action::Retire | Action::SetMaintenance);
        let refused = match (stray, action.is_targeted()) {
            (Some(name), true) => Some(name),
            (_, false) if !self.nodes.is_empty() => Some("nodes"),
            _ => (self.reason.is_some() && !has_reason).then_some("reason"),
        };
        if let Some(name) = refused {
            let text = format!("`{name}` does not belong to `{action}`");
            return Err(Refusal::bad_request(text));
        }
        if action.wants_nodes() && self.nodes.is_empty() {
            let text = format!("`{action}` needs `nodes`");
            return Err(Refusal::bad_request(text));
        }
        Ok(())
    }
}

fn set(names: &[String]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(name.as_str())).collect()
}

fn allowance(names: &[String]) -> Allowance {
    let mut nodes = set(names);
    let all = nodes.remove("all");
    Allowance { all, nodes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_asks_for_a_plan_or_is_refused() {
        let asked = |text: &str| Asked::of_body(text.as_bytes()).ok();
        assert_eq!(asked("").unwrap().request.action, Action::Update);
        let drain = asked(r#"{"action": "drain", "nodes": ["a", "b"]}"#).unwrap();
        assert_eq!(
            (drain.request.action, drain.request.nodes.len()),
            (Action::Drain, 2)
        );
        assert_eq!(drain.design.revision(), "committed");
        let redeploy = asked(r#"{"action": "redeploy", "nodes": ["a"]}"#).unwrap();
        assert_eq!(redeploy.design.revision(), "successful-site-action");
        for wrong in [
            "[]",
            "x",
            r#"{"action": "explode"}"#,
            r#"{"action": "drain"}"#,
            r#"{"action": "update", "nodes": ["a"]}"#,
            r#"{"action": "drain", "nodes": ["a"], "targets": ["a"]}"#,
            r#"{"action": "drain", "nodes": ["a"], "reason": "x"}"#,
            r#"{"observed": "/etc/passwd"}"#,
            r#"{"revision": "worktree"}"#,
            r#"{"more": 1}"#,
            r#"{"parallelism": -1}"#,
            r#"{"parallelism": 0}"#,
            r#"{"max_unavailable": "0"}"#,
            r#"{"max_unavailable": "0%"}"#,
            r#"{"targets": [""]}"#,
            r#"{"action": "drain", "nodes": [""]}"#,
        ] {
            assert!(asked(wrong).is_none(), "{wrong}");
        }
    }
}
