//! Values of documents as the validator reads them, in place.
//!
//! The validator walks [`Node`]s themselves, so validating copies nothing. Dates count as strings, a
//! key that is no string counts by its text if fields are counted, but is never looked up.
//!
//! A schema of a site that refers to itself can visit a value more often than any machine can. Each
//! visit is counted, and where the [`Budget`] is spent a value has nothing below it any more, so that
//! the validator comes to its end; what it found is of no use then.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node as JsonNode, NodeIdentity, Object};

use crate::diagnostic::{Mark, SourceId};
use crate::document::{Entries, Map, Node, Value};
use crate::render::search_cost;

/// The cost of a check of a text, beside the visit of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Whatever the text is.
    pub(super) any: u64,
    /// The size of the pattern that may be searched for.
    pub(super) pattern: u64,
}

impl Look {
    fn cost(self, text: &str) -> u64 {
        let search = search_cost(self.pattern, text.len());
        self.any.saturating_add(search)
    }
}

/// How often values may be visited yet.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    whole: u64,
    text: Look,
    key: Look,
    /// The data of the document where it was copied, which is done once whatever is left.
    copied: OnceCell<serde_json::Value>,
    root: usize,
}

impl Budget {
    /// Bytes of a text that count as one visit more.
    const BYTES: usize = 64;

    pub(super) fn new(visits: u64, data: &Node, text: Look, key: Look) -> Self {
        Self {
            left: Cell::new(visits),
            whole: visits,
            text,
            key,
            copied: OnceCell::new(),
            root: address(data),
        }
    }

    /// How many visits were taken.
    pub(super) fn spent(&self) -> u64 {
        self.whole - self.left.get()
    }

    /// Whether more was asked for than there was.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Takes so many visits; whether there were as many.
    fn spend(&self, visits: u64) -> bool {
        self.left.set(self.left.get().saturating_sub(visits));
        !self.is_spent()
    }
}

/// A value for the validator; without a budget it may be visited without limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visited<'a> {
    node: &'a Node,
    budget: Option<&'a Budget>,
}

impl<'a> Visited<'a> {
    pub(super) fn new(node: &'a Node, budget: Option<&'a Budget>) -> Self {
        Self { node, budget }
    }

    fn may_go_on(&self, visits: u64) -> bool {
        self.budget.is_none_or(|budget| budget.spend(visits))
    }
}

/// The representation of JSON by [`Node`]s.
#[derive(Debug)]
pub(super) struct Documents;

impl Json for Documents {
    type Node<'a> = Visited<'a>;
    type PreparedKey = String;
    type StringBuffer = Option<Node>;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Option<Node>,
        string: &str,
        read: impl FnOnce(Visited<'_>) -> T,
    ) -> T {
        let nowhere = Mark::new(SourceId(u32::MAX), 0);
        let node = buffer.insert(Node::new(Value::string(string), nowhere));
        read(Visited::new(node, None))
    }
}

impl<'a> JsonNode<'a, Documents> for Visited<'a> {
    type Object = Fields<'a>;
    type Array = Items<'a>;
    type Number = Number<'a>;

    fn as_object(&self) -> Option<Fields<'a>> {
        let map = self.node.as_map()?;
        self.may_go_on(1).then_some(Fields {
            map,
            budget: self.budget,
        })
    }

    fn as_array(&self) -> Option<Items<'a>> {
        let list = self.node.as_list()?;
        self.may_go_on(1).then_some(Items {
            list,
            budget: self.budget,
        })
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match &self.node.value {
            Value::String(text) | Value::Timestamp(text) => {
                let look = self.budget.map_or(0, |budget| budget.text.cost(text));
                let visits = (text.len() / Budget::BYTES) as u64;
                // Nothing is searched that there is no budget for.
                Some(Cow::Borrowed(
                    match self.may_go_on(look.saturating_add(visits)) {
                        true => text,
                        false => "",
                    },
                ))
            }
            _ => None,
        }
    }

    fn as_number(&self) -> Option<Number<'a>> {
        self.may_go_on(1);
        match &self.node.value {
            Value::Integer(number) => Some(Number::Integer(*number)),
            Value::BigInteger(digits) => Some(Number::Big(digits)),
            Value::Float(number) => Some(Number::Float(*number)),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        self.may_go_on(1);
        self.node.as_bool()
    }

    fn is_null(&self) -> bool {
        self.may_go_on(1);
        self.node.is_null()
    }

    fn json_type(&self) -> JsonType {
        self.may_go_on(1);
        match &self.node.value {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Integer(_) | Value::BigInteger(_) | Value::Float(_) => JsonType::Number,
            Value::String(_) | Value::Timestamp(_) => JsonType::String,
            Value::List(_) => JsonType::Array,
            Value::Map(_) => JsonType::Object,
        }
    }

    fn to_value(&self) -> Cow<'a, serde_json::Value> {
        let size = || value_count(self.node);
        match self.budget {
            // The validator takes it for granted that the place of an error is in the whole.
            Some(budget) if budget.root == address(self.node) => {
                budget.spend(1);
                Cow::Borrowed(budget.copied.get_or_init(|| to_json(self.node)))
            }
            // Nothing else is copied that there is no budget for.
            Some(budget) if !budget.spend(size()) => Cow::Owned(serde_json::Value::Null),
            _ => Cow::Owned(to_json(self.node)),
        }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(address(self.node)))
    }
}

/// A map for the validator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    map: &'a Map,
    budget: Option<&'a Budget>,
}

impl<'a> Object<'a, Documents> for Fields<'a> {
    type Node = Visited<'a>;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.map.len()
    }

    fn get(&self, key: &String) -> Option<Visited<'a>> {
        let node = self.map.get(key)?;
        Some(Visited::new(node, self.budget))
    }

    fn members(&self) -> Members<'a> {
        Members {
            entries: self.map.iter(),
            budget: self.budget,
        }
    }
}

/// The fields of a map as the validator goes through them.
#[derive(Debug)]
pub(super) struct Members<'a> {
    entries: Entries<'a>,
    budget: Option<&'a Budget>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Visited<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, field) = self.entries.next()?;
        let look = |budget: &Budget| budget.key.cost(&key.text).saturating_add(1);
        if self
            .budget
            .is_some_and(|budget| !budget.spend(look(budget)))
        {
            return None;
        }
        Some((&*key.text, Visited::new(&field.node, self.budget)))
    }
}

/// A list for the validator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items<'a> {
    list: &'a [Node],
    budget: Option<&'a Budget>,
}

impl<'a> Array<'a, Documents> for Items<'a> {
    type Node = Visited<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        self.list.len()
    }

    fn elements(&self) -> Elements<'a> {
        Elements {
            items: self.list.iter(),
            budget: self.budget,
        }
    }
}

/// The items of a list as the validator goes through them.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    items: std::slice::Iter<'a, Node>,
    budget: Option<&'a Budget>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Visited<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.budget.is_some_and(|budget| !budget.spend(1)) {
            return None;
        }
        let node = self.items.next()?;
        Some(Visited::new(node, self.budget))
    }
}

/// Where a value is in memory.
fn address(node: &Node) -> usize {
    std::ptr::from_ref(node) as usize
}

/// How many values there are in a value, itself among them.
pub(super) fn value_count(node: &Node) -> u64 {
    1 + match &node.value {
        Value::Map(map) => map.iter().map(|(_, field)| value_count(&field.node)).sum(),
        Value::List(list) => list.iter().map(value_count).sum(),
        Value::String(text) => (text.len() / Budget::BYTES) as u64,
        _ => 0,
    }
}

/// A number of a document.
#[derive(Debug)]
pub(super) enum Number<'a> {
    Integer(i64),
    Big(&'a Arc<str>),
    Float(f64),
}

impl JsonNumber for Number<'_> {
    fn as_u64(&self) -> Option<u64> {
        match self {
            Number::Integer(number) => (*number).try_into().ok(),
            Number::Big(digits) => digits.parse().ok(),
            Number::Float(_) => None,
        }
    }

    fn as_i64(&self) -> Option<i64> {
        match self {
            Number::Integer(number) => Some(*number),
            Number::Big(_) | Number::Float(_) => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match self {
            Number::Integer(number) => Some(*number as f64),
            Number::Big(digits) => digits.parse().ok(),
            Number::Float(number) => Some(*number),
        }
    }

    fn as_str(&self) -> Cow<'_, str> {
        match self {
            Number::Integer(number) => Cow::Owned(number.to_string()),
            Number::Big(digits) => Cow::Borrowed(digits),
            Number::Float(number) => Cow::Owned(number.to_string()),
        }
    }

    fn to_number(&self) -> Cow<'_, serde_json::Number> {
        Cow::Owned(match self {
            Number::Integer(number) => (*number).into(),
            Number::Big(digits) => big(digits),
            Number::Float(number) => float(*number),
        })
    }

    fn is_integer(&self) -> bool {
        match self {
            Number::Integer(_) | Number::Big(_) => true,
            Number::Float(number) => number.is_finite() && number.fract() == 0.0,
        }
    }

    fn is_written_as_integer(&self) -> bool {
        !matches!(self, Number::Float(_))
    }
}

fn float(number: f64) -> serde_json::Number {
    serde_json::Number::from_f64(number).unwrap_or_else(|| 0.into())
}

fn big(digits: &str) -> serde_json::Number {
    match digits.parse::<u64>() {
        Ok(number) => number.into(),
        Err(_) => float(digits.parse().unwrap_or(f64::MAX)),
    }
}

/// A value as JSON, as schemas have to be.
pub(super) fn to_json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Integer(number) => (*number).into(),
        Value::BigInteger(digits) => serde_json::Value::Number(big(digits)),
        Value::Float(number) => serde_json::Value::Number(float(*number)),
        Value::String(text) | Value::Timestamp(text) => (&**text).into(),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(map) => map
            .iter()
            .map(|(key, field)| (key.text.to_string(), to_json(&field.node)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}
