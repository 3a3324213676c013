//! Values to Rust types through serde, with the place of whatever does not fit.
//!
//! Reading is strict: an integer is no string, a date is no string, `"1"` is no number (a date is
//! given to a type that takes anything, as its text). [`Marked`] keeps the place of a part. Messages
//! name types, and values only if they are no secret.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::{Entries, Field, Key, Node, Value};
use crate::diagnostic::{Diagnostic, Mark, SourceId, nearest};

/// Deepest nesting that is followed.
const DEPTH: usize = 500;
const MARKED: &str = "\0trueup marked";
const MARKED_FIELDS: &[&str] = &["mark", "value"];

/// A value that does not have the form of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeMismatch {
    /// Where: the value, or the key that should not be there.
    pub mark: Mark,
    /// The problem, in the form of a diagnostic's message.
    pub message: String,
    /// The way out, if there is one.
    pub hint: Option<String>,
}

impl TypeMismatch {
    /// The same as an error with a code.
    #[must_use]
    pub fn into_diagnostic(self, code: &'static str) -> Diagnostic {
        let diagnostic = Diagnostic::error(code, self.mark, self.message);
        match self.hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

/// Reads a type from a value.
///
/// # Errors
///
/// The first thing that does not fit, with its place.
pub fn from_node<'de, T: Deserialize<'de>>(node: &'de Node) -> Result<T, TypeMismatch> {
    let reader = Reader::of(node);
    T::deserialize(reader).map_err(|problem| {
        let problem = problem.at(node.mark, node.is_secret());
        TypeMismatch {
            mark: problem.mark.unwrap_or(node.mark),
            message: problem.message,
            hint: problem.hint,
        }
    })
}

/// A part of a type that remembers where it was written. Only [`from_node`] can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marked<T> {
    /// Where the value was written.
    pub mark: Mark,
    /// The value.
    pub value: T,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Marked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MarkedVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for MarkedVisitor<T> {
            type Value = Marked<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with a place")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Marked<T>, A::Error> {
                let missing = || de::Error::custom("a part of a marked value is missing");
                let (source, offset) = parts.next_element()?.ok_or_else(missing)?;
                let value = parts.next_element()?.ok_or_else(missing)?;
                let mark = Mark::new(SourceId(source), offset);
                Ok(Marked { mark, value })
            }
        }

        let visitor = MarkedVisitor(std::marker::PhantomData);
        deserializer.deserialize_struct(MARKED, MARKED_FIELDS, visitor)
    }
}

/// A problem, until its place is known.
#[derive(Debug)]
struct Problem {
    mark: Option<Mark>,
    message: String,
    /// The message if the value is secret; `None` if the message shows no value.
    without_value: Option<String>,
    hint: Option<String>,
}

impl Problem {
    fn new(message: String) -> Self {
        Self {
            mark: None,
            message,
            without_value: None,
            hint: None,
        }
    }

    /// Gives it its place, unless it has one further inside.
    fn at(mut self, mark: Mark, secret: bool) -> Self {
        if self.mark.is_none() {
            self.mark = Some(mark);
        }
        if secret && let Some(message) = self.without_value.take() {
            self.message = message;
            self.hint = None;
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            without_value: Some("this secret value does not fit here".to_owned()),
            ..Self::new(message.to_string())
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
            Unexpected::Float(_) => "a number with a fraction",
            Unexpected::Str(_) => "a string",
            Unexpected::Unit | Unexpected::Option => "null",
            Unexpected::Seq => "a list",
            Unexpected::Map => "a map",
            Unexpected::Other(other) => other,
            _ => "something else",
        };
        let mut problem = Self::new(format!("expected {expected}, this is {found}"));
        let scalar = matches!(found, "a boolean" | "an integer" | "a date")
            || found == "a number with a fraction";
        if scalar && expected.to_string().contains("string") {
            problem.hint = Some("put it in quotes".to_owned());
        }
        problem
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self {
            without_value: Some(format!("expected {expected}, this secret value is none")),
            ..Self::new(format!("expected {expected}, this is {found}"))
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let known = list(expected);
        Self {
            without_value: Some(format!("this secret value is none of {known}")),
            hint: meant(variant, expected),
            ..Self::new(format!("`{variant}` is none of {known}"))
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let near = meant(field, expected);
        let known =
            || Some(format!("there are {}", list(expected))).filter(|_| !expected.is_empty());
        Self {
            without_value: Some("this key of a secret is not known here".to_owned()),
            hint: near.or_else(known),
            ..Self::new(format!("`{field}` is not known here"))
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is there twice"))
    }
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn meant(wrong: &str, names: &[&str]) -> Option<String> {
    nearest(wrong, names.iter().copied()).map(|near| format!("did you mean `{near}`?"))
}

/// A node on the way into a type.
#[derive(Clone, Copy)]
struct Reader<'de> {
    node: &'de Node,
    secret: bool,
    depth: usize,
}

impl<'de> Reader<'de> {
    fn of(node: &'de Node) -> Self {
        Self {
            node,
            secret: node.is_secret(),
            depth: 0,
        }
    }

    fn below(&self, node: &'de Node) -> Self {
        Self {
            node,
            secret: self.secret || node.is_secret(),
            depth: self.depth + 1,
        }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if self.depth > DEPTH {
            return Err(Problem::new("the value is nested too deeply".to_owned()));
        }
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::BigInteger(digits) => match (digits.parse(), digits.parse(), digits.parse()) {
                (Ok(number), _, _) => visitor.visit_u64(number),
                (_, Ok(number), _) => visitor.visit_i128(number),
                (_, _, Ok(number)) => visitor.visit_f64(number),
                _ => Err(de::Error::invalid_type(
                    Unexpected::Other("an integer"),
                    &visitor,
                )),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::String(text) | Value::Timestamp(text) => visitor.visit_borrowed_str(text),
            Value::List(list) => {
                let mut items = Items {
                    parent: self,
                    items: list.iter(),
                };
                let value = visitor.visit_seq(&mut items)?;
                match items.items.len() {
                    0 => Ok(value),
                    more => Err(Problem::new(format!(
                        "the list has {more} entries too many"
                    ))),
                }
            }
            Value::Map(map) => visitor.visit_map(Fields {
                parent: self,
                fields: map.iter(),
                current: None,
            }),
        }
    }

    /// Visits, and says where if something does not fit.
    fn visit_here<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.visit(visitor)
            .map_err(|problem| problem.at(self.node.mark, self.secret))
    }

    fn visit_text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        if matches!(self.node.value, Value::Timestamp(_)) {
            let problem: Problem = de::Error::invalid_type(Unexpected::Other("a date"), &visitor);
            return Err(problem.at(self.node.mark, self.secret));
        }
        self.visit_here(visitor)
    }
}

/// The methods for integers, which `2.0` is to a schema, too.
macro_rules! deserialize_whole_numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            match (&self.node.value, self.node.whole_number()) {
                (Value::Float(_), Some(number)) => visitor
                    .visit_i64(number)
                    .map_err(|problem: Problem| problem.at(self.node.mark, self.secret)),
                _ => self.visit_here(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.visit_here(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.visit_text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.visit_text(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let result = visitor.visit_newtype_struct(self);
        result.map_err(|problem| problem.at(self.node.mark, self.secret))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        if name == MARKED {
            let parts = MarkedParts {
                reader: self,
                given: 0,
            };
            return visitor.visit_seq(parts);
        }
        self.visit_here(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let result = match &self.node.value {
            Value::String(text) => {
                visitor.visit_enum(BorrowedStrDeserializer::<Problem>::new(text))
            }
            Value::Map(map) if map.len() == 1 => {
                let fields = Fields {
                    parent: self,
                    fields: map.iter(),
                    current: None,
                };
                visitor.visit_enum(de::value::MapAccessDeserializer::new(fields))
            }
            _ => self.visit(visitor),
        };
        result.map_err(|problem| problem.at(self.node.mark, self.secret))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }

    deserialize_whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct map identifier
    }
}

struct Items<'de> {
    parent: Reader<'de>,
    items: std::slice::Iter<'de, Node>,
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Problem> {
        let Some(item) = self.items.next() else {
            return Ok(None);
        };
        let reader = self.parent.below(item);
        let value = seed.deserialize(reader);
        value
            .map(Some)
            .map_err(|problem| problem.at(item.mark, reader.secret))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields<'de> {
    parent: Reader<'de>,
    fields: Entries<'de>,
    current: Option<&'de Field>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Problem> {
        let Some((key, field)) = self.fields.next() else {
            return Ok(None);
        };
        self.current = Some(field);
        let value = seed.deserialize(KeyReader { key });
        value
            .map(Some)
            .map_err(|problem| problem.at(field.key_mark, self.parent.secret))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        let Some(field) = self.current.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let reader = self.parent.below(&field.node);
        let value = seed.deserialize(reader);
        value.map_err(|problem| problem.at(field.node.mark, reader.secret))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

/// A key on the way into a type.
struct KeyReader<'de> {
    key: &'de Key,
}

impl<'de> Deserializer<'de> for KeyReader<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.key.to_value() {
            Value::String(_) | Value::Timestamp(_) => visitor.visit_borrowed_str(&self.key.text),
            Value::Bool(truth) => visitor.visit_bool(truth),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Null => visitor.visit_unit(),
            _ => Err(de::Error::invalid_type(
                Unexpected::Other("a large integer"),
                &visitor,
            )),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_enum(BorrowedStrDeserializer::<Problem>::new(&self.key.text))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The two parts of a [`Marked`].
struct MarkedParts<'de> {
    reader: Reader<'de>,
    given: usize,
}

impl<'de> SeqAccess<'de> for MarkedParts<'de> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Problem> {
        self.given += 1;
        match self.given {
            1 => {
                let mark = self.reader.node.mark;
                let numbers = [mark.source.0, mark.offset].into_iter();
                let parts = de::value::SeqDeserializer::<_, Problem>::new(numbers);
                seed.deserialize(parts).map(Some)
            }
            2 => seed.deserialize(self.reader).map(Some),
            _ => Ok(None),
        }
    }
}
