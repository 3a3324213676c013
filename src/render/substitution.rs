//! Substitutions: values of other documents, put into this one.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::diagnostic::{Diagnostic, Mark, is_credential, nearest};
use crate::document::{
    Document, DocumentId, Field, Map, Node, SecretOrigin, Substitution, SubstitutionDestination,
    SubstitutionSource, Value,
};

use super::budget::{Budget, Exceeded, depth, text_size};
use super::dependencies::DocumentIndex;
use super::path::{Path, PathError};
use super::pattern::{Pattern, PatternError, Template};
use super::survey::Survey;
use super::{Outcome, RenderOptions, python};

/// For how many missing documents a near name is looked for; it costs a walk over all names.
const MAX_SUGGESTIONS: usize = 20;

/// The common state of all substitutions of a rendering: parsed paths, compiled patterns, the budget.
pub(super) struct Substituter<'a> {
    options: &'a RenderOptions,
    sources: &'a FxHashMap<&'a DocumentId, usize>,
    paths: FxHashMap<Arc<str>, Result<Arc<Path>, PathError>>,
    patterns: FxHashMap<Arc<str>, Result<Arc<Pattern>, PatternError>>,
    budget: Budget,
    is_exhausted: bool,
    suggestions: FxHashMap<DocumentId, Option<String>>,
}

/// A problem, and whether it fails the document.
enum Problem {
    Error(Diagnostic),
    Warning(Diagnostic),
    /// Reported already.
    Silent,
}

impl From<Diagnostic> for Problem {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Error(diagnostic)
    }
}

impl<'a> Substituter<'a> {
    pub(super) fn new(
        options: &'a RenderOptions,
        sources: &'a FxHashMap<&'a DocumentId, usize>,
        documents: usize,
    ) -> Self {
        Self {
            options,
            sources,
            paths: FxHashMap::default(),
            patterns: FxHashMap::default(),
            budget: Budget::of(documents),
            is_exhausted: false,
            suggestions: FxHashMap::default(),
        }
    }

    /// A path, parsed once.
    pub(super) fn path(&mut self, text: &Arc<str>) -> Result<Arc<Path>, PathError> {
        if let Some(known) = self.paths.get(text) {
            return known.clone();
        }
        let parsed = Path::parse(text).map(Arc::new);
        self.paths.insert(text.clone(), parsed.clone());
        parsed
    }

    /// A pattern, compiled once.
    fn pattern(&mut self, text: &Arc<str>, mark: Mark) -> Result<Arc<Pattern>, Problem> {
        let compiled = match self.patterns.get(text) {
            Some(known) => known.clone(),
            None => {
                let compiled = Pattern::new(text).map(Arc::new);
                let size = compiled.as_ref().ok().map(|pattern| pattern.size());
                self.budget
                    .spend_pattern(size)
                    .map_err(|exceeded| self.exceeded(mark, exceeded))?;
                self.patterns.insert(text.clone(), compiled.clone());
                compiled
            }
        };
        compiled.map_err(|error| {
            let message = format!("the pattern `{text}` cannot be used: {error}");
            Diagnostic::error("render-pattern", mark, message).into()
        })
    }

    /// The spent part of the budget.
    pub(super) fn spent(&self) -> u64 {
        self.budget.spent()
    }

    /// Takes what a document needs before anything is substituted in it; whether there was as much.
    pub(super) fn pay(
        &mut self,
        at: usize,
        survey: &mut Survey<'_>,
        take: impl FnOnce(&mut Budget) -> Result<(), Exceeded>,
    ) -> bool {
        let Err(exceeded) = take(&mut self.budget) else {
            return true;
        };
        match self.exceeded(survey.documents[at].name_mark, exceeded) {
            Problem::Error(diagnostic) => survey.fail(at, diagnostic),
            _ => survey.fail_silently(at),
        }
        false
    }

    /// Applies all substitutions of a document in their order.
    pub(super) fn substitute_all<'r>(
        &mut self,
        at: usize,
        document: &Document,
        outcome: &mut Outcome,
        survey: &mut Survey<'_>,
        result: impl Fn(DocumentIndex) -> Option<&'r Outcome>,
    ) {
        for substitution in &document.substitutions {
            let source = self.sources.get(&substitution.source.document).copied();
            let value = match source {
                None => Err(self.source_missing(&substitution.source, survey)),
                Some(source) => match result(DocumentIndex::new(source)) {
                    None => Err(Problem::Silent),
                    Some(source) => {
                        outcome.is_encrypted |= source.is_encrypted;
                        self.read(&substitution.source, &source.data, survey)
                    }
                },
            };
            let written = value.and_then(|value| {
                self.write_all(substitution, &value, &mut outcome.data, at, survey)
            });
            match written {
                Ok(()) => {}
                Err(Problem::Warning(diagnostic)) => survey.diagnostics.push(diagnostic),
                Err(Problem::Error(diagnostic)) => survey.fail(at, diagnostic),
                Err(Problem::Silent) => survey.fail_silently(at),
            }
        }
    }

    /// Reports missing sources, for a document that is not rendered.
    pub(super) fn check_sources(
        &mut self,
        at: usize,
        document: &Document,
        survey: &mut Survey<'_>,
    ) {
        for substitution in &document.substitutions {
            let source = &substitution.source;
            if self.sources.contains_key(&source.document) {
                continue;
            }
            match self.source_missing(source, survey) {
                Problem::Warning(diagnostic) => survey.diagnostics.push(diagnostic),
                Problem::Error(diagnostic) => survey.fail(at, diagnostic),
                Problem::Silent => {}
            }
        }
    }

    /// A missing source, document or value: a warning if that is allowed.
    fn absent(&self, mut diagnostic: Diagnostic) -> Problem {
        if self.options.allow_missing_sources {
            diagnostic.severity = crate::diagnostic::Severity::Warning;
            Problem::Warning(diagnostic)
        } else {
            Problem::Error(diagnostic)
        }
    }

    fn source_missing(&mut self, source: &SubstitutionSource, survey: &Survey<'_>) -> Problem {
        let id = &source.document;
        let message = format!("there is no document `{id}` to take a value from");
        let mut diagnostic = Diagnostic::error("render-source-missing", source.name_mark, message);
        let is_room = self.suggestions.len() < MAX_SUGGESTIONS;
        let hint = match self.suggestions.get(id) {
            Some(known) => known.clone(),
            None if is_room => {
                let hint = suggestion(id, survey.documents);
                self.suggestions.insert(id.clone(), hint.clone());
                hint
            }
            None => None,
        };
        if let Some(hint) = hint {
            diagnostic = diagnostic.hint(hint);
        }
        self.absent(diagnostic)
    }

    /// The value that a source names.
    fn read(
        &mut self,
        source: &SubstitutionSource,
        data: &Node,
        survey: &mut Survey<'_>,
    ) -> Result<Node, Problem> {
        let path = self
            .path(&source.path)
            .map_err(|error| error.diagnostic(source.path_mark, &source.path))?;
        self.look_for(&path, data, source.path_mark)?;
        // Data that is no map has no paths: the path is left aside and all of it is taken.
        let value = match &data.value {
            Value::Map(_) => path.first(data).map(|found| found.to_node()),
            _ => Some(data.clone()),
        };
        let Some(mut value) = value.filter(|value| !value.is_null()) else {
            let message = format!("`{}` has no value at `{}`", source.document, source.path);
            let mut diagnostic =
                Diagnostic::error("render-source-missing", source.path_mark, message);
            if let Some(absence) = path.absence(data) {
                diagnostic = diagnostic.did_you_mean(absence.wanted, absence.present);
            }
            return Err(self.absent(diagnostic));
        };
        if let Some(pattern) = &source.pattern {
            let cut = self.cut(source, pattern, &value, survey)?;
            value.value = Value::String(cut);
        }
        Ok(value.taken_from(source))
    }

    /// The part of a string that a source's pattern names; all of it, with a warning, if nothing matches.
    fn cut(
        &mut self,
        source: &SubstitutionSource,
        text: &Arc<str>,
        value: &Node,
        survey: &mut Survey<'_>,
    ) -> Result<Arc<str>, Problem> {
        let pattern = self.pattern(text, source.mark)?;
        let Value::String(whole) = &value.value else {
            let message = format!(
                "the pattern `{text}` needs a string, and `{}` has a {} at `{}`",
                source.document,
                value.value.type_name(),
                source.path,
            );
            return Err(Diagnostic::error("render-pattern-target", source.mark, message).into());
        };
        self.budget
            .spend(text_size(whole).saturating_add(pattern.cost(whole.len())))
            .map_err(|exceeded| self.exceeded(source.mark, exceeded))?;
        let Some(found) = pattern.search(whole, 0) else {
            let message = format!(
                "the pattern `{text}` matches nothing at `{}` of `{}`, so all of it is taken",
                source.path, source.document,
            );
            survey
                .diagnostics
                .push(Diagnostic::warning("render-pattern", source.mark, message));
            return Ok(whole.clone());
        };
        let number = source.match_group;
        match found.group(whole, number) {
            Some(Some(part)) => Ok(Arc::from(part)),
            Some(None) => {
                let message =
                    format!("group {number} of the pattern `{text}` took no part in the match");
                Err(Diagnostic::error("render-pattern", source.mark, message).into())
            }
            None => {
                let message = format!("the pattern `{text}` has no group {number}");
                Err(Diagnostic::error("render-pattern", source.mark, message).into())
            }
        }
    }

    /// Writes a value to all destinations; one that fails keeps no other from being tried.
    fn write_all(
        &mut self,
        substitution: &Substitution,
        value: &Node,
        data: &mut Node,
        at: usize,
        survey: &mut Survey<'_>,
    ) -> Result<(), Problem> {
        for destination in &substitution.destinations {
            match self.write(&substitution.source, destination, value, data, survey) {
                Ok(()) => {}
                Err(Problem::Error(diagnostic)) => survey.fail(at, diagnostic),
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        source: &SubstitutionSource,
        destination: &SubstitutionDestination,
        value: &Node,
        data: &mut Node,
        survey: &mut Survey<'_>,
    ) -> Result<(), Problem> {
        let mark = destination.mark;
        let path = self
            .path(&destination.path)
            .map_err(|error| error.diagnostic(mark, &destination.path))?;
        self.look_for(&path, data, mark)?;
        if let Some(pattern) = &destination.pattern {
            let place = Place {
                path: &path,
                text: pattern,
                recurse_depth: destination.recurse_depth,
                mark,
            };
            survey
                .diagnostics
                .extend(self.replace(&place, value, data)?);
            return Ok(());
        }
        let above = path.len() + if path.descends() { depth(data) } else { 0 };
        let places = path.count(data).max(1);
        let spent = self
            .budget
            .spend(path.padding(data) as u64)
            .and_then(|()| (0..places).try_for_each(|_| self.budget.spend_tree(value, above)));
        spent.map_err(|exceeded| self.exceeded(mark, exceeded))?;
        if path.is_root()
            && let (Value::Map(ours), Value::Map(theirs)) = (&mut data.value, &value.value)
        {
            update(Arc::make_mut(ours), theirs, value.secret.as_ref());
            return Ok(());
        }
        let is_credential = path.last_key().is_some_and(is_credential);
        let value = match value.value {
            Value::Map(_) | Value::Null => value.clone(),
            _ if is_credential => value.clone().hidden_from(source),
            _ => value.clone(),
        };
        path.set(data, value, mark)
            .map_err(|error| error.diagnostic(mark, &path))?;
        Ok(())
    }

    /// Replaces a pattern in the string, or in all strings below; a warning if that changes nothing.
    fn replace(
        &mut self,
        place: &Place<'_>,
        value: &Node,
        data: &mut Node,
    ) -> Result<Option<Diagnostic>, Problem> {
        let Place {
            path,
            text,
            recurse_depth,
            mark,
        } = *place;
        let pattern = self.pattern(text, mark)?;
        let replacement = python::text(value);
        self.budget
            .spend_text(&replacement)
            .map_err(|exceeded| self.exceeded(mark, exceeded))?;
        let template = Template::parse(&replacement, &pattern).map_err(|error| {
            let message = format!("the pattern `{text}` cannot be replaced: {error}");
            Diagnostic::error("render-pattern", mark, message)
        })?;
        let mut replacer = Replacer {
            pattern: &pattern,
            text,
            template: &template,
            mark: value.mark,
            value,
            is_secret: value.has_secret(),
            budget: &mut self.budget,
            replaced: 0,
        };
        let places = path.update(data, |node| {
            let changed = match (&node.value, recurse_depth) {
                (Value::String(_), _) => replacer.string(node),
                (Value::List(_) | Value::Map(_), Some(depth)) => replacer.below(node, depth),
                (other, _) => return Err(Unfit::Kind(other.type_name())),
            };
            if let Some(changed) = changed.map_err(Unfit::Exceeded)? {
                *node = changed;
            }
            Ok(())
        });
        let replaced = replacer.replaced;
        let message = match places {
            Err(Unfit::Exceeded(exceeded)) => return Err(self.exceeded(mark, exceeded)),
            Err(Unfit::Kind(kind)) => {
                format!("the pattern `{text}` needs a string at `{path}`, where a {kind} is")
            }
            Ok(0) => format!("the pattern `{text}` needs a string at `{path}`, where nothing is"),
            Ok(_) if replaced == 0 && recurse_depth.is_some() && !pattern.is_literal() => {
                let message = format!(
                    "the pattern `{text}` changes nothing: with `recurse` a string must hold the pattern itself"
                );
                return Ok(Some(Diagnostic::warning("render-pattern", mark, message)));
            }
            Ok(_) if replaced == 0 && recurse_depth.is_none() => {
                let message = format!(
                    "the pattern `{text}` matches nothing at `{path}`, so nothing is replaced"
                );
                return Ok(Some(Diagnostic::warning("render-pattern", mark, message)));
            }
            Ok(_) => return Ok(None),
        };
        Err(Diagnostic::error("render-pattern-target", mark, message).into())
    }

    /// Pays for a path that goes through all of the data.
    fn look_for(&mut self, path: &Path, data: &Node, mark: Mark) -> Result<(), Problem> {
        if !path.descends() {
            return Ok(());
        }
        let spent = self.budget.spend_tree(data, 0);
        spent.map_err(|exceeded| self.exceeded(mark, exceeded))
    }

    fn exceeded(&mut self, mark: Mark, exceeded: Exceeded) -> Problem {
        let whole = self.budget.whole();
        let diagnostic = match exceeded {
            Exceeded::Depth => {
                Diagnostic::error("render-too-large", mark, "the value is nested too deeply")
            }
            Exceeded::Size if std::mem::replace(&mut self.is_exhausted, true) => {
                return Problem::Silent;
            }
            Exceeded::Size => {
                let message = format!(
                    "with this document the site takes more than the {whole} values that it may have once it is rendered"
                );
                Diagnostic::error("render-too-large", mark, message).hint(
                    "each document counts with all that it inherits, stands for by aliases and takes by substitutions and patterns: \
                     let fewer documents inherit a large parent, or take only the part of a document that is needed",
                )
            }
        };
        diagnostic.into()
    }
}

/// Where a pattern is replaced.
struct Place<'a> {
    path: &'a Path,
    /// The pattern.
    text: &'a Arc<str>,
    recurse_depth: Option<i64>,
    mark: Mark,
}

/// Why a pattern was not replaced.
enum Unfit {
    Kind(&'static str),
    Exceeded(Exceeded),
}

/// Replaces one pattern by one value in strings.
struct Replacer<'a> {
    pattern: &'a Pattern,
    text: &'a str,
    template: &'a Template,
    /// Where the value was written.
    mark: Mark,
    value: &'a Node,
    /// Whether it is secret, or holds a secret.
    is_secret: bool,
    budget: &'a mut Budget,
    replaced: usize,
}

impl Replacer<'_> {
    /// The string with all matches replaced; `None` if nothing matches.
    fn string(&mut self, node: &Node) -> Result<Option<Node>, Exceeded> {
        let Some(text) = node.as_str() else {
            return Ok(None);
        };
        self.budget.spend(text_size(text))?;
        let budget = &mut *self.budget;
        let changed = self
            .pattern
            .substitute(self.template, text, |effort| budget.spend_effort(effort));
        let Some(changed) = changed? else {
            return Ok(None);
        };
        self.budget.spend_text(&changed)?;
        self.replaced += 1;
        let is_secret = node.is_secret() || self.is_secret;
        let secret = is_secret.then(|| SecretOrigin::mixed(node, self.text, self.value));
        Ok(Some(Node {
            value: Value::string(changed),
            mark: self.mark,
            secret,
        }))
    }

    /// The list or map with all strings replaced down to a depth (negative: all); `None` if none is.
    fn below(&mut self, node: &Node, depth: i64) -> Result<Option<Node>, Exceeded> {
        if depth == 0 {
            return Ok(None);
        }
        let value = match &node.value {
            Value::Map(map) => {
                let mut changed: Option<Map> = None;
                for (key, field) in map.iter() {
                    if let Some(below) = self.each(&field.node, depth)? {
                        let field = Field {
                            key_mark: field.key_mark,
                            node: below,
                        };
                        changed
                            .get_or_insert_with(|| (**map).clone())
                            .insert(key.clone(), field);
                    }
                }
                changed.map(|map| Value::Map(Arc::new(map)))
            }
            Value::List(list) => {
                let mut changed: Option<Vec<Node>> = None;
                for (at, below) in list.iter().enumerate() {
                    if let Some(below) = self.each(below, depth)? {
                        changed.get_or_insert_with(|| (**list).clone())[at] = below;
                    }
                }
                changed.map(|list| Value::List(Arc::new(list)))
            }
            _ => None,
        };
        Ok(value.map(|value| Node {
            value,
            ..node.clone()
        }))
    }

    /// A value within a list or map. Deckhand looks for the pattern literally there, before it replaces it.
    fn each(&mut self, node: &Node, depth: i64) -> Result<Option<Node>, Exceeded> {
        match &node.value {
            Value::String(text) if text.contains(self.text) => self.string(node),
            Value::Map(_) | Value::List(_) => {
                self.below(node, if depth < 0 { -1 } else { depth - 1 })
            }
            _ => Ok(None),
        }
    }
}

/// Sets all fields of a map in another one.
fn update(ours: &mut Map, theirs: &Map, secret: Option<&SecretOrigin>) {
    for (key, field) in theirs.iter() {
        let mut field = field.clone();
        if !field.node.is_secret() {
            field.node.secret = secret.cloned();
        }
        ours.insert(key.clone(), field);
    }
}

/// A name close to that of a missing document.
fn suggestion(id: &DocumentId, documents: &[Arc<Document>]) -> Option<String> {
    if documents.iter().any(|document| document.id == *id) {
        return Some("it is abstract, and only concrete documents are sources".to_owned());
    }
    let concrete = || documents.iter().filter(|document| !document.is_abstract);
    let names = concrete().filter(|document| document.id.schema == id.schema);
    if let Some(name) = nearest(&id.name, names.map(|document| &*document.id.name)) {
        return Some(format!("did you mean `{}/{name}`?", id.schema));
    }
    let schemas = concrete().filter(|document| document.id.name == id.name);
    let schema = nearest(&id.schema, schemas.map(|document| &*document.id.schema))?;
    Some(format!("did you mean `{schema}/{}`?", id.name))
}
