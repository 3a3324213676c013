//! Which of two values of a guard is weaker.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::windows;
use crate::design::{DisruptionPolicy, MaintenanceWindow, Rung, Share, SiteTimeZone, WindowList};

/// How the values of a guard, or of a part of one, are ordered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// A switch that restricts.
    Demand,
    /// A switch that lets trueup do more.
    Licence,
    /// A number, or a share: less is stricter. Without one there is no limit.
    AtMost,
    /// A number, or a share: less is stricter. Without one another limit holds, of which nothing is known here.
    Limit,
    /// A number: more is stricter, and none is 0.
    AtLeast,
    /// A set: more is stricter.
    AtLeastThese,
    /// A set of machines: more is stricter, for those that a plan is about.
    AtLeastMachines,
    /// A set: less is stricter.
    AtMostThese,
    /// A map of those who may do something: less is stricter, and none at all is no restriction; with the order of each.
    OnlyThese(&'static Self),
    /// Rules about approvals by scope: each has to be met by one that covers it.
    Rules(&'static Self),
    /// Whose consent counts: a set, less is stricter; the empty one is all.
    People,
    /// Rungs by section, with a default: lower is stricter, and without any they are the defaults.
    Rungs,
    /// Times in which changes may be made.
    Times,
    /// A way out: none is stricter; else these fields.
    Exception(&'static [(&'static str, Self)]),
    /// A map, whose every entry restricts.
    Each(&'static Self),
    /// These fields.
    Fields(&'static [(&'static str, Self)]),
    /// Nothing restricts by itself, and any change may loosen.
    Any,
    /// Nothing of it lets trueup do more.
    Free,
}

/// A part of a guard, and how it became weaker.
type Weaker = (String, String);

impl Order {
    /// How a new value is weaker than an old one, in words; none: it is not.
    #[must_use]
    pub(super) fn weaker(self, old: &Value, new: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.compare("", old, new, &mut found);
        let words = found.into_iter().map(|(path, how)| match path.is_empty() {
            true => how,
            false => format!("{path}: {how}"),
        });
        words.collect()
    }

    fn compare(self, path: &str, old: &Value, new: &Value, found: &mut Vec<Weaker>) {
        let mut add = |how: String| found.push((path.to_owned(), how));
        let from_to = || format!("{} instead of {}", render(new), render(old));
        match self {
            Self::Free => {}
            Self::Any => {
                if !old.is_null() && old != new {
                    add("changed".to_owned());
                }
            }
            Self::Demand => {
                if is_on(old) && !is_on(new) {
                    add("no longer demanded".to_owned());
                }
            }
            Self::Licence => {
                if is_on(new) && !is_on(old) {
                    add("newly allowed".to_owned());
                }
            }
            Self::AtMost => match (share(old), share(new)) {
                (None, _) => {}
                (Some(old), Some(new)) if new.is_within(old) => {}
                _ => add(from_to()),
            },
            Self::Limit => match (share(old), share(new)) {
                (None, None) => {}
                // No limit is less than one at a time.
                (None, Some(Share::Machines(1))) => {}
                (Some(old), Some(new)) if new.is_within(old) => {}
                _ => add(from_to()),
            },
            Self::AtLeast => {
                let number = |value: &Value| value.as_u64().unwrap_or_default();
                if number(new) < number(old) {
                    add(from_to());
                }
            }
            Self::AtLeastThese | Self::AtLeastMachines => {
                let (old, new) = (set(old), set(new));
                let left: Vec<&str> = old.difference(&new).copied().collect();
                if !left.is_empty() {
                    add(format!("no longer {}", some_of(&left)));
                }
            }
            Self::AtMostThese => {
                let (old, new) = (set(old), set(new));
                let more: Vec<&str> = new.difference(&old).copied().collect();
                if !more.is_empty() {
                    add(format!("newly {}", some_of(&more)));
                }
            }
            Self::People => {
                let (of_old, of_new) = (set(old), set(new));
                let more: Vec<&str> = of_new.difference(&of_old).copied().collect();
                match (of_old.is_empty(), of_new.is_empty()) {
                    (true, _) => {}
                    (false, true) => add("all allowed signers".to_owned()),
                    (false, false) if more.is_empty() => {}
                    (false, false) => add(format!("newly {}", some_of(&more))),
                }
            }
            Self::Rungs => {
                let rung = |value: &Value, section: &str| {
                    let own = value.get(section).or_else(|| value.get("default"));
                    let own = own.and_then(Value::as_str).and_then(Rung::named);
                    own.unwrap_or(DisruptionPolicy::default().default)
                };
                let sections = [old, new].into_iter().filter_map(Value::as_object);
                let sections: BTreeSet<&str> =
                    sections.flatten().map(|(key, _)| key.as_str()).collect();
                for section in sections {
                    let (before, now) = (rung(old, section), rung(new, section));
                    if now > before {
                        let how = format!("`{now}` instead of `{before}`");
                        found.push((below(path, section), how));
                    }
                }
            }
            Self::Times => {
                if !windows::all_within(&times(new), &times(old)) {
                    add(format!(
                        "{} instead of {}",
                        windows::in_words(&times(new)),
                        windows::in_words(&times(old))
                    ));
                }
            }
            Self::Exception(_)
            | Self::OnlyThese(_)
            | Self::Rules(_)
            | Self::Each(_)
            | Self::Fields(_) => self.compare_parts(path, old, new, found),
        }
    }

    /// Compares values that have parts.
    fn compare_parts(self, path: &str, old: &Value, new: &Value, found: &mut Vec<Weaker>) {
        match self {
            Self::Exception(fields) => match (old.is_null(), new.is_null()) {
                (_, true) => {}
                (true, false) => found.push((path.to_owned(), format!("newly {}", render(new)))),
                (false, false) => Self::Fields(fields).compare(path, old, new, found),
            },
            Self::OnlyThese(order) => {
                let Some(old) = old.as_object() else { return };
                for (key, new) in new.as_object().into_iter().flatten() {
                    match old.get(key) {
                        Some(old) => order.compare(&below(path, key), old, new, found),
                        None => found.push((path.to_owned(), format!("newly {key}"))),
                    }
                }
            }
            Self::Rules(order) => {
                for (scope, old) in old.as_object().into_iter().flatten() {
                    let path = below(path, scope);
                    let ways = |new: &Value| {
                        let mut found = Vec::new();
                        order.compare(&path, old, new, &mut found);
                        found
                    };
                    let mut covering = new.as_object().into_iter().flatten();
                    let is_met =
                        covering.any(|(other, new)| covers(other, scope) && ways(new).is_empty());
                    if !is_met {
                        let removed = || vec![(path.clone(), "removed".to_owned())];
                        found.extend(new.get(scope).map_or_else(removed, ways));
                    }
                }
                // Who is asked beside those who were has a say in all that comes later.
                let known = old.as_object().filter(|rules| !rules.is_empty());
                for (scope, new) in known.and(new.as_object()).into_iter().flatten() {
                    let asked = set(field(new, "of"));
                    if old.get(scope).is_none() && !asked.is_empty() {
                        let asked: Vec<&str> = asked.into_iter().collect();
                        let how = format!("newly asks {}", some_of(&asked));
                        found.push((below(path, scope), how));
                    }
                }
            }
            Self::Each(order) => {
                for (key, old) in old.as_object().into_iter().flatten() {
                    let path = below(path, key);
                    match new.get(key) {
                        Some(new) => order.compare(&path, old, new, found),
                        None => found.push((path, "removed".to_owned())),
                    }
                }
            }
            // If there was nothing, nothing was restricted.
            Self::Fields(_) if old.is_null() => {}
            Self::Fields(fields) => {
                for (name, order) in fields {
                    let (old, new) = (field(old, name), field(new, name));
                    order.compare(&below(path, name), old, new, found);
                }
            }
            Self::Demand
            | Self::Licence
            | Self::AtMost
            | Self::Limit
            | Self::AtLeast
            | Self::AtLeastThese
            | Self::AtLeastMachines
            | Self::AtMostThese
            | Self::People
            | Self::Rungs
            | Self::Times
            | Self::Any
            | Self::Free => {}
        }
    }
}

/// Whether a rule about approvals is about all plans that another one is about, by their scopes.
fn covers(scope: &str, other: &str) -> bool {
    let nodes = |scope: &str| match scope {
        "any" => Some(0),
        scope => scope.strip_prefix("nodes>")?.parse::<u64>().ok(),
    };
    match (nodes(scope), nodes(other)) {
        _ if scope == other => true,
        (Some(0), _) => true,
        (Some(own), Some(other)) => own <= other,
        _ => false,
    }
}

fn below(path: &str, name: &str) -> String {
    match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    }
}

fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).unwrap_or(&Value::Null)
}

fn is_on(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn share(value: &Value) -> Option<Share> {
    match value {
        Value::Number(number) => {
            let number = number.as_u64().unwrap_or(u64::MAX);
            Some(Share::Machines(
                usize::try_from(number).unwrap_or(usize::MAX),
            ))
        }
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn set(value: &Value) -> BTreeSet<&str> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).collect()
}

/// Names, of many the first.
fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// A value as a person reads it.
fn render(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Lists of windows as a value.
pub(super) fn of_times(lists: &[WindowList]) -> Value {
    let window = |window: &MaintenanceWindow| {
        let mut fields = Map::new();
        if !window.days.is_empty() {
            let days = window.days.iter().map(|day| Value::from(&**day));
            fields.insert("days".to_owned(), days.collect());
        }
        fields.insert("from".to_owned(), Value::from(&*window.from));
        fields.insert("to".to_owned(), Value::from(&*window.to));
        Value::Object(fields)
    };
    let list = |list: &WindowList| {
        let windows = Value::from_iter(list.windows.iter().map(window));
        json!({"time_zone": list.time_zone.name(), "windows": windows})
    };
    lists.iter().map(list).collect()
}

/// The lists of windows of a value.
pub fn times(value: &Value) -> Vec<WindowList> {
    let text = |value: &Value, name: &str| field(value, name).as_str().unwrap_or_default().into();
    let window = |value: &Value| MaintenanceWindow {
        days: set(field(value, "days"))
            .into_iter()
            .map(Into::into)
            .collect(),
        from: text(value, "from"),
        to: text(value, "to"),
    };
    let list = |value: &Value| {
        let zone = field(value, "time_zone").as_str().unwrap_or_default();
        let windows = field(value, "windows").as_array().into_iter().flatten();
        WindowList {
            time_zone: SiteTimeZone::named(zone).unwrap_or_default(),
            windows: windows.map(window).collect(),
        }
    };
    value.as_array().into_iter().flatten().map(list).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_weaker_is_found_and_what_is_stricter_is_not() {
        static RULE: Order = Order::Fields(&[("count", Order::AtLeast), ("of", Order::People)]);
        static LIMIT: Order = Order::AtMost;
        let rules = Order::Rules(&RULE);
        let tags = Order::Each(&LIMIT);
        let way_out = Order::Exception(&[("count", Order::AtLeast), ("of", Order::AtMostThese)]);
        let windows = |from: &str, to: &str, zone: &str| json!([{"time_zone": zone, "windows": [{"from": from, "to": to}]}]);
        let night = windows("22:00", "04:00", "UTC");
        let shorter = windows("23:00", "03:00", "UTC");
        let elsewhere = windows("22:00", "04:00", "Europe/Berlin");
        let table = [
            (Order::Demand, json!(true), json!(false), 1, 0),
            (Order::Licence, json!(null), json!(true), 1, 0),
            (Order::AtMost, json!(2), json!(5), 1, 0),
            (Order::AtMost, json!(2), json!(null), 1, 0),
            (Order::AtMost, json!("25%"), json!("30%"), 1, 0),
            (Order::AtMost, json!("25%"), json!(1), 1, 1),
            (Order::Limit, json!(null), json!(5), 1, 1),
            (Order::AtLeast, json!(2), json!(1), 1, 0),
            (Order::AtLeastThese, json!(["a", "b"]), json!(["a"]), 1, 0),
            (Order::AtMostThese, json!(["a"]), json!(["a", "b"]), 1, 0),
            (Order::People, json!(["a"]), json!([]), 1, 0),
            (Order::People, json!(["a"]), json!(["a", "b"]), 1, 0),
            (Order::Times, night.clone(), json!([]), 1, 0),
            (Order::Times, shorter, night.clone(), 1, 0),
            (Order::Times, elsewhere, night, 1, 1),
            (way_out, json!(null), json!({"count": 1, "of": ["a"]}), 1, 0),
            (
                way_out,
                json!({"count": 2, "of": ["a"]}),
                json!({"count": 1, "of": ["a"]}),
                1,
                0,
            ),
            (rules, json!({"any": {"count": 2}}), json!({}), 1, 0),
            (
                rules,
                json!({"any": {"count": 1}}),
                json!({"redeploy": {"count": 1}}),
                1,
                0,
            ),
            (
                rules,
                json!({"nodes>5": {"count": 1}}),
                json!({"nodes>9": {"count": 1}}),
                1,
                0,
            ),
            (
                Order::OnlyThese(&LIMIT),
                json!({"a": null}),
                json!({"b": null}),
                1,
                1,
            ),
            (
                Order::OnlyThese(&LIMIT),
                json!({"a": 5}),
                json!({"a": null}),
                1,
                0,
            ),
            (Order::OnlyThese(&LIMIT), json!(null), json!({"a": 5}), 0, 0),
            (
                rules,
                json!({"any": {"count": 2}}),
                json!({"any": {"count": 1}}),
                1,
                0,
            ),
            // Who is asked besides has a say in all that comes later, and so has the one who is asked no more.
            (
                rules,
                json!({"any": {"count": 1}}),
                json!({"any": {"count": 1}, "redeploy": {"count": 1, "of": ["a"]}}),
                1,
                1,
            ),
            (tags, json!({"a": 1}), json!({"a": 2}), 1, 0),
            (Order::Any, json!("x"), json!("y"), 1, 1),
            (Order::Any, json!(null), json!("y"), 0, 1),
            (Order::Free, json!(1), json!(2), 0, 0),
        ];
        for (order, old, new, there, back) in table {
            let count = |old, new| order.weaker(old, new).len();
            assert_eq!(count(&old, &new), there, "{order:?}: {old} to {new}");
            assert_eq!(count(&new, &old), back, "{order:?}: {new} to {old}");
            assert_eq!(count(&old, &old), 0, "{order:?}: {old}");
        }
    }
}
