//! Rules of drains by pods, in the form of Cluster API's MachineDrainRules: which are evicted, which are waited for, and which stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::read::{items, text, text_of, texts};
use crate::document::{Map, Node};

/// The label by which a pod has a behavior of its own, as Cluster API has it.
const LABEL: &str = "cluster.x-k8s.io/drain";

/// The behavior of a drain towards a pod, the less strict first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainBehavior {
    /// It stays, and nothing waits for it.
    Skip,
    /// It is evicted.
    Drain,
    /// It is not evicted: its end is waited for.
    WaitCompleted,
}

impl DrainBehavior {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "Skip",
            Self::Drain => "Drain",
            Self::WaitCompleted => "WaitCompleted",
        }
    }
}

/// A term on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTerm {
    /// One of these.
    In(Arc<str>, BTreeSet<Arc<str>>),
    /// None of these, or not there.
    NotIn(Arc<str>, BTreeSet<Arc<str>>),
    /// There.
    Exists(Arc<str>),
    /// Not there.
    DoesNotExist(Arc<str>),
}

impl LabelTerm {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |key: &str, values: &BTreeSet<Arc<str>>| {
            let value = labels.get(key);
            value.is_some_and(|value| values.contains(value.as_str()))
        };
        match self {
            Self::In(key, values) => has(key, values),
            Self::NotIn(key, values) => !has(key, values),
            Self::Exists(key) => labels.contains_key(&**key),
            Self::DoesNotExist(key) => !labels.contains_key(&**key),
        }
    }

    fn read_all(selector: &Node) -> Vec<Self> {
        let equal = selector.get("matchLabels").and_then(Node::as_map);
        let equal = equal
            .into_iter()
            .flat_map(Map::iter)
            .filter_map(|(key, field)| {
                let value = text_of(&field.node)?;
                Some(Self::In(key.text.clone(), [value].into()))
            });
        // The schema refuses other operators.
        let terms = items(selector, "matchExpressions")
            .iter()
            .filter_map(|term| {
                let (key, values) = (text(term, "key")?, texts(term, "values").collect());
                Some(match &*text(term, "operator")? {
                    "In" => Self::In(key, values),
                    "NotIn" => Self::NotIn(key, values),
                    "Exists" => Self::Exists(key),
                    "DoesNotExist" => Self::DoesNotExist(key),
                    _ => return None,
                })
            });
        equal.chain(terms).collect()
    }

    fn as_value(&self) -> Value {
        match self {
            Self::In(key, values) => json!([key, "In", values]),
            Self::NotIn(key, values) => json!([key, "NotIn", values]),
            Self::Exists(key) => json!([key, "Exists"]),
            Self::DoesNotExist(key) => json!([key, "DoesNotExist"]),
        }
    }
}

/// Some pods of some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectedPods {
    /// None: of all.
    namespaces: BTreeSet<Arc<str>>,
    terms: Vec<LabelTerm>,
}

/// A rule for some pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainRule {
    /// None: all pods.
    pods: Vec<SelectedPods>,
    behavior: DrainBehavior,
    order: i32,
}

impl DrainRule {
    fn read(data: &Node) -> Self {
        let pods = items(data, "pods").iter().map(|pods| SelectedPods {
            namespaces: texts(pods, "namespaces").collect(),
            terms: pods
                .get("selector")
                .map(LabelTerm::read_all)
                .unwrap_or_default(),
        });
        let drain = data.get("drain");
        let behavior = drain.and_then(|drain| text(drain, "behavior"));
        let order = drain.and_then(|drain| drain.get("order")?.whole_number());
        let order = order.map(|order| order.clamp(i32::MIN.into(), i32::MAX.into()) as i32);
        Self {
            pods: pods.collect(),
            behavior: match behavior.as_deref() {
                Some("Skip") => DrainBehavior::Skip,
                Some("WaitCompleted") => DrainBehavior::WaitCompleted,
                _ => DrainBehavior::Drain,
            },
            order: order.unwrap_or_default(),
        }
    }

    fn is_about(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let is_meant = |pods: &SelectedPods| {
            let is_there = pods.namespaces.is_empty() || pods.namespaces.contains(namespace);
            is_there && pods.terms.iter().all(|term| term.holds(labels))
        };
        self.pods.is_empty() || self.pods.iter().any(is_meant)
    }

    /// Itself, in words that are equal where rules are.
    fn as_text(&self) -> String {
        let pods = self.pods.iter().map(|pods| {
            let terms: Vec<Value> = pods.terms.iter().map(LabelTerm::as_value).collect();
            json!({"namespaces": pods.namespaces, "labels": terms})
        });
        let pods: Vec<Value> = pods.collect();
        match self.behavior {
            DrainBehavior::Drain => json!({"Drain": pods, "order": self.order}).to_string(),
            other => json!({other.as_str(): pods}).to_string(),
        }
    }
}

/// The rules of a site: the first that is about a pod counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainRules {
    own: Vec<DrainRule>,
    /// Those of other revisions that hold, too: the stricter behavior of each pod counts, and the order of the own rules.
    elsewhere: Vec<Vec<DrainRule>>,
}

impl DrainRules {
    /// Reads the field of a Policy.
    #[must_use]
    pub fn read(data: &Node) -> Self {
        Self {
            own: items(data, "drain_rules")
                .iter()
                .map(DrainRule::read)
                .collect(),
            elsewhere: Vec::new(),
        }
    }

    /// Lets the rules of another revision hold, too. Without any, it evicts all pods.
    pub fn and(&mut self, other: &Self) {
        let others = other.elsewhere.iter().chain([&other.own]);
        for rules in others.cloned().collect::<Vec<_>>() {
            if rules != self.own && !self.elsewhere.contains(&rules) {
                self.elsewhere.push(rules);
            }
        }
    }

    /// The behavior of a drain towards a pod that no drain leaves, and its order: lower ones go first. Its own label comes
    /// before the rules, and what has ended is waited for no longer.
    #[must_use]
    pub fn behavior(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        has_ended: bool,
    ) -> (DrainBehavior, i32) {
        let (behavior, order) = match labels.get(LABEL).map(String::as_str) {
            Some("skip") => (DrainBehavior::Skip, 0),
            Some("wait-completed") => (DrainBehavior::WaitCompleted, 0),
            _ => self.of(namespace, labels),
        };
        match behavior {
            DrainBehavior::WaitCompleted if has_ended => (DrainBehavior::Drain, order),
            _ => (behavior, order),
        }
    }

    /// The behavior by the rules, and the order.
    fn of(&self, namespace: &str, labels: &BTreeMap<String, String>) -> (DrainBehavior, i32) {
        let judge = |rules: &[DrainRule]| {
            let mut rules = rules.iter();
            let rule = rules.find(|rule| rule.is_about(namespace, labels));
            rule.map_or((DrainBehavior::Drain, 0), |rule| {
                (rule.behavior, rule.order)
            })
        };
        let (own, order) = judge(&self.own);
        let elsewhere = self.elsewhere.iter().map(|rules| judge(rules).0);
        let behavior = elsewhere.fold(own, DrainBehavior::max);
        // As in Cluster API, only pods that are evicted have an order.
        let is_own = behavior == DrainBehavior::Drain && own == behavior;
        (behavior, if is_own { order } else { 0 })
    }

    /// The rules by what they do: those that are stricter than an eviction of all in any revision, and those that skip in all of them.
    #[must_use]
    pub fn as_value(&self) -> Value {
        let all = || [&self.own].into_iter().chain(&self.elsewhere);
        let any = |behavior| -> BTreeSet<String> {
            all().flat_map(|rules| texts_of(rules, behavior)).collect()
        };
        let mut skip = texts_of(&self.own, DrainBehavior::Skip);
        for rules in &self.elsewhere {
            let elsewhere = texts_of(rules, DrainBehavior::Skip);
            skip.retain(|text| elsewhere.contains(text));
        }
        json!({
            "skip": skip,
            "drain": any(DrainBehavior::Drain),
            "wait_completed": any(DrainBehavior::WaitCompleted),
        })
    }
}

/// The rules that do one thing. A rule comes with those of other kinds before it, which take pods away from it.
fn texts_of(rules: &[DrainRule], behavior: DrainBehavior) -> BTreeSet<String> {
    let meant = rules.iter().enumerate();
    let meant = meant.filter(|(_, rule)| rule.behavior == behavior);
    let texts = meant.map(|(index, rule)| {
        let before = rules[..index].iter();
        let before = before.filter(|before| before.behavior != behavior);
        let before: Vec<String> = before.map(DrainRule::as_text).collect();
        match before.is_empty() {
            true => rule.as_text(),
            false => format!("{} after {}", rule.as_text(), before.join(", ")),
        }
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(namespace: &str, app: &str, behavior: DrainBehavior, order: i32) -> DrainRule {
        let app = LabelTerm::In("app".into(), [Arc::from(app)].into());
        DrainRule {
            pods: vec![SelectedPods {
                namespaces: [Arc::from(namespace)].into(),
                terms: vec![app],
            }],
            behavior,
            order,
        }
    }

    fn of(rules: &DrainRules, app: &str) -> (DrainBehavior, i32) {
        rules.of("web", &BTreeMap::from([("app".to_owned(), app.to_owned())]))
    }

    #[test]
    fn the_first_rule_about_a_pod_counts_and_the_stricter_of_two_revisions() {
        use DrainBehavior::{Drain, Skip, WaitCompleted};
        let rules = |own: Vec<DrainRule>| DrainRules {
            own,
            elsewhere: Vec::new(),
        };
        let mut now = rules(vec![
            rule("web", "log", Skip, 0),
            rule("web", "log", WaitCompleted, 0),
            rule("web", "osd", Drain, 100),
            rule("web", "job", Drain, -5),
            rule("other", "front", Skip, 0),
        ]);
        assert_eq!(of(&now, "log"), (Skip, 0));
        assert_eq!(of(&now, "osd"), (Drain, 100));
        assert_eq!(of(&now, "front"), (Drain, 0));
        now.and(&rules(vec![rule("web", "job", WaitCompleted, 0)]));
        // Another revision, which skips nothing, holds, too.
        assert_eq!(of(&now, "log"), (Drain, 0));
        assert_eq!(of(&now, "osd"), (Drain, 100));
        assert_eq!(of(&now, "job"), (WaitCompleted, 0));
    }

    #[test]
    fn labels_are_matched_as_a_selector_of_kubernetes_does() {
        let labels = BTreeMap::from([("app".to_owned(), "front".to_owned())]);
        let values = || BTreeSet::from([Arc::from("front")]);
        let table = [
            (LabelTerm::In("app".into(), values()), true),
            (LabelTerm::In("tier".into(), values()), false),
            (LabelTerm::NotIn("app".into(), values()), false),
            (LabelTerm::NotIn("tier".into(), values()), true),
            (LabelTerm::Exists("app".into()), true),
            (LabelTerm::DoesNotExist("app".into()), false),
        ];
        for (term, holds) in table {
            assert_eq!(term.holds(&labels), holds, "{term:?}");
        }
    }
}
