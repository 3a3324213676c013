//! Values of documents as the validator reads them, in place.
//!
//! The validator walks [`Node`]s themselves, so validating copies nothing. Dates count as strings, a
//! key that is no string counts by its text where fields are counted, but is never looked up.

use std::borrow::Cow;
use std::sync::Arc;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node as JsonNode, NodeIdentity, Object};

use crate::diagnostic::{Mark, SourceId};
use crate::document::{Entries, Map, Node, Value};

/// The representation of JSON by [`Node`]s.
#[derive(Debug)]
pub(super) struct Documents;

impl Json for Documents {
    type Node<'a> = &'a Node;
    type PreparedKey = String;
    type StringBuffer = Option<Node>;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Option<Node>,
        string: &str,
        read: impl FnOnce(&Node) -> T,
    ) -> T {
        let nowhere = Mark::new(SourceId(u32::MAX), 0);
        read(buffer.insert(Node::new(Value::string(string), nowhere)))
    }
}

impl<'a> JsonNode<'a, Documents> for &'a Node {
    type Object = &'a Map;
    type Array = &'a [Node];
    type Number = Number<'a>;

    fn as_object(&self) -> Option<&'a Map> {
        self.as_map()
    }

    fn as_array(&self) -> Option<&'a [Node]> {
        self.as_list()
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match &self.value {
            Value::String(text) | Value::Timestamp(text) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    fn as_number(&self) -> Option<Number<'a>> {
        match &self.value {
            Value::Integer(number) => Some(Number::Integer(*number)),
            Value::BigInteger(digits) => Some(Number::Big(digits)),
            Value::Float(number) => Some(Number::Float(*number)),
            _ => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        self.as_bool()
    }

    fn is_null(&self) -> bool {
        Node::is_null(self)
    }

    fn json_type(&self) -> JsonType {
        match &self.value {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Integer(_) | Value::BigInteger(_) | Value::Float(_) => JsonType::Number,
            Value::String(_) | Value::Timestamp(_) => JsonType::String,
            Value::List(_) => JsonType::Array,
            Value::Map(_) => JsonType::Object,
        }
    }

    fn to_value(&self) -> Cow<'a, serde_json::Value> {
        Cow::Owned(to_json(self))
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref::<Node>(self) as usize))
    }
}

impl<'a> Object<'a, Documents> for &'a Map {
    type Node = &'a Node;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        Map::len(self)
    }

    fn get(&self, key: &String) -> Option<&'a Node> {
        Map::get(self, key)
    }

    fn members(&self) -> Members<'a> {
        Members(self.iter())
    }
}

/// The fields of a map as the validator goes through them.
#[derive(Debug)]
pub(super) struct Members<'a>(Entries<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a Node);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, field)| (&*key.text, &field.node))
    }
}

impl<'a> Array<'a, Documents> for &'a [Node] {
    type Node = &'a Node;
    type ElementsIter = std::slice::Iter<'a, Node>;

    fn len(&self) -> usize {
        <[Node]>::len(self)
    }

    fn elements(&self) -> std::slice::Iter<'a, Node> {
        self.iter()
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
