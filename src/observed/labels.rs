//! The labels of a node of a cluster, kept small.
//!
//! The nodes of a large site have dozens of labels each, nearly all of them alike. A label is therefore
//! one shared value, and so is the list of those that a node has in common with others. A reader that makes
//! labels for many nodes, one after the other, gets what was read lately instead of new values; the result is the same.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::design::Recent;

/// Labels that were read lately and are given again.
const SLOTS: usize = 1 << 12;

/// Lists of labels that were read lately and are given again.
const LISTS: usize = 1 << 8;

/// The longest text of labels that is kept to be found again, in bytes.
const LONGEST_REPEATED: usize = 1 << 13;

#[derive(Debug, PartialEq, Eq)]
struct Label {
    key: Arc<str>,
    value: Arc<str>,
}

/// The label that no two nodes have alike.
const HOST_NAME: &str = "kubernetes.io/hostname";

/// Labels, sorted by key, each key once. Those that nodes have in common are shared.
#[derive(Clone, Default)]
pub struct Labels {
    /// Labels that other nodes may have, too, sorted by key.
    common: Arc<Vec<Arc<Label>>>,
    /// The others, sorted by key, each of a key that is not among those.
    own: Vec<Arc<Label>>,
}

/// Two sorted lists of labels, as one.
struct Merged<'a>([&'a [Arc<Label>]; 2]);

impl<'a> Iterator for Merged<'a> {
    type Item = &'a Arc<Label>;

    fn next(&mut self) -> Option<&'a Arc<Label>> {
        let [one, other] = &mut self.0;
        let is_other = match (one.first(), other.first()) {
            (Some(first), Some(second)) => second.key < first.key,
            (first, _) => first.is_none(),
        };
        let from = if is_other { other } else { one };
        let (label, rest) = from.split_first()?;
        *from = rest;
        Some(label)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let length = self.0.iter().map(|list| list.len()).sum();
        (length, Some(length))
    }
}

impl ExactSizeIterator for Merged<'_> {}

fn find(labels: &[Arc<Label>], key: &str) -> Result<usize, usize> {
    labels.binary_search_by(|label| (*label.key).cmp(key))
}

impl Labels {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.common.len() + self.own.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn all(&self) -> Merged<'_> {
        Merged([&self.common, &self.own])
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let lists = [&self.own, &*self.common];
        lists.into_iter().find_map(|labels| {
            let position = find(labels, key).ok()?;
            labels.get(position).map(|label| &label.value)
        })
    }

    /// Whether there is a label of this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Whether all of these are among them.
    #[must_use]
    pub fn has_all(&self, wanted: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        let mut labels = self.all();
        wanted.iter().all(|(key, value)| {
            let mut rest = labels.by_ref().map(|label| (label.key.cmp(key), label));
            let found = rest.find(|(order, _)| order.is_ge());
            found.is_some_and(|(order, label)| order.is_eq() && label.value == *value)
        })
    }

    /// All labels, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<str>)> {
        self.all().map(|label| (&label.key, &label.value))
    }

    /// All keys, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.all().map(|label| &label.key)
    }

    /// Sets a label.
    pub fn insert(&mut self, key: Arc<str>, value: Arc<str>) {
        let label = shared(&key.clone(), &value.clone(), || Label { key, value });
        self.put(label);
    }

    /// Takes a label off.
    pub fn remove(&mut self, key: &str) {
        if find(&self.common, key).is_ok() {
            self.unshare();
        }
        if let Ok(position) = find(&self.own, key) {
            self.own.remove(position);
        }
    }

    fn put(&mut self, label: Arc<Label>) {
        if let Ok(position) = find(&self.common, &label.key) {
            if self.common[position] == label {
                return;
            }
            self.unshare();
        }
        match find(&self.own, &label.key) {
            Ok(position) => self.own[position] = label,
            Err(position) => self.own.insert(position, label),
        }
    }

    /// Makes all labels its own.
    fn unshare(&mut self) {
        let common = std::mem::take(&mut self.common);
        self.own.extend(common.iter().cloned());
        self.own
            .sort_unstable_by(|one, other| one.key.cmp(&other.key));
    }

    /// The labels of a list, sorted by key, each key once; those that other nodes may have are shared.
    fn of(mut labels: Vec<Arc<Label>>) -> Self {
        let is_own = |label: &mut Arc<Label>| *label.key == *HOST_NAME;
        let mut own: Vec<_> = labels.extract_if(.., is_own).collect();
        own.shrink_to_fit();
        labels.shrink_to_fit();
        Self {
            common: shared_list(labels),
            own,
        }
    }

    /// Those that nodes have in common, alone.
    pub(crate) fn to_common(&self) -> Self {
        Self {
            common: self.common.clone(),
            own: Vec::new(),
        }
    }

    /// The others, alone.
    pub(super) fn to_own(&self) -> Self {
        Self {
            common: Arc::default(),
            own: self.own.clone(),
        }
    }

    /// Where those that nodes have in common are in memory.
    pub(crate) fn place(&self) -> usize {
        Arc::as_ptr(&self.common).addr()
    }

    /// Adds the labels that other nodes have, too; the key of one that is in both is no label of either.
    pub(super) fn join(&mut self, common: &Self) -> Result<(), Arc<str>> {
        if !self.common.is_empty() {
            self.unshare();
        }
        let twice = |label: &&Arc<Label>| common.contains_key(&label.key);
        if let Some(twice) = self.own.iter().find(twice) {
            return Err(twice.key.clone());
        }
        self.common = common.common.clone();
        Ok(())
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.all().eq(other.all())
    }
}

impl Eq for Labels {}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Extend<(Arc<str>, Arc<str>)> for Labels {
    fn extend<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(&mut self, labels: I) {
        for (key, value) in labels {
            self.insert(key, value);
        }
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(labels: I) -> Self {
        let mut result = Self::default();
        result.extend(labels);
        Self::of(result.own)
    }
}

impl From<&BTreeMap<Arc<str>, Arc<str>>> for Labels {
    fn from(labels: &BTreeMap<Arc<str>, Arc<str>>) -> Self {
        let labels = labels.iter();
        labels
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

impl<const N: usize> From<[(Arc<str>, Arc<str>); N]> for Labels {
    fn from(labels: [(Arc<str>, Arc<str>); N]) -> Self {
        labels.into_iter().collect()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnyLabels)
    }
}

impl Labels {
    /// Reads labels of which the same text stands again and again in JSON: it is parsed once.
    ///
    /// # Errors
    ///
    /// They are none.
    pub fn deserialize_repeated<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Self, D::Error> {
        thread_local! {
            static RECENT: RefCell<Recent<(Box<str>, Labels), LISTS>> = const { RefCell::new(Recent::new()) };
        }
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let parse = || serde_json::from_str(text).map_err(D::Error::custom);
        if text.len() > LONGEST_REPEATED {
            return parse();
        }
        RECENT.with_borrow_mut(|recent| {
            let is_it = |(known, _): &(Box<str>, Self)| **known == *text;
            let read = recent.get_or_try(&text, is_it, || Ok((Box::from(text), parse()?)))?;
            Ok(read.1.clone())
        })
    }
}

struct AnyLabels;

impl<'de> Visitor<'de> for AnyLabels {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut labels: Vec<Arc<Label>> = Vec::new();
        let mut is_sorted = true;
        let mut key = String::new();
        while map.next_key_seed(Text(&mut key))?.is_some() {
            let label = map.next_value_seed(ValueOf(&key))?;
            is_sorted = is_sorted && labels.last().is_none_or(|last| last.key < label.key);
            labels.push(label);
        }
        if is_sorted {
            return Ok(Labels::of(labels));
        }
        let mut result = Labels::default();
        for label in labels {
            result.put(label);
        }
        Ok(Labels::of(result.own))
    }
}

/// Reads a text into a buffer.
struct Text<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key of a label")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.clear();
        self.0.push_str(text);
        Ok(())
    }
}

/// Reads the value of a label of this key.
struct ValueOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for ValueOf<'_> {
    type Value = Arc<Label>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Arc<Label>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ValueOf<'_> {
    type Value = Arc<Label>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value of a label")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Arc<Label>, E> {
        let new = || Label {
            key: shared_text(self.0),
            value: Arc::from(value),
        };
        Ok(shared(self.0, value, new))
    }
}

/// A label; one that was read or made lately, if there is one, else a new one.
fn shared(key: &str, value: &str, new: impl FnOnce() -> Label) -> Arc<Label> {
    thread_local! {
        static RECENT: RefCell<Recent<Label, SLOTS>> = const { RefCell::new(Recent::new()) };
    }
    let is_it = |label: &Label| *label.key == *key && *label.value == *value;
    RECENT.with_borrow_mut(|recent| recent.get(&(key, value), is_it, new))
}

/// A text; one that was read or made lately, if there is one.
pub(super) fn shared_text(text: &str) -> Arc<str> {
    thread_local! {
        static RECENT: RefCell<Recent<Arc<str>, LISTS>> = const { RefCell::new(Recent::new()) };
    }
    let is_it = |known: &Arc<str>| **known == *text;
    RECENT.with_borrow_mut(|recent| (*recent.get(&text, is_it, || Arc::from(text))).clone())
}

/// Labels of one node; those of another that were read lately and are the same, if there are such.
fn shared_list(labels: Vec<Arc<Label>>) -> Arc<Vec<Arc<Label>>> {
    thread_local! {
        static RECENT: RefCell<Recent<Vec<Arc<Label>>, LISTS>> = const { RefCell::new(Recent::new()) };
    }
    let ends = [labels.first(), labels.last()].map(|label| label.map(Arc::as_ptr));
    let (key, labels) = ((labels.len(), ends), RefCell::new(labels));
    let is_it = |known: &Vec<Arc<Label>>| *known == *labels.borrow();
    RECENT.with_borrow_mut(|recent| recent.get(&key, is_it, || labels.take()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repeated_labels_are_read_as_others_and_errors_are_not_kept() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Repeated(#[serde(deserialize_with = "Labels::deserialize_repeated")] Labels);

        let long = format!(r#"{{"a":"{}"}}"#, "b".repeat(LONGEST_REPEATED));
        let texts = [r#"{"b":"2", "a":"1"}"#, "{}", r#"{"a":1}"#, "[]", &long];
        for text in texts.into_iter().chain(texts) {
            let read = serde_json::from_str::<Repeated>(text).map(|read| read.0);
            let other = serde_json::from_str::<Labels>(text);
            assert_eq!(read.is_ok(), other.is_ok(), "{text}");
            assert_eq!(read.ok(), other.ok(), "{text}");
        }
    }

    fn map(labels: &Labels) -> BTreeMap<Arc<str>, Arc<str>> {
        let pairs = labels.iter();
        pairs
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    #[test]
    fn labels_of_many_nodes_are_kept_once() {
        let json = r#"{"a":"1","b":"2"}"#;
        let one: Labels = serde_json::from_str(json).unwrap();
        let other: Labels = serde_json::from_str(json).unwrap();
        assert!(Arc::ptr_eq(&one.common, &other.common));
        let longer: Labels = serde_json::from_str(r#"{"a":"1","b":"2","c":"3"}"#).unwrap();
        assert!(Arc::ptr_eq(&one.common[0], &longer.common[0]));
        let named = [("a", "1"), (HOST_NAME, "n1"), ("b", "2")];
        let named: Labels = named.map(|(key, value)| (key.into(), value.into())).into();
        assert!(Arc::ptr_eq(&one.common, &named.common));
        assert_eq!(
            named.to_own().keys().map(|key| &**key).collect::<Vec<_>>(),
            [HOST_NAME]
        );
        assert!(serde_json::from_str::<Labels>(r#"{"a":1}"#).is_err());
        assert!(serde_json::from_str::<Labels>("[]").is_err());
    }

    proptest! {
        #[test]
        fn labels_are_a_map_of_texts(
            changes in proptest::collection::vec(("[a-d\"ä]{0,2}|kubernetes\\.io/hostname", proptest::option::of("[a-c\\\\]{0,2}")), 0..20),
            wanted in proptest::collection::btree_map("[a-d]{0,1}", "[a-c]{0,1}", 0..3),
            common in proptest::collection::btree_map("[a-d]{0,1}", "[a-c]{0,1}", 0..5),
            is_shared in proptest::bool::ANY,
        ) {
            let (mut labels, mut expected) = (Labels::default(), BTreeMap::<Arc<str>, Arc<str>>::new());
            if is_shared {
                labels = common.iter().map(|(key, value)| (Arc::from(&**key), Arc::from(&**value))).collect();
                expected = map(&labels);
            }
            for (key, value) in &changes {
                match value {
                    Some(value) => {
                        labels.insert(Arc::from(&**key), Arc::from(&**value));
                        expected.insert(Arc::from(&**key), Arc::from(&**value));
                    }
                    None => {
                        labels.remove(key);
                        expected.remove(&**key);
                    }
                }
                prop_assert_eq!(labels.get(key), expected.get(&**key));
            }
            let wanted: BTreeMap<Arc<str>, Arc<str>> =
                wanted.iter().map(|(key, value)| (Arc::from(&**key), Arc::from(&**value))).collect();
            let all = wanted.iter().all(|(key, value)| expected.get(key) == Some(value));
            prop_assert_eq!(labels.has_all(&wanted), all);
            prop_assert!(labels.has_all(&expected));
            prop_assert_eq!(map(&labels), expected.clone());
            let json = serde_json::to_string(&labels).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&expected).unwrap());
            prop_assert_eq!(&serde_json::from_str::<Labels>(&json).unwrap(), &labels);
            let mut again = labels.to_own();
            prop_assert_eq!(again.join(&labels.to_common()), Ok(()));
            prop_assert_eq!(&again, &labels);
            prop_assert_eq!(again.join(&labels).is_err(), !labels.is_empty());
            // As read from an unsorted source, and with keys that stand there twice.
            let text: Vec<String> = changes
                .iter()
                .map(|(key, value)| serde_json::json!({ &**key: value.as_deref().unwrap_or("") }).to_string())
                .map(|object| object[1..object.len() - 1].to_owned())
                .collect();
            let json = format!("{{{}}}", text.join(","));
            let read: Labels = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(map(&read), serde_json::from_str::<BTreeMap<Arc<str>, Arc<str>>>(&json).unwrap());
        }
    }
}
