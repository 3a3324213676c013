//! A design that a caller has from Deckhand, held against the one that is committed here.
//!
//! Such documents guard nothing and plan nothing: they are not in git, anyone who writes to Deckhand writes them, and a
//! run could not be resumed from them. What they say of nodes and etcd clusters is the caller's precondition: the action is
//! planned from the committed design, and refused if the two differ in what it is about.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{AS_APPLIED, Checkout, Failure, FailureKind};
use crate::design::{EtcdCluster, Guards, NodeName};
use crate::diagnostic::Severity;
use crate::site::{At, Depth, Detail, Loader, RenderedText, Settings};

/// The errors in documents that are listed.
const MOST: usize = 10;

/// The nodes and etcd clusters of documents that Deckhand has rendered; nothing else of them is held.
#[derive(Clone, Debug)]
pub struct RenderedDesign {
    name: Arc<str>,
    nodes: BTreeSet<NodeName>,
    etcd_clusters: Vec<EtcdCluster>,
}

impl RenderedDesign {
    /// Reads documents as those of the site that is checked out.
    ///
    /// # Errors
    ///
    /// They have errors, or git fails.
    pub fn read(checkout: &Checkout<'_>, text: RenderedText<'_>) -> Result<Self, Failure> {
        // The guards of the site are not put into it: what it says of them is compared with them.
        let mut loader = Loader::new(checkout.repository);
        let settings = Settings {
            depth: Depth::Typed,
            detail: Detail::Designs,
            ..AS_APPLIED
        };
        let at = At::Commit(checkout.head()?);
        let site = loader.load_rendered(&checkout.location, at, text, settings)?;
        let found = site.diagnostics.iter();
        let errors: Vec<String> = found
            .filter(|each| each.severity == Severity::Error)
            .map(|each| match each.mark {
                Some(mark) => format!("{}: {}", loader.sources().place(mark), each.message),
                None => each.message.clone(),
            })
            .collect();
        if !errors.is_empty() {
            let more = errors.len().saturating_sub(MOST);
            let more = (more > 0).then(|| format!("and {more} more"));
            let message = format!("the documents of {} have errors", text.name);
            return Err(Failure::error(message).details(errors.into_iter().take(MOST).chain(more)));
        }
        Ok(Self {
            name: Arc::from(text.name),
            nodes: site.design.nodes.keys().cloned().collect(),
            etcd_clusters: site.documented_guards.etcd_clusters.clone(),
        })
    }

    /// Refuses an action on a node of which these documents say something else than the committed design.
    ///
    /// # Errors
    ///
    /// They do not have the node, or its etcd clusters differ.
    pub fn agrees_on(&self, node: &str, guards: &Guards) -> Result<(), Failure> {
        if !self.nodes.contains(node) {
            let text = format!("{} has no node `{node}`", self.name);
            return Err(Failure::new(FailureKind::NotFound, text));
        }
        let has_node = |cluster: &&EtcdCluster| {
            let mut members = cluster.members.iter();
            members.any(|member| member.node.as_str() == node)
        };
        let here: Vec<&EtcdCluster> = guards.etcd_clusters.iter().filter(has_node).collect();
        let there = self.etcd_clusters.iter().filter(has_node);
        let there: Vec<&EtcdCluster> = there.collect();
        let absent = here.iter().find(|one| named(&there, one).is_none());
        if let Some(cluster) = absent {
            return Err(self.differs(format!(
                "there the node is in no etcd cluster `{}`",
                cluster.name
            )));
        }
        there
            .iter()
            .try_for_each(|cluster| match named(&here, cluster) {
                Some(own) => self.has_members(own, cluster),
                None => Err(self.differs(format!(
                    "here the node is in no etcd cluster `{}`",
                    cluster.name
                ))),
            })
    }

    /// The etcd clusters that these documents name, as the committed design has them.
    ///
    /// # Errors
    ///
    /// They name none, or one that the committed design does not have or has with other members.
    pub fn clusters<'d>(&self, guards: &'d Guards) -> Result<Vec<&'d EtcdCluster>, Failure> {
        let named_there = &self.etcd_clusters;
        if named_there.is_empty() {
            let text = format!("{} has no etcd clusters", self.name);
            return Err(Failure::new(FailureKind::NotFound, text));
        }
        let own: Vec<&EtcdCluster> = guards.etcd_clusters.iter().collect();
        named_there
            .iter()
            .map(|cluster| match named(&own, cluster) {
                Some(found) => self.has_members(found, cluster).map(|()| found),
                None => {
                    let text = format!(
                        "the etcd cluster `{}` of {} is none of the committed design",
                        cluster.name, self.name
                    );
                    Err(Failure::new(FailureKind::NotFound, text))
                }
            })
            .collect()
    }

    fn has_members(&self, own: &EtcdCluster, other: &EtcdCluster) -> Result<(), Failure> {
        match members(own) == members(other) {
            true => Ok(()),
            false => Err(self.differs(format!(
                "the etcd cluster `{}` has other members there",
                own.name
            ))),
        }
    }

    fn differs(&self, what: String) -> Failure {
        let text = format!("{} differs from the committed design: {what}", self.name);
        Failure::new(FailureKind::Guard, text)
            .hint("commit the design of both, or name a revision of git as the design reference")
    }
}

fn named<'d>(clusters: &[&'d EtcdCluster], wanted: &EtcdCluster) -> Option<&'d EtcdCluster> {
    let mut found = clusters.iter().filter(|one| one.name == wanted.name);
    found.next().copied()
}

/// The members of a cluster by what tells them apart, in the order of their names.
fn members(cluster: &EtcdCluster) -> Vec<[&str; 4]> {
    let each = cluster.members.iter().map(|member| {
        [
            member.node.as_str(),
            &member.name,
            &member.peer_url,
            &member.client_url,
        ]
    });
    let mut members: Vec<[&str; 4]> = each.collect();
    members.sort_unstable();
    members
}
