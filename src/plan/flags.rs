//! The flags that let a plan do more than it would without: their values in a request, what each loosens, and which of
//! them a policy may forbid.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use super::guards::Loosened;
use super::{Allowance, Options, Plan};
use crate::design::{Policy, Share};
use crate::diagnostic::in_shell;
use crate::guard;
use crate::step::OnDrainTimeout;

/// A flag that lets a plan do more.
struct Flag {
    /// Its name.
    name: &'static str,
    /// Its value in a request, as on the command line; `None`: it was not given.
    value: fn(&Options) -> Option<String>,
    /// Its effect.
    does: Does,
}

/// The effect of a flag.
enum Does {
    /// It consents to what a plan does anyway, and no policy forbids that.
    Consent,
    /// It allows a change, or a way of making it.
    Allow,
    /// It makes a guard weaker: which, and how, if it does.
    Loosen(&'static str, fn(&Options, &Policy) -> Option<String>),
}

/// All of them.
static FLAGS: [Flag; 22] = [
    Flag {
        name: "allow-restart",
        value: |options| nodes(&options.allow_restart),
        does: Does::Allow,
    },
    Flag {
        name: "allow-reinstall",
        value: |options| nodes(&options.allow_reinstall),
        does: Does::Allow,
    },
    Flag {
        name: "allow-redeploy",
        value: |options| nodes(&options.allow_redeploy),
        does: Does::Allow,
    },
    Flag {
        name: "allow-destroy",
        value: |options| nodes(&options.allow_destroy),
        does: Does::Allow,
    },
    Flag {
        name: "adopt",
        value: |options| nodes(&options.adopt),
        does: Does::Allow,
    },
    Flag {
        name: "allow-unverified",
        value: |options| nodes(&options.allow_unverified),
        does: Does::Loosen("unverified", |options, _| nodes(&options.allow_unverified)),
    },
    Flag {
        name: "destroy-etcd",
        value: |options| names(&options.leaving.destroy_etcd, ","),
        does: Does::Loosen("etcd_clusters", |options, _| {
            names(&options.leaving.destroy_etcd, ", ")
        }),
    },
    Flag {
        name: "no-etcd-here",
        value: |options| names(&options.leaving.no_etcd_here, ","),
        does: Does::Loosen("etcd_clusters", |options, _| {
            names(&options.leaving.no_etcd_here, ", ")
        }),
    },
    Flag {
        name: "node-is-gone",
        value: |options| names(&options.leaving.gone, ","),
        does: Does::Allow,
    },
    Flag {
        name: "i-have-checked",
        value: |options| switch(options.leaving.checked_gone),
        does: Does::Consent,
    },
    Flag {
        name: "forget",
        value: |options| switch(options.leaving.forget),
        does: Does::Allow,
    },
    Flag {
        name: "on-drain-timeout",
        value: |options| match options.leaving.on_drain_timeout? {
            OnDrainTimeout::Fail => None,
            OnDrainTimeout::ForceDelete => Some("force-delete".to_owned()),
            OnDrainTimeout::Continue => Some("continue".to_owned()),
        },
        does: Does::Loosen("disruption_budgets", |options, _| {
            let loosens = options.leaving.on_drain_timeout? != OnDrainTimeout::Fail;
            loosens.then(|| "pods that a drain could not evict in time are deleted".to_owned())
        }),
    },
    Flag {
        name: "skip-blocked",
        value: |options| switch(options.skip_blocked),
        does: Does::Allow,
    },
    Flag {
        name: "allow-loosening",
        value: |options| switch(options.allow_loosening),
        does: Does::Consent,
    },
    Flag {
        name: "outside-windows",
        value: |options| switch(options.outside_windows),
        does: Does::Loosen("maintenance_windows", |options, policy| {
            let windows = &policy.maintenance_windows;
            let leaves = options.outside_windows && !windows.is_empty();
            leaves.then(|| format!("not only {}", guard::windows::in_words(windows)))
        }),
    },
    Flag {
        name: "break-glass",
        value: |options| text(options.break_glass.as_ref()),
        does: Does::Consent,
    },
    Flag {
        name: "allow-intermediate-commits",
        value: |options| switch(options.allow_intermediate_commits),
        does: Does::Allow,
    },
    Flag {
        name: "max-unavailable",
        value: |options| text(options.max_unavailable),
        does: Does::Loosen("max_unavailable", |options, policy| {
            let limits = &policy.max_unavailable;
            let asked = options.max_unavailable?;
            let own = match asked {
                Share::Machines(_) => limits.total.map(Share::Machines),
                Share::Percent(_) => limits.percent.map(Share::Percent),
            };
            let is_within = own.is_some_and(|own| asked.is_within(own));
            // One at a time is no more than any default.
            text(Some(asked).filter(|_| !is_within && asked != Share::Machines(1)))
        }),
    },
    Flag {
        name: "max-failures",
        value: |options| text(options.max_failures),
        does: Does::Loosen("max_failures", |options, policy| {
            let own = policy.max_failures?;
            text(options.max_failures.filter(|asked| *asked > own))
        }),
    },
    Flag {
        name: "max-remediations",
        value: |options| text(options.remediation.max_at_once),
        does: Does::Loosen("remediation", |options, policy| {
            let own = policy
                .remediation
                .max_at_once
                .unwrap_or(guard::REMEDIATIONS);
            text(options.remediation.max_at_once.filter(|asked| *asked > own))
        }),
    },
    Flag {
        name: "max-unhealthy",
        value: |options| text(options.remediation.max_unhealthy),
        does: Does::Loosen("remediation", |options, policy| {
            let own = policy.remediation.max_unhealthy(None);
            let asked = options.remediation.max_unhealthy;
            text(asked.filter(|asked| !asked.is_within(own)))
        }),
    },
    Flag {
        name: "parallelism",
        // A plan always has a number, and an approval covers no larger one.
        value: |_| None,
        does: Does::Loosen("parallelism", |options, policy| {
            let own = policy.parallelism.unwrap_or(guard::PARALLELISM);
            text(Some(options.parallelism).filter(|asked| *asked > own))
        }),
    },
];

fn nodes(allowance: &Allowance) -> Option<String> {
    text(Some(allowance).filter(|allowance| !allowance.is_none()))
}

fn names(names: &BTreeSet<Arc<str>>, separator: &str) -> Option<String> {
    let names: Vec<String> = names.iter().map(|name| guard::in_list(name)).collect();
    (!names.is_empty()).then(|| names.join(separator))
}

fn switch(is_on: bool) -> Option<String> {
    is_on.then(String::new)
}

fn text(value: Option<impl Display>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// A flag and its value, as they are typed.
fn typed(flag: &str, value: &str) -> String {
    match value {
        "" => format!("--{flag}"),
        value => format!("--{flag} {}", in_shell([value])),
    }
}

impl Plan {
    /// The allowances of its request, as flags on the command line: a limit that is the one of the policy is no flag.
    #[must_use]
    pub fn allowances(&self) -> Vec<String> {
        let own = self.guards.values.get("max_failures");
        let own = own.and_then(serde_json::Value::as_u64);
        let options = Options {
            max_failures: self.options.max_failures.filter(|most| Some(*most) != own),
            ..self.options.clone()
        };
        options.allowances()
    }

    /// The command line that makes it again, with what it allows and another flag.
    #[must_use]
    pub fn again_with(&self, flag: Option<&str>) -> String {
        let mut flags = self.allowances();
        flags.extend(flag.map(str::to_owned));
        self.request_as("plan", &flags)
    }

    /// The command line that makes it again with what it allows, and without the flags that narrow it.
    #[must_use]
    pub fn again_whole(&self) -> String {
        let mut words = self.request_words("plan");
        words.extend(self.allowances());
        words.join(" ")
    }

    /// A command with its request, the flags that narrow it, and others.
    #[must_use]
    pub fn request_as(&self, command: &str, flags: &[String]) -> String {
        let mut words = self.request_words(command);
        words.extend(self.options.narrowing());
        words.extend(flags.iter().cloned());
        words.join(" ")
    }

    fn request_words(&self, command: &str) -> Vec<String> {
        let mut words = vec!["trueup".to_owned(), command.to_owned()];
        let request = &self.request;
        if request.action.is_targeted() {
            words.push(request.action.to_string());
            words.extend(request.nodes.iter().map(|node| in_shell([&**node])));
        }
        words
    }
}

impl Options {
    /// The allowances of this request, as flags on the command line. Among them are limits, which may also restrict.
    #[must_use]
    pub fn allowances(&self) -> Vec<String> {
        let given = FLAGS.iter();
        let given = given.filter_map(|flag| Some((flag.name, (flag.value)(self)?)));
        given.map(|(flag, value)| typed(flag, &value)).collect()
    }

    /// The flags of this request that narrow a plan, as on the command line.
    #[must_use]
    pub fn narrowing(&self) -> Vec<String> {
        let named = [("target", &self.targets), ("exclude", &self.excludes)];
        let named = named.into_iter().flat_map(|(flag, words)| {
            let words = words.iter().map(|word| guard::in_list(word));
            words.map(move |word| typed(flag, &word))
        });
        named
            .chain(self.canary.then(|| typed("canary", "")))
            .collect()
    }

    /// The guards of a policy that flags of this request make weaker.
    pub(super) fn loosened(&self, policy: &Policy) -> Vec<Loosened> {
        let loosened = FLAGS.iter().filter_map(|flag| match flag.does {
            Does::Loosen(guard, how) => Some(Loosened {
                guard: Arc::from(guard),
                flag: Some(Arc::from(flag.name)),
                how: Arc::from(how(self, policy)?),
            }),
            Does::Consent | Does::Allow => None,
        });
        loosened.collect()
    }

    /// The flags of this request that a policy forbids, by name.
    pub(super) fn forbidden(&self, policy: &Policy) -> Vec<Arc<str>> {
        let is_used = |flag: &&Flag| match flag.does {
            Does::Consent => false,
            Does::Allow => (flag.value)(self).is_some(),
            Does::Loosen(_, how) => how(self, policy).is_some(),
        };
        let used = FLAGS.iter().filter(is_used).map(|flag| flag.name);
        let forbidden = used.filter(|flag| policy.forbidden_flags.contains(*flag));
        forbidden.map(Arc::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_policy_lists_the_flags_that_it_may_forbid() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/trueup.Policy.v1.json");
        let schema: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let listed = schema["properties"]["flags"]["properties"]["forbid"]["items"]["enum"]
            .as_array()
            .unwrap();
        let listed: Vec<&str> = listed.iter().filter_map(|flag| flag.as_str()).collect();
        let own = FLAGS
            .iter()
            .filter(|flag| !matches!(flag.does, Does::Consent));
        let mut own: Vec<&str> = own.map(|flag| flag.name).collect();
        own.sort_unstable();
        assert_eq!(listed, own);
    }
}
