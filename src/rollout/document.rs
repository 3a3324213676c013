//! The document of a rollout, and the sites of its phases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use globset::GlobMatcher;

use crate::design::{SectionDigest, Share, schema};
use crate::diagnostic::{Diagnostic, Diagnostics, Mark, counted};
use crate::document::{Document, Node, Seconds, from_node};
use crate::guard;

/// A site as far as a rollout selects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSite {
    /// Its name.
    pub name: Arc<str>,
    /// The labels of its definition.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// The document of a rollout.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// Its name.
    pub name: Arc<str>,
    /// Digest of its data.
    pub digest: SectionDigest,
    /// Selectors, of which a site meets one; `None`: all sites.
    sites: Option<Vec<Selector>>,
    phases: Vec<WrittenPhase>,
    /// When it stops.
    pub stop: Stop,
    mark: Mark,
}

/// After which failures no further site is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// So many failed sites.
    pub sites: usize,
    /// So many failed nodes, or such a share of those that runs worked on.
    pub nodes: Option<Share>,
}

#[derive(Clone, Debug)]
struct Selector {
    names: Vec<Pattern>,
    labels: Option<Labels>,
    mark: Mark,
}

type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// A name of a site, or a glob over names.
#[derive(Clone, Debug)]
struct Pattern {
    text: Arc<str>,
    mark: Mark,
    glob: Option<GlobMatcher>,
}

#[derive(Clone, Debug)]
struct WrittenPhase {
    takes: Takes,
    soak: u64,
    mark: Mark,
}

#[derive(Clone, Debug)]
enum Takes {
    Sites(Vec<Pattern>),
    Labels(Labels),
    Percent {
        percent: usize,
        most: Option<usize>,
        domains: BTreeMap<Arc<str>, usize>,
    },
    Rest,
}

/// The sites of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Their names, sorted.
    pub sites: Vec<Arc<str>>,
    /// How long each has to be without drift before the next phase begins, in seconds.
    pub soak: u64,
}

/// All phases of a rollout, in their order; each site is in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The phases.
    pub all: Vec<Phase>,
    /// When the rollout stops.
    pub stop: Stop,
}

impl Phases {
    /// The phase of a site, counted from 0.
    #[must_use]
    pub fn of(&self, site: &str) -> Option<usize> {
        let has = |phase: &Phase| phase.sites.iter().any(|each| **each == *site);
        self.all.iter().position(has)
    }

    /// The names of all sites, phase by phase.
    pub fn sites(&self) -> impl Iterator<Item = &Arc<str>> {
        self.all.iter().flat_map(|phase| &phase.sites)
    }
}

impl Rollout {
    /// Reads a document; `Err`: all that is wrong with it.
    ///
    /// # Errors
    ///
    /// It does not keep its schema, or has what is done to documents of a site only.
    pub fn read(document: &Document) -> Result<Self, Diagnostics> {
        let mut found = schema::validate(&[(document, &document.data)], 1);
        if !document.substitutions.is_empty()
            || !document.actions.is_empty()
            || document.is_abstract
        {
            let message = "a rollout is read as it is written: it is not abstract, and has neither layering actions nor substitutions";
            let problem = Diagnostic::error("rule-rollout-not-as-written", document.mark, message);
            found.push(problem.hint("write its values into the document"));
        }
        let data = &document.data;
        let soak = seconds(data.get("soak"), &mut found).unwrap_or(0);
        let sites = data.get("sites").and_then(Node::as_list);
        let sites = sites.map(|all| all.iter().map(|each| selector(each, &mut found)).collect());
        let phases = data.get("phases").and_then(Node::as_list);
        let phases = phases.unwrap_or_default().iter();
        let phases: Vec<WrittenPhase> = phases
            .filter_map(|node| {
                let own = seconds(node.get("soak"), &mut found);
                Some(WrittenPhase {
                    takes: takes(node, &mut found)?,
                    soak: own.unwrap_or(soak),
                    mark: node.mark,
                })
            })
            .collect();
        for phase in phases.iter().rev().skip(1) {
            if matches!(phase.takes, Takes::Rest) {
                let message = "`rest` takes all sites, so that the phases after it have none";
                let problem = Diagnostic::error("rule-rollout-rest", phase.mark, message);
                found.push(problem.hint("move it to the end of `phases`"));
            }
        }
        let stop = stop(data, &mut found);
        match found.has_errors() {
            true => Err(found),
            false => Ok(Self {
                name: document.id.name.clone(),
                digest: SectionDigest::of(&document.data),
                sites,
                phases,
                stop,
                mark: data.mark,
            }),
        }
    }

    /// The sites of each phase.
    ///
    /// # Errors
    ///
    /// All that is wrong: sites that are unknown, phases without a site, sites without a phase.
    pub fn phases(&self, sites: &[RolloutSite]) -> Result<Phases, Diagnostics> {
        let mut found = Diagnostics::new();
        let names: Vec<&str> = sites.iter().map(|site| &*site.name).collect();
        let mut meant: Vec<&RolloutSite> = sites.iter().collect();
        if let Some(selectors) = &self.sites {
            for selector in selectors {
                for pattern in &selector.names {
                    pattern.known(&names, "in the repository", &mut found);
                }
                if !sites.iter().any(|site| selector.selects(site)) {
                    let message = "this selects no site of the repository";
                    let problem = Diagnostic::error("rule-rollout-nothing", selector.mark, message);
                    found.push(problem.hint("`trueup sites` lists the sites; their labels are `metadata.labels` of their definitions"));
                }
            }
            meant.retain(|site| selectors.iter().any(|selector| selector.selects(site)));
        }
        meant.sort_by(|one, other| one.name.cmp(&other.name));
        let own: Vec<&str> = meant.iter().map(|site| &*site.name).collect();
        let mut left: BTreeSet<&str> = own.iter().copied().collect();
        let mut all = Vec::new();
        for phase in &self.phases {
            if let Takes::Sites(patterns) = &phase.takes {
                for pattern in patterns {
                    pattern.known(&own, "in the rollout", &mut found);
                }
            }
            let free = meant.iter().filter(|site| left.contains(&*site.name));
            let free: Vec<&RolloutSite> = free.copied().collect();
            let taken = phase.takes.of(&free, meant.len());
            if taken.is_empty() {
                let message = "no site is left for this phase";
                let problem = Diagnostic::error("rule-rollout-nothing", phase.mark, message);
                found
                    .push(problem.hint("remove the phase, or let earlier phases take fewer sites"));
            }
            for name in &taken {
                left.remove(&**name);
            }
            all.push(Phase {
                sites: taken,
                soak: phase.soak,
            });
        }
        if !left.is_empty() {
            let some: Vec<&str> = left.iter().copied().take(3).collect();
            let more = if left.len() > some.len() { ", …" } else { "" };
            let message = format!(
                "{} of the rollout in no phase: {}{more}",
                counted(left.len(), "site is", "sites are"),
                some.join(", ")
            );
            let problem = Diagnostic::error("rule-rollout-left-out", self.mark, message);
            found.push(
                problem.hint("add `- rest: true` as the last phase, or select fewer in `sites`"),
            );
        }
        match found.has_errors() {
            true => Err(found),
            false => Ok(Phases {
                all,
                stop: self.stop,
            }),
        }
    }
}

impl Selector {
    fn selects(&self, site: &RolloutSite) -> bool {
        let is_named = |pattern: &Pattern| pattern.matches(&site.name);
        (self.names.is_empty() || self.names.iter().any(is_named))
            && self
                .labels
                .as_ref()
                .is_none_or(|labels| has_all(site, labels))
    }
}

impl Pattern {
    fn matches(&self, name: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.is_match(name),
            None => *self.text == *name,
        }
    }

    /// Reports that it is of no site.
    fn known(&self, names: &[&str], place: &str, found: &mut Diagnostics) {
        if names.iter().any(|name| self.matches(name)) {
            return;
        }
        let message = match self.glob {
            Some(_) => format!("no site {place} has a name such as `{}`", self.text),
            None => format!("there is no site `{}` {place}", self.text),
        };
        let problem = Diagnostic::error("rule-rollout-site-unknown", self.mark, message);
        let problem = problem.did_you_mean(&self.text, names.iter().copied());
        found.push(match problem.hint {
            None => problem.hint("`trueup sites` lists the sites of the repository"),
            Some(_) => problem,
        });
    }
}

impl Takes {
    /// The sites among those that no earlier phase has, which are sorted; `all`: how many the rollout has.
    fn of(&self, free: &[&RolloutSite], all: usize) -> Vec<Arc<str>> {
        let named = |takes: &dyn Fn(&RolloutSite) -> bool| {
            let taken = free.iter().filter(|site| takes(site));
            taken.map(|site| site.name.clone()).collect()
        };
        match self {
            Self::Sites(patterns) => named(&|site| {
                let mut patterns = patterns.iter();
                patterns.any(|pattern| pattern.matches(&site.name))
            }),
            Self::Labels(labels) => named(&|site| has_all(site, labels)),
            Self::Rest => named(&|_| true),
            Self::Percent {
                percent,
                most,
                domains,
            } => {
                let share = (all * percent).div_ceil(100);
                let share = most.map_or(share, |most| share.min(most));
                let mut taken = Vec::new();
                let mut counts: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
                for site in free {
                    if taken.len() == share {
                        break;
                    }
                    let of = |label: &Arc<str>| site.labels.get(label).map(|value| &**value);
                    let is_full = domains.iter().any(|(label, most)| {
                        counts
                            .get(&(&**label, of(label)))
                            .is_some_and(|count| count >= most)
                    });
                    if is_full {
                        continue;
                    }
                    for label in domains.keys() {
                        *counts.entry((&**label, of(label))).or_default() += 1;
                    }
                    taken.push(site.name.clone());
                }
                taken
            }
        }
    }
}

fn has_all(site: &RolloutSite, labels: &Labels) -> bool {
    let mut labels = labels.iter();
    labels.all(|(key, value)| site.labels.get(key) == Some(value))
}

fn selector(node: &Node, found: &mut Diagnostics) -> Selector {
    let names = node.get("names").and_then(Node::as_list);
    Selector {
        names: patterns(names.unwrap_or_default(), found),
        labels: node.get("labels").map(labels),
        mark: node.mark,
    }
}

fn patterns(names: &[Node], found: &mut Diagnostics) -> Vec<Pattern> {
    let names = names.iter().filter_map(|node| {
        let text: Arc<str> = Arc::from(node.as_str()?);
        let glob = guard::is_glob(&text).then(|| guard::glob(&text));
        let glob = match glob.transpose() {
            Ok(glob) => glob,
            Err(error) => {
                let problem = Diagnostic::error("rule-rollout-glob", node.mark, error.to_string());
                found.push(problem.hint("write the name of a site, or a glob such as `edge-*`"));
                None
            }
        };
        Some(Pattern {
            text,
            mark: node.mark,
            glob,
        })
    });
    names.collect()
}

fn labels(node: &Node) -> Labels {
    let fields = node.as_map().into_iter().flat_map(|map| map.iter());
    let fields = fields.filter_map(|(key, field)| {
        let value = field.node.as_str()?;
        Some((key.text.clone(), Arc::from(value)))
    });
    fields.collect()
}

fn takes(node: &Node, found: &mut Diagnostics) -> Option<Takes> {
    let number = |node: &Node| usize::try_from(node.whole_number()?).ok();
    if let Some(names) = node.get("sites").and_then(Node::as_list) {
        return Some(Takes::Sites(patterns(names, found)));
    }
    if let Some(wanted) = node.get("labels") {
        return Some(Takes::Labels(labels(wanted)));
    }
    if node.get("rest").is_some() {
        return Some(Takes::Rest);
    }
    let domains = node.get("domains").and_then(Node::as_map);
    let domains = domains.into_iter().flat_map(|map| map.iter());
    let domains = domains.filter_map(|(key, field)| Some((key.text.clone(), number(&field.node)?)));
    Some(Takes::Percent {
        percent: number(node.get("percent")?)?,
        most: node.get("max_sites").and_then(number),
        domains: domains.collect(),
    })
}

/// The whole seconds of a field, rounded up.
fn seconds(node: Option<&Node>, found: &mut Diagnostics) -> Option<u64> {
    match from_node::<Seconds>(node?) {
        Ok(seconds) => Some(seconds.get().max(0.0).ceil() as u64),
        Err(problem) => {
            let problem = problem.into_diagnostic("rule-rollout-soak");
            found.push(problem.hint("write seconds, or a duration such as `30m`"));
            None
        }
    }
}

fn stop(data: &Node, found: &mut Diagnostics) -> Stop {
    let stop = data.get("stop");
    let sites = stop.and_then(|stop| stop.get("failed_sites")?.whole_number());
    let nodes = stop.and_then(|stop| stop.get("failed_nodes"));
    let nodes = nodes.and_then(|node| {
        let share = match node.as_str() {
            Some(text) => text.replace(' ', "").parse(),
            None => Ok(Share::Machines(usize::try_from(node.whole_number()?).ok()?)),
        };
        share
            .map_err(|error| {
                found.push(
                    Diagnostic::error("rule-rollout-share", node.mark, error.to_string())
                        .hint("write a number of nodes, or a share such as `2%`"),
                );
            })
            .ok()
    });
    Stop {
        sites: sites
            .and_then(|sites| usize::try_from(sites).ok())
            .unwrap_or(1),
        nodes,
    }
}
