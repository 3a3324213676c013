//! Events of the YAML parser to values with marks.
//!
//! Nothing recurses: open lists and maps are on a stack of their own, whose height is limited. An
//! alias shares what its anchor built. No tag constructs anything; only those of YAML's core are
//! honoured.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, ScalarStyle, Tag};

use super::scalar;
use super::{Field, Key, KeyKind, Limits, Map, Node, Value, python_float};
use crate::diagnostic::{Diagnostic, Diagnostics, Mark, Severity};

/// The document cannot be read further; the reason was reported.
#[derive(Debug)]
pub(super) struct Abandoned;

enum Pending {
    /// A key comes next.
    None,
    /// The value of this key comes next.
    Key(Key, Mark),
    /// The value of a merge key comes next.
    Merge(Mark),
    /// A value comes next that belongs to no sound key.
    Skip,
}

enum Collection {
    List,
    Map {
        pending: Pending,
        merged: Option<(Mark, Map)>,
    },
}

struct Open {
    collection: Collection,
    /// Where its entries begin among those of all open collections.
    start: usize,
    mark: Mark,
    anchor: usize,
    size: Size,
}

/// How large a value is with all aliases written out.
#[derive(Clone, Copy)]
struct Size {
    /// Nodes; long texts count more.
    weight: usize,
    /// Lists and maps inside one another; a scalar has none.
    height: usize,
}

/// The code of a key that is twice in a map.
pub const DUPLICATE_KEY: &str = "yaml-duplicate-key";

/// Builds the values of the documents of one file, one after the other.
pub(super) struct Builder<'a> {
    limits: &'a Limits,
    diagnostics: Diagnostics,
    errors: usize,
    warnings: usize,
    stack: Vec<Open>,
    /// Entries of the open lists, the outermost first; taken out at once when a list ends, so that
    /// it is allocated once and in its size.
    items: Vec<Node>,
    /// Fields of the open maps, in the same way.
    fields: Vec<(Key, Field)>,
    anchors: HashMap<usize, (Node, Size)>,
    /// Values of all documents, and those that their aliases stand for.
    values: usize,
    expanded: usize,
    texts: Texts,
    root: Option<Node>,
}

impl<'a> Builder<'a> {
    /// For a file of so many bytes.
    pub(super) fn new(limits: &'a Limits, bytes: usize) -> Self {
        Self {
            limits,
            diagnostics: Diagnostics::new(),
            errors: 0,
            warnings: 0,
            stack: Vec::new(),
            items: Vec::new(),
            fields: Vec::new(),
            anchors: HashMap::new(),
            values: 0,
            expanded: 0,
            texts: Texts::sized(bytes),
            root: None,
        }
    }

    /// Adds a problem, unless there are too many already.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        let (count, what) = match diagnostic.severity {
            Severity::Error => (&mut self.errors, "errors"),
            Severity::Warning => (&mut self.warnings, "warnings"),
        };
        *count += 1;
        if *count <= self.limits.problems {
            self.diagnostics.push(diagnostic);
        } else if *count == self.limits.problems + 1
            && let Some(mark) = diagnostic.mark
        {
            let message = format!("more than {} {what} in this file", self.limits.problems);
            let mut last = Diagnostic::error("yaml-too-many-problems", mark, message);
            last.severity = diagnostic.severity;
            self.diagnostics.push(last);
        }
    }

    /// The problems found since the last call.
    pub(super) fn take_diagnostics(&mut self) -> Diagnostics {
        std::mem::take(&mut self.diagnostics)
    }

    /// Forgets what belongs to the last document.
    pub(super) fn begin_document(&mut self) {
        self.stack.clear();
        self.items.clear();
        self.fields.clear();
        self.anchors.clear();
        self.root = None;
    }

    /// The value of the document that has ended.
    pub(super) fn take_root(&mut self) -> Option<Node> {
        self.root.take()
    }

    /// The values of all documents so far, aliases written out.
    pub(super) fn values(&self) -> usize {
        self.values.saturating_add(self.expanded)
    }

    /// Counts a value; reported once.
    fn count(&mut self, mark: Mark) -> Result<(), Abandoned> {
        self.values += 1;
        let Some(over) = self.values.checked_sub(self.limits.values) else {
            return Ok(());
        };
        if over == 1 {
            let message = format!("file holds more than {} values", self.limits.values);
            self.report(Diagnostic::error("yaml-too-many-values", mark, message));
        }
        if over > 0 { Err(Abandoned) } else { Ok(()) }
    }

    /// Takes an event of a document's content.
    pub(super) fn event(&mut self, event: Event<'_>, mark: Mark) -> Result<(), Abandoned> {
        if matches!(
            event,
            Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
                | Event::Alias(_)
        ) {
            self.count(mark)?;
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let size = Size {
                    weight: 1 + text.len() / 64,
                    height: 0,
                };
                if style == ScalarStyle::Plain
                    && tag.is_none()
                    && &*text == "<<"
                    && let Some(pending) = self.expected_key()
                {
                    *pending = Pending::Merge(mark);
                    return Ok(());
                }
                let value = self.scalar(&text, style, tag.as_deref(), mark);
                let node = Node::new(value, mark);
                self.anchor(anchor, &node, size);
                self.place(node, size);
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", mark);
                self.open(Collection::List, anchor, mark)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", mark);
                let collection = Collection::Map {
                    pending: Pending::None,
                    merged: None,
                };
                self.open(collection, anchor, mark)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, mark)?,
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, collection: Collection, anchor: usize, mark: Mark) -> Result<(), Abandoned> {
        if self.stack.len() >= self.limits.depth {
            self.report(too_deep(self.limits, mark));
            return Err(Abandoned);
        }
        let start = match collection {
            Collection::List => self.items.len(),
            Collection::Map { .. } => self.fields.len(),
        };
        self.stack.push(Open {
            collection,
            start,
            mark,
            anchor,
            size: Size {
                weight: 1,
                height: 1,
            },
        });
        Ok(())
    }

    fn close(&mut self) {
        let Some(open) = self.stack.pop() else {
            return;
        };
        let value = match open.collection {
            Collection::List => Value::List(Arc::new(self.items.drain(open.start..).collect())),
            Collection::Map { merged, .. } => {
                let (map, doubled) = Map::of_fields(self.fields.drain(open.start..));
                for (key, mark, first) in doubled {
                    let message = format!("key `{}` is there twice in this map", key.text);
                    let diagnostic = Diagnostic::error(DUPLICATE_KEY, mark, message);
                    self.report(diagnostic.related(first, "first written here"));
                }
                Value::Map(Arc::new(match merged {
                    None => map,
                    Some((_, mut merged)) => {
                        for (key, field) in map {
                            merged.insert(key, field);
                        }
                        merged
                    }
                }))
            }
        };
        let node = Node::new(value, open.mark);
        self.anchor(open.anchor, &node, open.size);
        self.place(node, open.size);
    }

    fn anchor(&mut self, anchor: usize, node: &Node, size: Size) {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> Result<(), Abandoned> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            let inside = self.stack.iter().find(|open| open.anchor == anchor);
            let diagnostic = match inside {
                Some(open) => Diagnostic::error(
                    "yaml-recursive-alias",
                    mark,
                    "alias stands inside the value that it names",
                )
                .related(open.mark, "anchor is here"),
                None => unknown_alias(mark),
            };
            self.report(diagnostic);
            let size = Size {
                weight: 1,
                height: 0,
            };
            self.place(Node::new(Value::Null, mark), size);
            return Ok(());
        };
        let (node, size) = (node.clone(), *size);
        if self.stack.len() + size.height > self.limits.depth {
            self.report(too_deep(self.limits, mark));
            return Err(Abandoned);
        }
        self.expanded = self.expanded.saturating_add(size.weight);
        if self.expanded > self.limits.expanded_nodes {
            let message = format!(
                "aliases of this file stand for more than {} nodes",
                self.limits.expanded_nodes
            );
            self.report(Diagnostic::error("yaml-too-many-aliases", mark, message));
            return Err(Abandoned);
        }
        self.place(node, size);
        Ok(())
    }

    /// Where the innermost open map waits for a key, if it does.
    fn expected_key(&mut self) -> Option<&mut Pending> {
        match &mut self.stack.last_mut()?.collection {
            Collection::Map {
                pending: pending @ Pending::None,
                ..
            } => Some(pending),
            _ => None,
        }
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Node, size: Size) {
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        open.size.weight = open.size.weight.saturating_add(size.weight);
        open.size.height = open.size.height.max(size.height + 1);
        let (pending, merged) = match &mut open.collection {
            Collection::List => {
                self.items.push(node);
                return;
            }
            Collection::Map { pending, merged } => (pending, merged),
        };
        let problem = match std::mem::replace(pending, Pending::None) {
            Pending::None => match key_of(&node) {
                Some(key) => {
                    *pending = Pending::Key(key, node.mark);
                    None
                }
                None => {
                    *pending = Pending::Skip;
                    let message = format!("{} cannot be a key", node.value.type_phrase());
                    Some(Diagnostic::error("yaml-complex-key", node.mark, message))
                }
            },
            Pending::Key(key, key_mark) => {
                self.fields.push((key, Field { key_mark, node }));
                None
            }
            Pending::Merge(mark) => merge(merged, &node, mark),
            Pending::Skip => None,
        };
        if let Some(diagnostic) = problem {
            self.report(diagnostic);
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, mark: Mark) -> Value {
        let plain = style == ScalarStyle::Plain;
        let resolved = match tag.map(|tag| (core_tag(tag), tag)) {
            None if !plain => Ok(None),
            None => scalar::resolve(text).map(|resolved| {
                if resolved.differs {
                    self.warn_of_difference(text, resolved.value.as_ref(), mark);
                }
                resolved.value
            }),
            // PyYAML reads `! "12"` as it would read it without quotes.
            Some((Some("!"), _)) => scalar::resolve(text).map(|resolved| resolved.value),
            Some((Some(tag), _)) => scalar::construct(tag, text),
            Some((None, tag)) => {
                self.report(unknown_tag(tag, mark));
                Ok(None)
            }
        };
        match resolved {
            Ok(Some(value)) => value,
            Ok(None) => Value::String(self.texts.share(text)),
            Err(reason) => {
                let diagnostic =
                    Diagnostic::error("yaml-invalid-scalar", mark, format!("`{text}`: {reason}"));
                self.report(diagnostic.hint("put it in quotes if it is a string"));
                Value::String(self.texts.share(text))
            }
        }
    }

    fn warn_of_difference(&mut self, text: &str, value: Option<&Value>, mark: Mark) {
        let is_word = value.is_some_and(|value| matches!(value, Value::Bool(_)));
        let core = if is_word { None } else { scalar::core(text) };
        let message = format!(
            "`{text}` is {}, as YAML 1.1 has it; YAML 1.2 reads {}",
            scalar::describe(value),
            scalar::describe(core.as_ref())
        );
        let hint = match value {
            None => "put it in quotes".to_owned(),
            Some(Value::Bool(truth)) => {
                format!("put it in quotes, or write `{truth}` where a boolean is meant")
            }
            // Most are permissions of files, which are numbers.
            Some(Value::Integer(number)) if text.starts_with('0') => {
                format!("write `{number}`, or put it in quotes where it is a name")
            }
            Some(other) => format!(
                "put it in quotes, or write `{}` where that is meant",
                other.scalar_text().unwrap_or_default()
            ),
        };
        self.report(Diagnostic::warning("yaml-1.2-differs", mark, message).hint(hint));
    }

    fn check_tag(&mut self, tag: Option<&Tag>, expected: &str, mark: Mark) {
        let Some(tag) = tag else {
            return;
        };
        match core_tag(tag) {
            Some("!") => {}
            Some(name) if name == expected => {}
            Some(name) => {
                let message = format!("tag `!!{name}` does not fit, this is a `!!{expected}`");
                self.report(Diagnostic::error("yaml-wrong-tag", mark, message));
            }
            None => self.report(unknown_tag(tag, mark)),
        }
    }
}

/// A list or map that is opened further down than the limit.
pub(super) fn too_deep(limits: &Limits, mark: Mark) -> Diagnostic {
    let message = format!(
        "lists and maps are more than {} levels deep here",
        limits.depth
    );
    Diagnostic::error("yaml-too-deep", mark, message)
}

/// An alias that no anchor of its document precedes.
pub(super) fn unknown_alias(mark: Mark) -> Diagnostic {
    Diagnostic::error(
        "yaml-unknown-alias",
        mark,
        "no anchor of this name precedes the alias in this document",
    )
    .hint("anchors do not reach from one document to another")
}

fn unknown_tag(tag: &Tag, mark: Mark) -> Diagnostic {
    let written = match tag.handle.as_str() {
        "tag:yaml.org,2002:" => format!("!!{}", tag.suffix),
        handle => format!("{handle}{}", tag.suffix),
    };
    Diagnostic::error(
        "yaml-unknown-tag",
        mark,
        format!("tag `{written}` is not known, tags construct nothing here"),
    )
    .hint("remove the tag; !!str, !!int, !!float, !!bool, !!null, !!seq and !!map are known")
}

/// The short name of a tag that is honoured; `!` is the tag without a meaning.
fn core_tag(tag: &Tag) -> Option<&'static str> {
    let suffix = match (tag.handle.as_str(), tag.suffix.as_str()) {
        ("", "!") | ("!", "") => return Some("!"),
        ("tag:yaml.org,2002:", suffix) => suffix,
        ("", verbatim) => verbatim.strip_prefix("tag:yaml.org,2002:")?,
        _ => return None,
    };
    ["str", "int", "float", "bool", "null", "seq", "map"]
        .into_iter()
        .find(|name| *name == suffix)
}

/// A scalar as a key.
pub(super) fn key_of(node: &Node) -> Option<Key> {
    let (kind, text) = match &node.value {
        Value::String(text) => (KeyKind::String, text.clone()),
        Value::Timestamp(text) => (KeyKind::Timestamp, text.clone()),
        Value::BigInteger(text) => (KeyKind::Integer, text.clone()),
        Value::Null => (KeyKind::Null, Arc::from("null")),
        Value::Bool(truth) => (
            KeyKind::Bool,
            Arc::from(if *truth { "true" } else { "false" }),
        ),
        Value::Integer(number) => (KeyKind::Integer, Arc::from(number.to_string())),
        Value::Float(number) => (KeyKind::Float, Arc::from(python_float(*number))),
        Value::List(_) | Value::Map(_) => return None,
    };
    Some(Key { text, kind })
}

/// Takes the value of a merge key in: a map, or a list of maps of which the first wins.
fn merge(merged: &mut Option<(Mark, Map)>, node: &Node, mark: Mark) -> Option<Diagnostic> {
    let doubled = merged.as_ref().map(|(first, _)| {
        let message = "key `<<` is there twice in this map";
        Diagnostic::error(DUPLICATE_KEY, mark, message)
            .related(*first, "first written here")
            .hint("give it a list, such as `<<: [*a, *b]`")
    });
    let parts = match &node.value {
        Value::List(list) => list.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let (mark, mut map) = merged.take().unwrap_or((mark, Map::new()));
    for part in parts.iter().rev() {
        let Some(part) = part.as_map() else {
            let message = format!(
                "`<<` takes a map or a list of maps, this is {}",
                part.value.type_phrase()
            );
            return Some(Diagnostic::error(
                "yaml-merge-not-a-map",
                part.mark,
                message,
            ));
        };
        for (key, field) in part.iter() {
            map.insert(key.clone(), field.clone());
        }
    }
    *merged = Some((mark, map));
    doubled
}

/// Shares equal short texts, so that `name` is stored once rather than a thousand times.
///
/// A table of fixed size that forgets: no input can make it slow.
struct Texts {
    slots: Vec<Option<Arc<str>>>,
}

impl Texts {
    const LONGEST: usize = 40;

    /// A table for a file of so many bytes.
    fn sized(bytes: usize) -> Self {
        let slots = (bytes / 32).next_power_of_two().clamp(16, 1024);
        Self {
            slots: vec![None; slots],
        }
    }

    fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > Self::LONGEST {
            return Arc::from(text);
        }
        let hash = text.bytes().fold(0_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let number = (hash ^ (hash >> 15)) as usize & (self.slots.len() - 1);
        let slot = &mut self.slots[number];
        match slot {
            Some(shared) if **shared == *text => shared.clone(),
            _ => slot.insert(Arc::from(text)).clone(),
        }
    }
}
