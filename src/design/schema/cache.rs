//! The valid documents that several sites have in common, so that each is checked once.
//!
//! Data that a rendering shares between sites are at one place in memory. A DataSchema that is used without a remark, and
//! data that agree with all schemas of their kind, are kept under that place. The visits that a check took are kept too, so that
//! a site has as many left as if it had been checked alone.

use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Schema, Taken};
use crate::diagnostic::SourceId;
use crate::document::{Document, Map, Node, Value};
use crate::threads::lock;

/// Schemas and valid data in sources that several sites share.
#[derive(Default)]
pub struct SchemaCache {
    shared: FxHashSet<SourceId>,
    schemas: Mutex<FxHashMap<usize, KnownSchema>>,
    valid: Mutex<FxHashMap<usize, Valid>>,
}

/// A DataSchema that is compiled.
#[derive(Clone)]
struct KnownSchema {
    /// Its data, whose place in memory so stays theirs.
    _data: Arc<Map>,
    schema: Arc<Schema>,
    parts: u64,
}

/// Data that agree with some schemas.
struct Valid {
    _data: Arc<Map>,
    schemas: Vec<Arc<Schema>>,
    taken: Taken,
}

impl std::fmt::Debug for SchemaCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchemaCache").finish_non_exhaustive()
    }
}

fn place(data: &Arc<Map>) -> usize {
    Arc::as_ptr(data).addr()
}

fn is_same(one: &[Arc<Schema>], other: &[Arc<Schema>]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| Arc::ptr_eq(one, other))
}

impl SchemaCache {
    /// Keeps what is found right in a source.
    pub fn share(&mut self, source: SourceId) {
        self.shared.insert(source);
    }

    /// The data of a document, if others may have the same.
    fn shared<'n>(&self, document: &Document, data: &'n Node) -> Option<&'n Arc<Map>> {
        match &data.value {
            Value::Map(map) if self.shared.contains(&document.mark.source) => Some(map),
            _ => None,
        }
    }

    /// A DataSchema as it was compiled, and how many parts it has.
    pub(super) fn schema(&self, document: &Document, data: &Node) -> Option<(Arc<Schema>, u64)> {
        let data = self.shared(document, data)?;
        let known = lock(&self.schemas).get(&place(data)).cloned()?;
        Some((known.schema, known.parts))
    }

    /// Keeps a DataSchema without remarks; the schema is the one that was kept first.
    pub(super) fn keep_schema(
        &self,
        document: &Document,
        data: &Node,
        (schema, parts): (Arc<Schema>, u64),
    ) -> Arc<Schema> {
        let Some(data) = self.shared(document, data) else {
            return schema;
        };
        let mut schemas = lock(&self.schemas);
        let known = schemas.entry(place(data)).or_insert_with(|| KnownSchema {
            _data: data.clone(),
            schema,
            parts,
        });
        known.schema.clone()
    }

    /// The visits that a check took which found nothing.
    pub(super) fn taken(
        &self,
        document: &Document,
        data: &Node,
        schemas: &[Arc<Schema>],
    ) -> Option<Taken> {
        let data = self.shared(document, data)?;
        let valid = lock(&self.valid);
        let valid = valid.get(&place(data))?;
        is_same(&valid.schemas, schemas).then_some(valid.taken)
    }

    /// Keeps a check that found nothing.
    pub(super) fn keep(
        &self,
        document: &Document,
        data: &Node,
        schemas: &[Arc<Schema>],
        taken: Taken,
    ) {
        let Some(data) = self.shared(document, data) else {
            return;
        };
        let valid = Valid {
            _data: data.clone(),
            schemas: schemas.to_vec(),
            taken,
        };
        lock(&self.valid).insert(place(data), valid);
    }
}
