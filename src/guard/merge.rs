//! The guards that hold for a design, of all the revisions that have a say.
//!
//! Where a plan is of an older revision, only what machines are made of comes from that: how they are reached and whether
//! they may be touched is of now. What several revisions have a say in holds as the stricter has it, with the defaults of
//! each filled in: a limit that one of them leaves out is the default there, and no absence of a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use super::table::{Join, TABLE};
use crate::design::{
    Design, Documented, Guards, MovedMember, NodeDesign, NodeName, Retirement, Section,
};

/// The kind of plan that guards are merged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeFor {
    /// An update, which sets and unsets by the newest documents what an action is held by.
    Update,
    /// An action, or a plan of an older revision.
    Action,
}

/// The revisions that have a say in what may be done.
#[derive(Clone, Copy, Debug)]
pub struct Revisions<'a> {
    /// The newest, or the protected one in its place.
    pub newest: &'a Documented,
    /// The one that machines are made of, if it is another.
    pub older: Option<OlderRevision<'a>>,
    /// The one whose guards are in force, if it is another.
    pub in_force: Option<(&'a Documented, MergeFor)>,
}

/// An older revision that machines are made of.
#[derive(Clone, Copy, Debug)]
pub struct OlderRevision<'a> {
    /// Its documents.
    pub site: &'a Documented,
    /// Its name.
    pub revision: &'a str,
    /// The machines, those that an action names; `None`: all, in a plan of the whole site at that revision.
    pub nodes: Option<&'a BTreeSet<NodeName>>,
}

/// The older revision that some machines of a design are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltOf {
    /// The revision.
    pub revision: Arc<str>,
    /// Sections in which a machine is made otherwise than the newest revision says.
    pub differing: BTreeMap<NodeName, Vec<Section>>,
    /// Members of etcd clusters that the two place on different nodes.
    pub moved_members: Vec<MovedMember>,
}

/// A design, and the guards that hold for it: [`Guarded::resolve`] alone puts the two together.
#[derive(Clone, Debug)]
pub struct Guarded {
    design: Arc<Design>,
    guards: Arc<Guards>,
    built_of: Option<Arc<BuiltOf>>,
}

impl Deref for Guarded {
    type Target = Design;

    fn deref(&self) -> &Design {
        &self.design
    }
}

impl Guarded {
    /// A design under the guards of all revisions that have a say.
    #[must_use]
    pub fn resolve(revisions: &Revisions<'_>) -> Self {
        let newest = revisions.newest;
        let mut guarded = match &revisions.older {
            None => Self::under_one(newest),
            Some(older) => match older.nodes {
                None => planned_at(newest, older.site),
                Some(names) => built_of(newest, older, names),
            },
        };
        if let Some((in_force, purpose)) = revisions.in_force {
            let guards = Arc::make_mut(&mut guarded.guards);
            merge_guards(guards, &guarded.design, in_force, purpose);
        }
        guarded
    }

    /// A design under the guards of one revision, for what only observes the site.
    #[must_use]
    pub fn under_one(revision: &Documented) -> Self {
        Self {
            design: revision.design.clone(),
            guards: revision.guards.clone(),
            built_of: None,
        }
    }

    /// A design under guards that were written in a test.
    #[cfg(test)]
    pub(crate) fn of_test(design: &Design, guards: &Guards) -> Self {
        Self::under_one(&Documented {
            design: Arc::new(design.clone()),
            guards: Arc::new(guards.clone()),
        })
    }

    /// Another loading of the same machines under the same guards: what is wrong with them is found with its place.
    #[must_use]
    pub fn explained_by(&self, design: &Arc<Design>) -> Self {
        Self {
            design: design.clone(),
            ..self.clone()
        }
    }

    /// The guards that hold.
    #[must_use]
    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// The older revision that some of its machines are made of.
    #[must_use]
    pub fn built_of(&self) -> Option<&BuiltOf> {
        self.built_of.as_deref()
    }

    /// All nodes that are retired on a day (`YYYY-MM-DD`), each with the first entry that names it.
    #[must_use]
    pub fn retired(&self, as_of: &str) -> BTreeMap<&NodeName, &Retirement> {
        self.guards.retired(&self.design, as_of)
    }
}

/// Adds the guards of another revision to those of a design, so that both hold.
pub(super) fn merge_guards(
    guards: &mut Guards,
    design: &Design,
    other: &Documented,
    purpose: MergeFor,
) {
    for guard in &TABLE {
        match guard.join {
            Join::Both(join) => join(guards, design, other),
            Join::BothInActions(join) if purpose == MergeFor::Action => join(guards, design, other),
            Join::BothInActions(_) | Join::Newest | Join::AtOnce(_) => {}
        }
    }
}

/// The whole site as the older revision says, under the guards of both.
fn planned_at(newest: &Documented, older: &Documented) -> Guarded {
    let mut guards = Guards::clone(&newest.guards);
    merge_guards(&mut guards, newest, older, MergeFor::Action);
    // Its machines are of the older revision: expected elsewhere is what the newest expects, and the protected one, as found
    // for that revision.
    let elsewhere = &older.guards.expected_elsewhere;
    guards.expected_elsewhere.clone_from(elsewhere);
    super::join::expected_parts(&mut guards, older, newest);
    // The groups that a plan of the whole site goes through are those it was made with.
    guards.groups.clone_from(&older.guards.groups);
    guards.cleaning.clone_from(&older.guards.cleaning);
    guards.configuration = older.guards.configuration.clone();
    // What is planned is that revision: the guards that it changes are named, not those of the commit at hand.
    guards.from.clone_from(&older.guards.from);
    Guarded {
        design: older.design.clone(),
        guards: Arc::new(guards),
        built_of: None,
    }
}

/// The newest, in which the named machines are made of what the older revision says.
fn built_of(newest: &Documented, older: &OlderRevision<'_>, names: &BTreeSet<NodeName>) -> Guarded {
    let OlderRevision { site, revision, .. } = *older;
    // Of a revision that machines are only built of, the question remains which node is which member.
    let mut guards = Guards::clone(&newest.guards);
    super::join::etcd_clusters(&mut guards, newest, site);
    let mut differing = BTreeMap::new();
    let mut all = newest.nodes.clone();
    for name in names {
        let now = newest.nodes.get(name);
        let Some(then) = site.nodes.get(name) else {
            all.remove(name);
            continue;
        };
        let node = match now {
            Some(now) => Arc::new(then.reached_as(now)),
            None => then.clone(),
        };
        if let Some(now) = now {
            let sections = differing_sections(&node, now);
            if !sections.is_empty() {
                differing.insert(name.clone(), sections);
            }
        }
        all.insert(name.clone(), node);
    }
    let mut design = Design::clone(newest);
    design.set_nodes(all);
    let built_of = BuiltOf {
        revision: Arc::from(revision),
        differing,
        moved_members: moved(&newest.guards, &site.guards),
    };
    Guarded {
        design: Arc::new(design),
        guards: Arc::new(guards),
        built_of: Some(Arc::new(built_of)),
    }
}

fn differing_sections(then: &NodeDesign, now: &NodeDesign) -> Vec<Section> {
    let differs = |section: &Section| now.differs_in(*section, then);
    Section::ALL.into_iter().filter(differs).collect()
}

/// The members that the revisions place on different nodes.
fn moved(newest: &Guards, older: &Guards) -> Vec<MovedMember> {
    let mut moved = Vec::new();
    for then in &older.etcd_clusters {
        let now = newest.etcd_clusters.iter();
        for now in now.filter(|now| now.name == then.name) {
            let pairs = now.members.iter().flat_map(|now| {
                let then = then.members.iter();
                then.filter_map(move |then| MovedMember::of(now, then))
            });
            moved.extend(pairs);
        }
    }
    moved
}
