//! The cost of a schema of a site, before it is compiled.
//!
//! A schema of a few lines whose definitions refer to each other twice stands for one that is written out
//! over millions, and each of its parts is gone through for each value that it is held against. So a
//! schema is measured as if every reference were written out, the same way that a validator goes through it:
//! a definition that nothing refers to costs nothing, one that is referred to twice costs twice. If a
//! reference comes back to a schema that is being measured, a value below has been reached meanwhile, and
//! the budget of visits ends what comes of that; if none has, the schema never ends, and is refused.

use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use super::references::{is_meta_schema, target};
use crate::render::pattern_size;

/// The most parts of a schema with its references written out.
pub(super) const MOST_PARTS: u64 = 20_000;

/// The most schemas inside each other with their references written out.
const DEEPEST: usize = 250;

/// The most references that are followed without a step down into the value.
const MOST_IN_PLACE: usize = 30;

/// The cost of a pattern: compiled, it is as large as many plain parts.
const PATTERN: u64 = 50;

/// The cost of a reference to the schema of schemas.
const META_SCHEMA: u64 = 200;

/// The patterns of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patterns {
    /// The size of the largest that a text is held against.
    pub(super) text: u64,
    /// How many a key is held against at most, and their size.
    pub(super) keys: u64,
    pub(super) key: u64,
}

impl Patterns {
    /// Those of a schema, wherever they stand in it.
    pub(super) fn of(schema: &Json) -> Self {
        let mut patterns = Self::default();
        patterns.add(schema);
        patterns
    }

    fn add(&mut self, schema: &Json) {
        match schema {
            Json::Array(list) => list.iter().for_each(|below| self.add(below)),
            Json::Object(fields) => {
                if let Some(pattern) = fields.get("pattern").and_then(Json::as_str) {
                    self.text = self.text.max(pattern_size(pattern));
                }
                if let Some(keys) = fields.get("patternProperties").and_then(Json::as_object) {
                    let sizes = keys.keys().map(|pattern| pattern_size(pattern));
                    self.key = self.key.max(sizes.fold(0, u64::saturating_add));
                    self.keys = self.keys.max(keys.len() as u64);
                }
                fields.values().for_each(|below| self.add(below));
            }
            _ => {}
        }
    }
}

/// Why a schema is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// Written out it is larger than is allowed; the reference that makes it so, if it is one.
    Parts(Option<String>),
    /// The schema behind a reference begins with itself.
    Endless(String),
    /// The reference, if it is one, leads deeper than is allowed.
    Depth(Option<String>),
}

/// The number of parts of a schema.
pub(super) fn parts(schema: &Json) -> Result<u64, TooMuch> {
    let mut measure = Measure {
        whole: schema,
        known: FxHashMap::default(),
        open: Vec::new(),
        depth: 0,
        steps_down: 0,
        in_place: 0,
    };
    let parts = measure.schema(schema)?;
    match parts {
        0..=MOST_PARTS => Ok(parts),
        _ => Err(TooMuch::Parts(None)),
    }
}

struct Measure<'a> {
    whole: &'a Json,
    known: FxHashMap<&'a str, u64>,
    /// References that are followed, each with the steps down into the value that were taken before.
    open: Vec<(&'a str, usize)>,
    depth: usize,
    steps_down: usize,
    in_place: usize,
}

impl<'a> Measure<'a> {
    fn schema(&mut self, schema: &'a Json) -> Result<u64, TooMuch> {
        let Some(fields) = schema.as_object() else {
            return Ok(1);
        };
        if self.depth >= DEEPEST {
            return Err(TooMuch::Depth(self.reference()));
        }
        self.depth += 1;
        let parts = match fields.get("$ref").and_then(Json::as_str) {
            // What stands beside a reference counts for nothing in draft 4.
            Some(reference) => self.behind(reference)?,
            None => {
                let mut parts: u64 = 1;
                for (keyword, value) in fields {
                    parts = parts.saturating_add(self.keyword(keyword, value)?);
                }
                parts
            }
        };
        self.depth -= 1;
        Ok(parts)
    }

    fn keyword(&mut self, keyword: &str, value: &'a Json) -> Result<u64, TooMuch> {
        match keyword {
            "definitions" | "$defs" => Ok(0),
            "pattern" => Ok(PATTERN),
            "allOf" | "anyOf" | "oneOf" | "not" => self.below(value),
            "dependencies" => self.of_each(value),
            "patternProperties" => {
                let patterns = value.as_object().map_or(0, serde_json::Map::len) as u64;
                let parts = self.down(|measure| measure.of_each(value))?;
                Ok(parts.saturating_add(patterns * PATTERN))
            }
            "properties" => self.down(|measure| measure.of_each(value)),
            "items" | "additionalItems" | "additionalProperties" => {
                self.down(|measure| measure.below(value))
            }
            _ => Ok(values(value)),
        }
    }

    /// A schema, or a list of schemas.
    fn below(&mut self, value: &'a Json) -> Result<u64, TooMuch> {
        match value {
            Json::Array(list) => self.sum(list.iter()),
            one => self.schema(one),
        }
    }

    /// A map of schemas.
    fn of_each(&mut self, value: &'a Json) -> Result<u64, TooMuch> {
        match value {
            Json::Object(map) => self.sum(map.values()),
            _ => Ok(1),
        }
    }

    fn sum(&mut self, schemas: impl Iterator<Item = &'a Json>) -> Result<u64, TooMuch> {
        let mut parts: u64 = 0;
        for schema in schemas {
            parts = parts.saturating_add(self.schema(schema)?);
        }
        Ok(parts)
    }

    /// The part that is checked against a value below.
    fn down(
        &mut self,
        measure: impl FnOnce(&mut Self) -> Result<u64, TooMuch>,
    ) -> Result<u64, TooMuch> {
        let in_place = std::mem::take(&mut self.in_place);
        self.steps_down += 1;
        let parts = measure(self)?;
        self.steps_down -= 1;
        self.in_place = in_place;
        Ok(parts)
    }

    fn behind(&mut self, reference: &'a str) -> Result<u64, TooMuch> {
        if is_meta_schema(reference) {
            return Ok(META_SCHEMA);
        }
        if let Some((_, steps)) = self.open.iter().find(|(open, _)| *open == reference) {
            return match *steps == self.steps_down {
                true => Err(TooMuch::Endless(reference.to_owned())),
                false => Ok(1),
            };
        }
        if let Some(parts) = self.known.get(reference) {
            return Ok(*parts);
        }
        let Some(target) = target(reference, self.whole) else {
            return Ok(1);
        };
        if self.in_place >= MOST_IN_PLACE {
            return Err(TooMuch::Depth(Some(reference.to_owned())));
        }
        self.open.push((reference, self.steps_down));
        self.in_place += 1;
        let parts = self.schema(target)?.saturating_add(1);
        self.in_place -= 1;
        self.open.pop();
        if parts > MOST_PARTS {
            return Err(TooMuch::Parts(Some(reference.to_owned())));
        }
        self.known.insert(reference, parts);
        Ok(parts)
    }

    /// The reference that is followed.
    fn reference(&self) -> Option<String> {
        self.open.last().map(|(open, _)| (*open).to_owned())
    }
}

/// How many values there are in what is only compared with.
fn values(value: &Json) -> u64 {
    1 + match value {
        Json::Array(list) => list.iter().map(values).sum(),
        Json::Object(map) => map.values().map(values).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_count_as_if_they_were_written_out() {
        let one = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert_eq!(parts(&one), Ok(4));
        let twice = json!({
            "definitions": {"d": {"type": "string"}, "unused": {"enum": [1, 2, 3]}},
            "anyOf": [{"$ref": "#/definitions/d"}, {"$ref": "#/definitions/d"}],
        });
        assert_eq!(parts(&twice), Ok(7));
    }

    #[test]
    fn a_schema_that_refers_to_itself_below_a_value_is_measured_and_one_in_its_place_is_refused() {
        let tree = json!({"properties": {"below": {"type": "array", "items": {"$ref": "#"}}}});
        assert!(parts(&tree).is_ok());
        for endless in [
            json!({"anyOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/definitions/a", "definitions": {
                "a": {"allOf": [{"$ref": "#/definitions/b"}]}, "b": {"not": {"$ref": "#/definitions/%61"}}}}),
        ] {
            assert!(
                matches!(parts(&endless), Err(TooMuch::Endless(_))),
                "{endless}"
            );
        }
    }

    #[test]
    fn chains_of_references_that_double_or_never_end_are_refused() {
        let chain = |length: usize, times: usize| {
            let name = |at: usize| json!({"$ref": format!("#/definitions/d{at}")});
            let mut definitions = serde_json::Map::new();
            for at in 0..length {
                let next = json!({"anyOf": vec![name(at + 1); times]});
                definitions.insert(format!("d{at}"), next);
            }
            definitions.insert(format!("d{length}"), json!({"type": "string"}));
            json!({"$ref": "#/definitions/d0", "definitions": definitions})
        };
        assert!(parts(&chain(5, 2)).is_ok());
        assert!(matches!(parts(&chain(22, 2)), Err(TooMuch::Parts(Some(_)))));
        assert!(matches!(
            parts(&chain(100, 1)),
            Err(TooMuch::Depth(Some(_)))
        ));
    }
}
