//! The order in which documents are rendered, dependencies first, and the circles that have none.
//!
//! Tarjan's algorithm gives both in one walk. It keeps its own stack, because a chain of documents may be as long
//! as there are documents.

use std::collections::VecDeque;

use crate::diagnostic::{Diagnostic, Mark};

use super::dependencies::{Dependencies, DependencyKind, DocumentIndex, RouteStep};
use super::survey::{Survey, selector_mark};

/// How many documents of one circle a message names, and how many places it points to.
const SHOWN: usize = 50;

/// An order, and the circles.
pub(super) struct Order {
    /// All documents, what a document depends on before it, except within a circle.
    pub(super) sequence: Vec<usize>,
    /// Groups of documents that all depend on each other, each sorted.
    circles: Vec<Vec<usize>>,
}

const UNSEEN: u32 = u32::MAX;

/// Tarjan's walk over the dependencies.
struct Walk<'d> {
    dependencies: &'d Dependencies,
    number: Vec<u32>,
    low: Vec<u32>,
    is_open: Vec<bool>,
    open: Vec<usize>,
    next: u32,
    found: Order,
}

impl Walk<'_> {
    /// Goes through all that a document depends on.
    fn from(&mut self, start: usize) {
        // A document and how many of its dependencies are visited.
        let mut way = vec![(start, 0)];
        while let Some((at, edge)) = way.last_mut() {
            let at = *at;
            if *edge == 0 {
                self.enter(at);
            }
            let dependencies = self.dependencies.of(DocumentIndex::new(at));
            let dependency = dependencies.get(*edge);
            *edge += 1;
            if let Some(dependency) = dependency {
                let target = dependency.target.position();
                if self.number[target] == UNSEEN {
                    way.push((target, 0));
                } else if self.is_open[target] {
                    self.low[at] = self.low[at].min(self.number[target]);
                }
                continue;
            }
            way.pop();
            if let Some((above, _)) = way.last() {
                self.low[*above] = self.low[*above].min(self.low[at]);
            }
            if self.low[at] == self.number[at] {
                self.close(at);
            }
        }
    }

    fn enter(&mut self, at: usize) {
        self.number[at] = self.next;
        self.low[at] = self.next;
        self.next += 1;
        self.open.push(at);
        self.is_open[at] = true;
    }

    /// Takes out the group of documents that a document is the first of.
    fn close(&mut self, at: usize) {
        let from = self.open.iter().rposition(|member| *member == at);
        let mut group = self.open.split_off(from.unwrap_or(0));
        for member in &group {
            self.is_open[*member] = false;
        }
        group.sort_unstable();
        self.found.sequence.extend(&group);
        let mut dependencies = self.dependencies.of(DocumentIndex::new(at)).iter();
        let is_circle = group.len() > 1 || dependencies.any(|each| each.target.position() == at);
        if is_circle {
            self.found.circles.push(group);
        }
    }
}

impl Order {
    /// The order that dependencies ask for.
    pub(super) fn of(dependencies: &Dependencies) -> Self {
        let count = dependencies.len();
        let mut walk = Walk {
            dependencies,
            number: vec![UNSEEN; count],
            low: vec![0; count],
            is_open: vec![false; count],
            open: Vec::new(),
            next: 0,
            found: Self {
                sequence: Vec::with_capacity(count),
                circles: Vec::new(),
            },
        };
        for start in 0..count {
            if walk.number[start] == UNSEEN {
                walk.from(start);
            }
        }
        walk.found
    }

    /// Reports one whole circle of each group; all documents of the group fail.
    pub(super) fn report_cycles(&self, survey: &mut Survey<'_>, dependencies: &Dependencies) {
        for group in &self.circles {
            let circle = shortest(group, dependencies);
            for member in group {
                survey.fail_silently(*member);
            }
            let diagnostic = describe(survey, &circle);
            survey.diagnostics.extend(diagnostic);
        }
    }
}

/// The circle that ends with a step, from the document at which it begins.
fn way_back(
    group: &[usize],
    reached: &[Option<RouteStep>],
    last: RouteStep,
    start: DocumentIndex,
) -> Vec<RouteStep> {
    let mut at = last.from;
    let mut circle = vec![last];
    while at != start {
        let member = group.binary_search(&at.position()).ok();
        let Some(step) = member.and_then(|member| reached[member]) else {
            break;
        };
        at = step.from;
        circle.push(step);
    }
    circle.reverse();
    circle
}

/// The shortest circle through the first document of a group.
fn shortest(group: &[usize], dependencies: &Dependencies) -> Vec<RouteStep> {
    let Some(start) = group.first().copied().map(DocumentIndex::new) else {
        return Vec::new();
    };
    let mut reached: Vec<Option<RouteStep>> = vec![None; group.len()];
    let mut waiting = VecDeque::from([start]);
    while let Some(at) = waiting.pop_front() {
        for dependency in dependencies.of(at) {
            let step = RouteStep {
                from: at,
                dependency: *dependency,
            };
            if dependency.target == start {
                return way_back(group, &reached, step, start);
            }
            if let Ok(member) = group.binary_search(&dependency.target.position())
                && reached[member].is_none()
            {
                reached[member] = Some(step);
                waiting.push_back(dependency.target);
            }
        }
    }
    Vec::new()
}

fn describe(survey: &Survey<'_>, circle: &[RouteStep]) -> Option<Diagnostic> {
    let documents = survey.documents;
    let (first, others) = circle.split_first()?;
    let name = |index: DocumentIndex| format!("`{}`", documents[index.position()].id);
    let message = if others.is_empty() {
        format!("{} takes a value from itself", name(first.from))
    } else {
        let mut names: Vec<_> = circle
            .iter()
            .take(SHOWN)
            .map(|step| name(step.from))
            .collect();
        if circle.len() > SHOWN {
            names.push(format!("{} more", circle.len() - SHOWN));
        }
        names.push(name(first.from));
        format!(
            "documents depend on each other in a circle: {}",
            names.join(" → ")
        )
    };
    let diagnostic = Diagnostic::error("render-cycle", cause(survey, first), message);
    Some(
        others
            .iter()
            .take(SHOWN)
            .fold(diagnostic, |diagnostic, step| {
                let what = match step.dependency.kind {
                    DependencyKind::Substitution(_) => "takes a value from",
                    DependencyKind::Parent | DependencyKind::Replaces => "is layered on",
                };
                let text = format!(
                    "{} {what} {}",
                    name(step.from),
                    name(step.dependency.target)
                );
                diagnostic.related(cause(survey, step), text)
            }),
    )
}

/// The place in the document that makes it depend on the other one.
fn cause(survey: &Survey<'_>, step: &RouteStep) -> Mark {
    let document = &survey.documents[step.from.position()];
    match step.dependency.kind {
        DependencyKind::Substitution(position) => document
            .substitutions
            .get(position as usize)
            .map_or(document.name_mark, |substitution| substitution.source.mark),
        DependencyKind::Parent | DependencyKind::Replaces => selector_mark(document),
    }
}
