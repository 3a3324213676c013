//! The value of a YAML document: a tree that remembers where each part was written.
//!
//! Lists and maps are behind [`Arc`]s: a clone of a tree costs one reference, and a write copies only
//! the way down to what it writes ([`Arc::make_mut`]). So substituting a catalogue into a hundred
//! charts shares it, and a change of one copy changes no other.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use indexmap::{Equivalent, IndexSet};
use serde::{Deserialize, Serialize};

use super::SecretOrigin;
use crate::diagnostic::Mark;

/// The text shown in place of a secret in all output.
pub const REDACTED: &str = "(secret)";

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written: the document that first gave it, also after rendering.
    pub mark: Mark,
    /// Where it comes from, if it, and everything below it, is secret.
    pub secret: Option<SecretOrigin>,
}

/// A YAML value, as PyYAML's SafeLoader would construct it.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// An integer that fits into 64 bits.
    Integer(i64),
    /// An integer that does not, as decimal digits.
    BigInteger(Arc<str>),
    /// A floating-point number.
    Float(f64),
    /// A string.
    String(Arc<str>),
    /// A date (`2001-12-14`) or a point in time (`2001-12-14 21:59:43.100000+00:00`), as Python's
    /// `str` gives it.
    Timestamp(Arc<str>),
    /// A sequence.
    List(Arc<Vec<Node>>),
    /// A mapping.
    Map(Arc<Map>),
}

/// The kind of scalar of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KeyKind {
    /// A string, nearly always.
    String,
    /// `null`.
    Null,
    /// A boolean.
    Bool,
    /// An integer.
    Integer,
    /// A floating-point number.
    Float,
    /// A date or time.
    Timestamp,
}

/// A key of a map: its canonical text, and what kind of scalar it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The text (`true` for a boolean, decimal digits for an integer).
    pub text: Arc<str>,
    /// The kind of scalar.
    pub kind: KeyKind,
}

impl Key {
    /// A string key.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            kind: KeyKind::String,
        }
    }

    /// The key as a value.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self.kind {
            KeyKind::String => Value::String(self.text.clone()),
            KeyKind::Null => Value::Null,
            KeyKind::Bool => Value::Bool(&*self.text == "true"),
            KeyKind::Integer => match self.text.parse() {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::BigInteger(self.text.clone()),
            },
            KeyKind::Float => Value::Float(self.text.parse().unwrap_or(f64::NAN)),
            KeyKind::Timestamp => Value::Timestamp(self.text.clone()),
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Equivalent<Key> for str {
    fn equivalent(&self, key: &Key) -> bool {
        key.kind == KeyKind::String && *key.text == *self
    }
}

/// The value under a key, and where the key was written.
#[derive(Clone, Debug)]
pub struct Field {
    /// Where the key was written.
    pub key_mark: Mark,
    /// The value.
    pub node: Node,
}

/// Entries that a map has before it keeps an index: looking through so few is quicker than hashing, and
/// most maps of a site have less.
const FEW: usize = 16;

/// A mapping, in the order in which it was written.
#[derive(Clone, Debug, Default)]
pub struct Map {
    fields: Vec<(Key, Field)>,
    /// The keys in the same order, of a map with more than [`FEW`] fields.
    index: Option<Box<IndexSet<Key>>>,
}

/// The fields of a map, in order.
#[derive(Clone, Debug)]
pub struct Entries<'a>(std::slice::Iter<'a, (Key, Field)>);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a Key, &'a Field);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, field)| (key, field))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Entries<'_> {}

impl Map {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty map with capacity for so many fields.
    #[must_use]
    pub fn with_capacity(fields: usize) -> Self {
        Self {
            fields: Vec::with_capacity(fields),
            index: None,
        }
    }

    /// Where a key stands.
    fn position<K: ?Sized + Hash + Equivalent<Key>>(&self, key: &K) -> Option<usize> {
        match &self.index {
            Some(index) => index.get_index_of(key),
            None => self.fields.iter().position(|(own, _)| key.equivalent(own)),
        }
    }

    fn at<K: ?Sized + Hash + Equivalent<Key>>(&self, key: &K) -> Option<&Field> {
        let position = self.position(key)?;
        self.fields.get(position).map(|(_, field)| field)
    }

    fn at_mut<K: ?Sized + Hash + Equivalent<Key>>(&mut self, key: &K) -> Option<&mut Node> {
        let position = self.position(key)?;
        let field = self.fields.get_mut(position);
        field.map(|(_, field)| &mut field.node)
    }

    /// Adds a field with a new key.
    fn push(&mut self, key: Key, field: Field) {
        if let Some(index) = &mut self.index {
            index.insert(key.clone());
        }
        self.fields.push((key, field));
        if self.index.is_none() && self.fields.len() > FEW {
            let keys = self.fields.iter().map(|(key, _)| key.clone());
            self.index = Some(Box::new(keys.collect()));
        }
    }

    fn take<K: ?Sized + Hash + Equivalent<Key>>(&mut self, key: &K) -> Option<Field> {
        let position = self.position(key)?;
        if let Some(index) = &mut self.index {
            index.shift_remove_index(position);
        }
        Some(self.fields.remove(position).1)
    }

    /// The value under a string key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.at(key).map(|field| &field.node)
    }

    /// The field (value and place of the key) under a string key.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.at(key)
    }

    /// The field under any key.
    #[must_use]
    pub fn field_by_key(&self, key: &Key) -> Option<&Field> {
        self.at(key)
    }

    /// The value under any key, to be changed.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut Node> {
        self.at_mut(key)
    }

    /// The value under a string key, to be changed.
    pub fn get_str_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.at_mut(key)
    }

    /// Sets a value; a key that is there keeps its position. Returns what was there.
    pub fn insert(&mut self, key: Key, field: Field) -> Option<Field> {
        let position = self.position(&key);
        match position.and_then(|position| self.fields.get_mut(position)) {
            Some((_, old)) => Some(std::mem::replace(old, field)),
            None => {
                self.push(key, field);
                None
            }
        }
    }

    /// Sets a value under a string key, the key's place being the value's.
    pub fn set(&mut self, key: &str, node: Node) {
        let field = Field {
            key_mark: node.mark,
            node,
        };
        self.insert(Key::string(key), field);
    }

    /// A map of exactly these fields. Of equal keys the last counts, as PyYAML has it; all but the first are
    /// handed back with their place and that of the first.
    pub(super) fn of_fields(
        fields: impl ExactSizeIterator<Item = (Key, Field)>,
    ) -> (Self, Vec<(Key, Mark, Mark)>) {
        let mut map = Self::with_capacity(fields.len());
        let mut doubled = Vec::new();
        for (key, field) in fields {
            match map.at(&key).map(|first| first.key_mark) {
                None => map.push(key, field),
                Some(first) => {
                    doubled.push((key.clone(), field.key_mark, first));
                    let field = Field {
                        key_mark: first,
                        ..field
                    };
                    map.insert(key, field);
                }
            }
        }
        (map, doubled)
    }

    /// Removes a string key, keeping the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Field> {
        self.take(key)
    }

    /// Removes any key, keeping the order of the others.
    pub fn remove_key(&mut self, key: &Key) -> Option<Field> {
        self.take(key)
    }

    /// Whether there is such a string key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// All fields in order.
    #[must_use]
    pub fn iter(&self) -> Entries<'_> {
        Entries(self.fields.iter())
    }

    /// All fields in order, values to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&Key, &mut Field)> {
        self.fields.iter_mut().map(|(key, field)| (&*key, field))
    }

    /// All keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.iter().map(|(key, _)| key)
    }

    /// All fields ordered by key, for canonical output.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&Key, &Field)> {
        let mut fields: Vec<_> = self.iter().collect();
        fields.sort_by_key(|(key, _)| *key);
        fields
    }
}

impl IntoIterator for Map {
    type Item = (Key, Field);
    type IntoIter = std::vec::IntoIter<(Key, Field)>;

    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_iter()
    }
}

impl Node {
    /// A value at a place, not secret.
    #[must_use]
    pub fn new(value: Value, mark: Mark) -> Self {
        Self {
            value,
            mark,
            secret: None,
        }
    }

    /// The map, if it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        match &self.value {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match &self.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if it is one of 64 bits.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match &self.value {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, if it is a whole one, also if it is written as `2.0`: to a schema that is an integer.
    #[must_use]
    pub fn whole_number(&self) -> Option<i64> {
        /// The first whole number whose neighbours a `double` does not tell apart.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match &self.value {
            Value::Float(number) if number.fract() == 0.0 && number.abs() < EXACT => {
                Some(*number as i64)
            }
            _ => self.as_integer(),
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The value under a string key, if it is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key)
    }

    /// The value down a list of string keys.
    #[must_use]
    pub fn at(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// A scalar as text, as Python's `str` gives it; `None` for lists and maps.
    #[must_use]
    pub fn scalar_text(&self) -> Option<Cow<'_, str>> {
        self.value.scalar_text()
    }

    /// Whether it, and everything below it, is secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// Whether it is secret, or something below it.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.is_secret()
            || match &self.value {
                Value::List(list) => list.iter().any(Self::has_secret),
                Value::Map(map) => map.iter().any(|(_, field)| field.node.has_secret()),
                _ => false,
            }
    }

    /// Makes it and each value below it secret, so that a part taken out of it stays secret.
    pub fn hide(&mut self, origin: &SecretOrigin) {
        self.secret = Some(origin.clone());
        match &mut self.value {
            Value::List(list) => {
                let items = Arc::make_mut(list).iter_mut();
                items.for_each(|item| item.hide(origin));
            }
            Value::Map(map) => {
                let fields = Arc::make_mut(map).iter_mut();
                fields.for_each(|(_, field)| field.node.hide(origin));
            }
            _ => {}
        }
    }
}

impl Value {
    /// A string.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// Its kind, for the text of a diagnostic.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Integer(_) | Self::BigInteger(_) => "integer",
            Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::Timestamp(_) => "date",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// The type with its article (`an integer`, `a map`, `null`).
    #[must_use]
    pub fn type_phrase(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::BigInteger(_) => "an integer",
            Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Timestamp(_) => "a date",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// A scalar as text, as Python's `str` gives it; `None` for lists and maps.
    #[must_use]
    pub fn scalar_text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Null => Cow::Borrowed("None"),
            Self::Bool(true) => Cow::Borrowed("True"),
            Self::Bool(false) => Cow::Borrowed("False"),
            Self::Integer(number) => Cow::Owned(number.to_string()),
            Self::BigInteger(text) | Self::String(text) | Self::Timestamp(text) => {
                Cow::Borrowed(text)
            }
            Self::Float(number) => Cow::Owned(python_float(*number)),
            Self::List(_) | Self::Map(_) => return None,
        })
    }
}

/// A float as Python's `repr` writes it (`1.0`, `1e+16`, `inf`).
#[must_use]
pub fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{number:?}")
}

impl PartialEq for Node {
    /// Equal values; where they were written does not count.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::BigInteger(a), Self::BigInteger(b))
            | (Self::String(a), Self::String(b))
            | (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl PartialEq for Map {
    /// Equal keys with equal values; the order of the keys does not count.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, field)| {
                other
                    .field_by_key(key)
                    .is_some_and(|their| their.node == field.node)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        let written: Vec<_> = [1.0, 0.1, 1e16, 1e-5, 123_456.789, -2.5e300, 1e22]
            .into_iter()
            .map(python_float)
            .collect();
        assert_eq!(
            written,
            [
                "1.0",
                "0.1",
                "1e+16",
                "1e-05",
                "123456.789",
                "-2.5e+300",
                "1e+22"
            ]
        );
    }
}
