//! Which fields of a node differ, and the chain from what was edited to it.
//!
//! A chain begins at the field that a person edited, which is not always where the value stands: a node that names
//! another host profile has values from documents that were not edited. So it is searched in this order:
//!
//! 1. where the new value was written, if that was written since,
//! 2. where the old value was written, if it is no longer there,
//! 3. a reference on the way from there to the node (`host_profile`, a substitution, a parent selector) that was
//!    written since,
//! 4. for boot actions: the tags, rack and labels of the node, by which actions select it,
//! 5. any document on the way that was edited.
//!
//! Where none of it is found the chain begins where the value stands, and says `written` and not `edited`.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::compare::{Difference, compare};
use super::edits::{EditLog, Which};
use super::reason::{FieldChange, Link, Reasons, ValueDifference};
use super::text::shown;
use super::ways::{Hop, Side};
use crate::design::{Design, DesignDifference, NodeDesign, NodeName, Section, SectionDigest};
use crate::diagnostic::{Mark, Sources};
use crate::document::{Document, Field, Map, Node, Value};
use crate::render::path::Path;
use crate::render::{DependencyKind, DocumentIndex, Rendering, RouteStep};
use crate::threads::lock;

/// A revision of a site, rendered and typed.
#[derive(Clone, Copy, Debug)]
pub struct Revision<'a> {
    /// The values of its documents after rendering.
    pub rendering: &'a Rendering,
    /// The design made of them.
    pub design: &'a Design,
}

/// Tells the reasons for which nodes are not what they were.
///
/// Nodes may come from different old revisions, since each has a record of its own; which one a node
/// is from is told by the design that holds it. One of these serves all nodes, and remembers what they share.
pub struct NodeReasons<'a> {
    sources: &'a Sources,
    comparisons: Vec<Comparison<'a>>,
    shared: Mutex<FxHashMap<(usize, usize), Shared>>,
}

/// The new revision against one old one.
struct Comparison<'a> {
    old: &'a Design,
    before: Side<'a>,
    after: Side<'a>,
    edits: EditLog<'a>,
}

/// The differences of two values that many nodes share. The values are kept, so that their addresses stay theirs.
struct Shared {
    _values: [Value; 2],
    differences: Arc<[FieldDifference]>,
}

/// A difference as it goes into a plan, before it is known why.
#[derive(Clone)]
struct FieldDifference {
    path: Arc<str>,
    before: Option<Arc<str>>,
    after: Option<Arc<str>>,
    marks: [Option<Mark>; 2],
    /// The digest of the value after, if it has one and may be known.
    digest: Option<SectionDigest>,
    is_secret: bool,
}

/// Where a chain begins.
#[derive(Clone, Copy)]
struct Start {
    which: Which,
    document: DocumentIndex,
    mark: Mark,
    is_edited: bool,
}

impl<'a> NodeReasons<'a> {
    /// Reasons for what differs between the old revisions and a new one; all marks point into `sources`.
    #[must_use]
    pub fn new(sources: &'a Sources, before: &[Revision<'a>], after: Revision<'a>) -> Self {
        let comparisons = before.iter().map(|old| Comparison {
            old: old.design,
            before: Side::new(old.rendering),
            after: Side::new(after.rendering),
            edits: EditLog::new(old.rendering, after.rendering),
        });
        Self {
            sources,
            comparisons: comparisons.collect(),
            shared: Mutex::default(),
        }
    }

    /// The differences between two sections, values that nodes share being compared once.
    fn differences(&self, before: Option<&Node>, after: Option<&Node>) -> Vec<FieldDifference> {
        if let (Some(before), Some(after)) = (before, after)
            && (before.is_secret() || after.is_secret())
        {
            return told(compare("", before, after));
        }
        let empty = Map::new();
        let before = before.and_then(Node::as_map).unwrap_or(&empty);
        let after = after.and_then(Node::as_map).unwrap_or(&empty);
        self.field_differences(before, after)
    }

    fn field_differences(&self, before: &Map, after: &Map) -> Vec<FieldDifference> {
        let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let mut found = Vec::new();
        for name in names {
            let old = before.field_by_key(name).map(|field| &field.node);
            let new = after.field_by_key(name).map(|field| &field.node);
            match (old, new) {
                (Some(old), Some(new)) => match address(old).zip(address(new)) {
                    Some((left, right)) if left == right => {}
                    Some(addresses) => {
                        let known = lock(&self.shared).get(&addresses).map(|shared| {
                            let differences: &Arc<[FieldDifference]> = &shared.differences;
                            differences.clone()
                        });
                        let differences = known.unwrap_or_else(|| {
                            let differences: Arc<[_]> = told(compare(&name.text, old, new)).into();
                            let shared = Shared {
                                _values: [old.value.clone(), new.value.clone()],
                                differences: differences.clone(),
                            };
                            lock(&self.shared).insert(addresses, shared);
                            differences
                        });
                        found.extend(differences.iter().cloned());
                    }
                    None => found.extend(told(compare(&name.text, old, new))),
                },
                (old, new) => found.push(one_sided(&name.text, old, new)),
            }
        }
        found
    }
}

impl Reasons for NodeReasons<'_> {
    fn fields(
        &self,
        node: &NodeName,
        before: Option<&NodeDesign>,
        after: &NodeDesign,
        sections: &[Section],
    ) -> Vec<FieldChange> {
        let Some(before) = before else {
            return Vec::new();
        };
        let comparison = self.comparisons.iter().find(|comparison| {
            let old = comparison.old.nodes.get(node);
            old.is_some_and(|old| std::ptr::eq(&**old, before))
        });
        let mut chains = comparison.map(|comparison| Chains {
            reasons: self,
            comparison,
            before,
            after,
            tails: FxHashMap::default(),
            references: FxHashMap::default(),
        });
        let mut sections = sections.to_vec();
        sections.sort_unstable();
        sections.dedup();
        let mut changes = Vec::new();
        for section in sections {
            for difference in self.section(section, before, after) {
                let chain = chains
                    .as_mut()
                    .map(|chains| chains.chain(section, &difference))
                    .unwrap_or_default();
                changes.push(FieldChange {
                    section,
                    path: difference.path,
                    before: difference.before,
                    after: difference.after,
                    chain,
                    accepted: None,
                });
            }
        }
        changes
    }

    fn values(
        &self,
        before: &NodeDesign,
        after: &NodeDesign,
        section: Section,
    ) -> Vec<ValueDifference> {
        let differences = self.section(section, before, after).into_iter();
        let value = |difference: FieldDifference| ValueDifference {
            difference: DesignDifference {
                section,
                path: difference.path,
                value: difference.digest,
            },
            is_secret: difference.is_secret,
        };
        differences.map(value).collect()
    }
}

impl NodeReasons<'_> {
    fn section(
        &self,
        section: Section,
        before: &NodeDesign,
        after: &NodeDesign,
    ) -> Vec<FieldDifference> {
        let old = before.sections.get(&section).map(|fields| fields.to_node());
        let new = after.sections.get(&section).map(|fields| fields.to_node());
        if let Section::Firmware | Section::Expected = section {
            // Each value is a line of its own, also if a whole part of a Hardware document is new.
            let values = [
                with_parts_of(old.as_deref(), new.as_deref()),
                with_parts_of(new.as_deref(), old.as_deref()),
            ];
            if let [Some(old), Some(new)] = values {
                return told(compare("", &old, &new));
            }
        }
        self.differences(old.as_deref(), new.as_deref())
    }
}

/// A map with an empty map for each that it lacks, and another one has.
fn with_parts_of(own: Option<&Node>, other: Option<&Node>) -> Option<Node> {
    let parts = other.and_then(Node::as_map);
    let (Some(parts), None | Some(Value::Map(_))) = (parts, own.map(|own| &own.value)) else {
        return own.cloned();
    };
    let mut map = own.and_then(Node::as_map).cloned().unwrap_or_default();
    for (key, field) in parts
        .iter()
        .filter(|(_, field)| field.node.as_map().is_some())
    {
        let part = map.field_by_key(key).map(|own| &own.node);
        if let Some(node) = with_parts_of(part, Some(&field.node)) {
            let key_mark = field.key_mark;
            map.insert(key.clone(), Field { key_mark, node });
        }
    }
    let like = own.or(other)?;
    Some(Node {
        value: Value::Map(Arc::new(map)),
        mark: like.mark,
        secret: own.and_then(|own| own.secret.clone()),
    })
}

/// Where the list or map of a value is kept; a secret is not told apart, so it has none.
fn address(node: &Node) -> Option<usize> {
    match &node.value {
        _ if node.is_secret() => None,
        Value::List(list) => Some(Arc::as_ptr(list).addr()),
        Value::Map(map) => Some(Arc::as_ptr(map).addr()),
        _ => None,
    }
}

fn told(differences: Vec<Difference<'_>>) -> Vec<FieldDifference> {
    let told = |difference: Difference<'_>| {
        let is_secret = difference.is_secret || holds_secret(difference.before, difference.after);
        let [before, after] = match difference.moved_from {
            Some(from) => [Some(from), Some(difference.path.clone())],
            None => shown(difference.before, difference.after),
        };
        FieldDifference {
            path: difference.path,
            before,
            after,
            marks: [difference.before, difference.after].map(|node| node.map(|node| node.mark)),
            digest: digest(difference.after, is_secret),
            is_secret,
        }
    };
    differences.into_iter().map(told).collect()
}

fn one_sided(path: &Arc<str>, before: Option<&Node>, after: Option<&Node>) -> FieldDifference {
    let marks = [before, after].map(|node| node.map(|node| node.mark));
    let is_secret = holds_secret(before, after);
    let digest = digest(after, is_secret);
    let [before, after] = shown(before, after);
    FieldDifference {
        path: path.clone(),
        before,
        after,
        marks,
        digest,
        is_secret,
    }
}

fn holds_secret(before: Option<&Node>, after: Option<&Node>) -> bool {
    [before, after].into_iter().flatten().any(Node::has_secret)
}

fn digest(after: Option<&Node>, is_secret: bool) -> Option<SectionDigest> {
    after.filter(|_| !is_secret).map(SectionDigest::of)
}

/// The chains of one node. What is found for a document serves all fields that come from it.
struct Chains<'c, 'a> {
    reasons: &'c NodeReasons<'a>,
    comparison: &'c Comparison<'a>,
    before: &'c NodeDesign,
    after: &'c NodeDesign,
    tails: FxHashMap<(Which, DocumentIndex), Vec<Link>>,
    references: FxHashMap<(Which, DocumentIndex), Option<Start>>,
}

impl<'c, 'a> Chains<'c, 'a> {
    fn chain(&mut self, section: Section, difference: &FieldDifference) -> Vec<Link> {
        let start = self
            .start(&difference.marks)
            .or_else(|| self.selecting(section))
            .or_else(|| self.on_the_way(&difference.marks))
            .or_else(|| self.written(&difference.marks));
        start.map(|start| self.links(start)).unwrap_or_default()
    }

    /// Where something was edited that the value depends on.
    fn start(&mut self, marks: &[Option<Mark>; 2]) -> Option<Start> {
        let found = self.origins(marks);
        let edited = found
            .iter()
            .find(|start| self.edits(start).has(start.mark))
            .copied();
        edited.or_else(|| found.iter().find_map(|start| self.reference(*start)))
    }

    /// Where the value stands now, and where it stood.
    fn origins(&self, [before, after]: &[Option<Mark>; 2]) -> Vec<Start> {
        let sides = [(Which::After, after), (Which::Before, before)];
        let origin = |(which, mark): (Which, &Option<Mark>)| {
            let mark = (*mark)?;
            Some(Start {
                which,
                document: self.side(which).rendering.origin(mark)?,
                mark,
                is_edited: true,
            })
        };
        sides.into_iter().filter_map(origin).collect()
    }

    /// A reference on the way from a document to the node that was written since.
    fn reference(&mut self, from: Start) -> Option<Start> {
        let key = (from.which, from.document);
        if let Some(known) = self.references.get(&key) {
            return *known;
        }
        let way = self.way(from).unwrap_or_default();
        let found = way.iter().find_map(|hop| self.edited_hop(from.which, *hop));
        self.references.insert(key, found);
        found
    }

    fn edited_hop(&self, which: Which, hop: Hop<'_>) -> Option<Start> {
        let start = |document, mark| Start {
            which,
            document,
            mark,
            is_edited: true,
        };
        match hop {
            Hop::Reference(reference) => {
                let document = self.side(which).rendering.origin(reference.mark)?;
                let found = start(document, reference.mark);
                self.edits(&found).has(reference.mark).then_some(found)
            }
            Hop::Rendering(step) => {
                let document = self.side(which).rendering.input(step.from)?;
                let edits = self.comparison.edits.of(which, step.from);
                let written = step_values(document, step);
                let mark = written.into_iter().find_map(|node| edits.first_in(node))?;
                Some(start(step.from, mark))
            }
        }
    }

    /// For boot actions: what of the node selects them and was edited.
    fn selecting(&mut self, section: Section) -> Option<Start> {
        if section != Section::BootActions {
            return None;
        }
        for section in [Section::Inventory, Section::Labels] {
            for difference in self.reasons.section(section, self.before, self.after) {
                if &*difference.path != "host_profile"
                    && let Some(start) = self.start(&difference.marks)
                {
                    return Some(start);
                }
            }
        }
        None
    }

    /// Any document between the value and the node that was edited.
    fn on_the_way(&self, marks: &[Option<Mark>; 2]) -> Option<Start> {
        let edited = |start: Start| {
            let rendering = self.side(start.which).rendering;
            let way = self.way(start)?;
            way.into_iter().find_map(|hop| {
                let document = match hop {
                    Hop::Rendering(step) => step.from,
                    Hop::Reference(reference) => rendering.origin(reference.mark)?,
                };
                let mark = self.comparison.edits.of(start.which, document).first()?;
                Some(Start {
                    document,
                    mark,
                    ..start
                })
            })
        };
        self.origins(marks).into_iter().find_map(edited)
    }

    fn written(&self, marks: &[Option<Mark>; 2]) -> Option<Start> {
        let start = *self.origins(marks).first()?;
        Some(Start {
            is_edited: false,
            ..start
        })
    }

    fn links(&mut self, start: Start) -> Vec<Link> {
        let key = (start.which, start.document);
        if !self.tails.contains_key(&key) {
            let way = self.way(start).unwrap_or_default();
            let links = way
                .into_iter()
                .filter_map(|hop| self.link(start.which, hop));
            let links = links.collect();
            self.tails.insert(key, links);
        }
        let side = self.side(start.which);
        let Some(document) = side.rendering.input(start.document) else {
            return Vec::new();
        };
        let first = Link {
            document: side.name(&document.id),
            by: Arc::from(if start.is_edited { "edited" } else { "written" }),
            place: self.reasons.sources.place(start.mark),
        };
        let tail = self.tails.get(&key).into_iter().flatten().cloned();
        std::iter::once(first).chain(tail).collect()
    }

    fn link(&self, which: Which, hop: Hop<'_>) -> Option<Link> {
        let side = self.side(which);
        let (id, by, mark) = match hop {
            Hop::Reference(reference) => {
                let node = &self.node(which).document;
                let id = match reference.selects {
                    true => &reference.on,
                    false => reference.dependent.as_ref().unwrap_or(node),
                };
                (id, reference.by.clone(), reference.mark)
            }
            Hop::Rendering(step) => {
                let document = side.rendering.input(step.from)?;
                let by = match step.dependency.kind {
                    DependencyKind::Parent => "layering",
                    DependencyKind::Replaces => "replacement",
                    DependencyKind::Substitution(_) => "substitution",
                };
                let place = step_values(document, step).first().map(|node| node.mark);
                (&document.id, Arc::from(by), place.unwrap_or(document.mark))
            }
        };
        Some(Link {
            document: side.name(id),
            by,
            place: self.reasons.sources.place(mark),
        })
    }

    fn way(&self, from: Start) -> Option<Vec<Hop<'c>>> {
        let side = self.side(from.which);
        side.way(from.document, self.node(from.which))
    }

    fn edits(&self, start: &Start) -> Arc<super::edits::Edits> {
        self.comparison.edits.of(start.which, start.document)
    }

    fn node(&self, which: Which) -> &'c NodeDesign {
        match which {
            Which::Before => self.before,
            Which::After => self.after,
        }
    }

    fn side(&self, which: Which) -> &'c Side<'a> {
        match which {
            Which::Before => &self.comparison.before,
            Which::After => &self.comparison.after,
        }
    }
}

/// The nodes by which a document takes values from another one, the deciding field first.
fn step_values(document: &Document, step: RouteStep) -> Vec<&Node> {
    let metadata = &document.metadata;
    let layering = |path: &[&str]| metadata.at(path);
    match step.dependency.kind {
        DependencyKind::Parent => {
            let selector = layering(&["layeringDefinition", "parentSelector"]);
            let actions = layering(&["layeringDefinition", "actions"]);
            selector.into_iter().chain(actions).collect()
        }
        DependencyKind::Replaces => {
            let replacement = layering(&["replacement"]);
            let selector = layering(&["layeringDefinition", "parentSelector"]);
            replacement.into_iter().chain(selector).collect()
        }
        DependencyKind::Substitution(at) => {
            let entries = metadata.get("substitutions").and_then(Node::as_list);
            let entry = entries.and_then(|entries| entries.get(at as usize));
            // A pattern puts a value into a text, which may have been edited around it.
            let written = document.substitutions.get(at as usize);
            let targets = written
                .into_iter()
                .flat_map(|entry| &entry.destinations)
                .filter_map(|destination| Path::parse(&destination.path).ok())
                .filter_map(|path| path.first(&document.data).map(|found| found.node));
            entry.into_iter().chain(targets).collect()
        }
    }
}
