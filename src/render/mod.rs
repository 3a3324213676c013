//! From the documents of a site to what they say in the end: layering, substitution, replacement.
//!
//! This is Deckhand's engine with value semantics: what a document takes from another is a copy, so no
//! document ever changes another one, and the order of the input changes nothing. Trees are shared
//! behind [`Arc`]s and copied only if they are written.
//!
//! # Where a value comes from
//!
//! Every value keeps the mark of the document that wrote it, also when it was inherited or substituted. A
//! map that parent and child both wrote to has the child's mark, and so has the whole data. A
//! string that a pattern was replaced in has the mark of the value that was put in, because that is what one
//! edits to change it. What a substitution creates on its way has the mark of its destination. [`Rendering::origin`]
//! finds the document of a mark, [`Dependencies::route`] how one document got to another.
//!
//! # Secrets
//!
//! Data of encrypted documents is secret, and so is all that is read below a secret value, every string that one
//! was put into, every map that one was merged into. No message holds a value.
//!
//! # Problems
//!
//! All are reported at once. A document with an error is not rendered, nor is any that depends on it, without
//! further messages. The codes:
//!
//! | code | what |
//! | --- | --- |
//! | `render-duplicate` | schema, layer and name are those of another document |
//! | `render-layering-policy` | no layering policy, several that differ (alike: a warning), or one without a list of names |
//! | `render-layer` | a layer that the policy does not name |
//! | `render-parent-schema` | a parent selector matches a document of another schema |
//! | `render-parent-layer` | a parent selector matches a document of the same or a lower layer |
//! | `render-parent-ambiguous` | a parent selector matches several documents of the nearest layer |
//! | `render-parent-missing` | a parent selector matches nothing (a warning: the actions are left out) |
//! | `render-replacement-parent` | a replacement without a parent, or with one of another schema or name |
//! | `render-replacement-undeclared` | a document is named as its parent, but says not that it replaces it |
//! | `render-replacement-chain` | a concrete replacement is replaced, or a document is replaced twice |
//! | `render-name` | two documents that replace nothing have the same schema and name |
//! | `render-cycle` | documents depend on each other in a circle |
//! | `render-path` | a path is not in the path language |
//! | `render-path-write` | a path leads through something that is no map or list |
//! | `render-action` | an action finds nothing at its path |
//! | `render-source-missing` | the source of a substitution was not found (a warning with [`RenderOptions::allow_missing_sources`]) |
//! | `render-pattern` | a pattern, a group or a replacement text cannot be used, or matches nothing (a warning) |
//! | `render-pattern-target` | a pattern is applied to something that is no string |
//! | `render-too-large` | the result is too large or too deep |

mod budget;
mod cache;
mod dependencies;
mod layering;
mod order;
mod parents;
pub mod path;
mod pattern;
mod policy;
mod python;
mod replacement;
mod substitution;
mod survey;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::diagnostic::{Diagnostics, Mark};
use crate::document::{Document, DocumentId, Node};

pub use cache::RenderCache;
pub use dependencies::{Dependencies, Dependency, DependencyKind, DocumentIndex, RouteStep};
pub use pattern::{pattern_size, search_cost};

use cache::Cached;
use order::Order;
use substitution::Substituter;
use survey::Survey;

/// How to render.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// A substitution without a source is a warning and leaves its destination as it was,
    /// instead of being an error.
    pub allow_missing_sources: bool,
    /// The layers, from the most general, of documents that come without a layering policy.
    pub default_layers: Option<Vec<Arc<str>>>,
}

/// A document as it is in the end.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// Which of [`Rendering::inputs`] it is.
    pub index: DocumentIndex,
    /// The document as it was written.
    pub document: Arc<Document>,
    /// Its data, layered and substituted.
    pub data: Node,
    /// Whether it is encrypted, or takes something from a document that is.
    pub encrypted: bool,
    /// The document that it was layered on: its parent, or that one's replacement.
    pub parent: Option<DocumentIndex>,
    /// Whether it is known that nothing in the data is secret.
    pub is_plain: bool,
}

impl Rendered {
    /// Schema and name.
    #[must_use]
    pub fn id(&self) -> &DocumentId {
        &self.document.id
    }

    /// The whole document as Deckhand gives it out: schema, metadata as it was written, data as rendered.
    #[must_use]
    pub fn envelope(&self) -> Node {
        self.document.with_data(self.data.clone())
    }
}

/// All documents as they are in the end, how they depend on each other, and what is wrong with them.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    /// All documents that went in, also abstract and replaced ones, sorted by schema, name, layer and mark.
    pub inputs: Vec<Arc<Document>>,
    /// Those that came out, sorted by schema and name: concrete, not replaced, without errors.
    pub documents: Vec<Rendered>,
    /// The dependencies of each input.
    pub dependencies: Dependencies,
    /// The problems. Documents that could not be rendered for them are not in `documents`.
    pub diagnostics: Diagnostics,
    /// The inputs by where they begin.
    by_mark: Vec<(Mark, DocumentIndex)>,
}

impl Rendering {
    /// The document of a schema and name.
    #[must_use]
    pub fn get(&self, schema: &str, name: &str) -> Option<&Rendered> {
        let at = self
            .documents
            .binary_search_by(|rendered| {
                let id = rendered.id();
                (&*id.schema, &*id.name).cmp(&(schema, name))
            })
            .ok()?;
        self.documents.get(at)
    }

    /// All documents of a schema, sorted by name.
    #[must_use]
    pub fn of_schema(&self, schema: &str) -> &[Rendered] {
        let start = self
            .documents
            .partition_point(|rendered| &*rendered.id().schema < schema);
        let end = self
            .documents
            .partition_point(|rendered| &*rendered.id().schema <= schema);
        &self.documents[start..end]
    }

    /// One of the documents that went in.
    #[must_use]
    pub fn input(&self, index: DocumentIndex) -> Option<&Arc<Document>> {
        self.inputs.get(index.position())
    }

    /// The document that holds the place which a mark points to.
    #[must_use]
    pub fn origin(&self, mark: Mark) -> Option<DocumentIndex> {
        let after = self.by_mark.partition_point(|(start, _)| *start <= mark);
        let (start, index) = self.by_mark.get(after.checked_sub(1)?)?;
        (start.source == mark.source).then_some(*index)
    }
}

/// Renders documents.
///
/// The documents are those of one site at one revision. Nothing of them is changed, and their order does not count.
#[must_use]
pub fn render(documents: &[Arc<Document>], options: &RenderOptions) -> Rendering {
    render_with(documents, options, None)
}

/// The same, with the results of documents that other sites have as well.
#[must_use]
pub fn render_with(
    documents: &[Arc<Document>],
    options: &RenderOptions,
    cache: Option<&RenderCache>,
) -> Rendering {
    let mut inputs = documents.to_vec();
    inputs.sort_by(|left, right| survey::sort_key(left).cmp(&survey::sort_key(right)));
    let mut by_mark: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(at, document)| (document.mark, DocumentIndex::new(at)))
        .collect();
    by_mark.sort_unstable();

    let mut survey = Survey::new(&inputs);
    survey.check_duplicates();
    let Some(order) = policy::layer_order(&mut survey, options) else {
        return Rendering {
            diagnostics: survey.diagnostics,
            dependencies: Dependencies::none(inputs.len()),
            inputs,
            documents: Vec::new(),
            by_mark,
        };
    };
    let layers = policy::layers(&mut survey, &order);
    let parents = parents::find(&mut survey, &layers, &order);
    let replaced_by = replacement::check(&mut survey, &parents);
    let sources = replacement::sources(survey.documents, &replaced_by);
    let dependencies = Dependencies::collect(survey.documents, &parents, &replaced_by, &sources);
    let order = Order::of(&dependencies);
    order.report_cycles(&mut survey, &dependencies);

    let mut results: Vec<Option<Outcome>> = vec![None; inputs.len()];
    let mut substituter = Substituter::new(options, &sources, inputs.len());
    let mut cached = Cached::new(cache, inputs.len());
    for at in order.sequence {
        results[at] = render_one(
            at,
            &mut survey,
            &dependencies,
            (&mut substituter, &mut cached),
            &results,
        );
    }

    log::debug!(
        "{} documents rendered for {} values",
        inputs.len(),
        substituter.spent()
    );
    let rendered = results.iter_mut().enumerate().filter_map(|(at, result)| {
        let document = &inputs[at];
        if document.is_abstract || replaced_by[at].is_some() {
            return None;
        }
        let outcome = result.take()?;
        Some(Rendered {
            index: DocumentIndex::new(at),
            document: document.clone(),
            data: outcome.data,
            encrypted: outcome.is_encrypted,
            is_plain: outcome.is_plain,
            parent: dependencies.parent(DocumentIndex::new(at)),
        })
    });
    let documents = rendered.collect();
    Rendering {
        documents,
        dependencies,
        diagnostics: survey.diagnostics,
        inputs,
        by_mark,
    }
}

/// The result of a document.
#[derive(Clone, Debug)]
struct Outcome {
    data: Node,
    is_encrypted: bool,
    /// Whether it is known that nothing in the data is secret.
    is_plain: bool,
    /// How many values it has at most, counted as if nothing were shared.
    size: u64,
}

/// Renders one document, all that it depends on being rendered; `None` if it, or one of those, has an error.
fn render_one(
    at: usize,
    survey: &mut Survey<'_>,
    dependencies: &Dependencies,
    (substituter, cached): (&mut Substituter<'_>, &mut Cached<'_>),
    results: &[Option<Outcome>],
) -> Option<Outcome> {
    let index = DocumentIndex::new(at);
    let document = survey.documents[at].clone();
    let result = |index: DocumentIndex| results.get(index.position()).and_then(Option::as_ref);
    let is_poisoned = dependencies
        .of(index)
        .iter()
        .any(|dependency| result(dependency.target).is_none());
    if is_poisoned || !survey.is_sound(at) {
        survey.fail_silently(at);
        substituter.check_sources(at, &document, survey);
        return None;
    }
    let key = cached.key(at, &document, dependencies);
    if let Some(outcome) = key.as_ref().and_then(|key| cached.get(at, key)) {
        let is_paid = substituter.pay(at, survey, |budget| budget.spend(outcome.size));
        return is_paid.then_some(outcome);
    }
    let problems = survey.diagnostics.len();
    let parent = dependencies.parent(index).and_then(result);
    let parent = parent.filter(|_| !document.actions.is_empty());
    let before = substituter.spent();
    if !substituter.pay(at, survey, |budget| {
        budget.spend(parent.map_or(0, |parent| parent.size))?;
        budget.spend_tree(&document.data, 0)
    }) {
        return None;
    }
    let mut outcome = match parent {
        Some(parent) => Outcome {
            data: layering::layer(at, &document, parent, survey, substituter),
            is_encrypted: document.is_encrypted || parent.is_encrypted,
            is_plain: false,
            size: 0,
        },
        None => Outcome {
            data: document.data.clone(),
            is_encrypted: document.is_encrypted,
            is_plain: false,
            size: 0,
        },
    };
    if document.is_encrypted && !outcome.data.is_secret() {
        outcome.data.secret.clone_from(&document.data.secret);
    }
    substituter.substitute_all(at, &document, &mut outcome, survey, result);
    outcome.size = substituter.spent() - before;
    if let Some(key) = key.filter(|_| survey.diagnostics.len() == problems) {
        outcome.is_plain = !outcome.data.has_secret();
        cached.keep(at, key, &document, &outcome);
    }
    survey.is_sound(at).then_some(outcome)
}
