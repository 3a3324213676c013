//! Which machines a word means: one answer for every command, flag and request.
//!
//! A bare word is the name of a node, or a glob over names, and nothing else. What is wider has a prefix: `group:NAME`,
//! `rack:NAME`, `tag:NAME`, `label:KEY=VALUE`. So a machine and a tag of one name can never be taken for each other, and
//! no correction of a typing mistake offers more machines than were typed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use rustc_hash::FxHashSet;

use crate::design::{Design, Group, NodeName, Selector};
use crate::diagnostic::nearest;
use crate::record::NodeRecord;

use super::word_list::in_list;

/// The word for all machines.
pub const ALL: &str = "*";

/// The kinds of words that mean more than names say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// A deployment group, retired nodes among them.
    Group,
    /// A rack.
    Rack,
    /// A tag.
    Tag,
    /// A label and its value.
    Label,
}

impl WordKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Group, Self::Rack, Self::Tag, Self::Label];

    /// Its name, which is the prefix of its words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Rack => "rack",
            Self::Tag => "tag",
            Self::Label => "label",
        }
    }

    /// The word of this kind for a name.
    #[must_use]
    pub fn word(self, name: &str) -> String {
        format!("{}:{name}", self.as_str())
    }
}

/// The kind and the name of a word that has a prefix.
fn prefixed(word: &str) -> Option<(WordKind, &str)> {
    let (prefix, name) = word.split_once(':')?;
    let mut kinds = WordKind::ALL.into_iter();
    Some((kinds.find(|kind| kind.as_str() == prefix)?, name))
}

/// Whether a word is a name or a glob, so that it can be compared with a name where no design is at hand.
#[must_use]
pub fn is_by_name(word: &str) -> bool {
    prefixed(word).is_none()
}

/// Whether a word is a glob.
#[must_use]
pub fn is_glob(word: &str) -> bool {
    word.contains(['*', '?', '[', '{'])
}

/// Checks a word if no design is at hand.
///
/// # Errors
///
/// It could mean no machine of any site.
pub fn check_word(word: &str) -> Result<(), WordError> {
    let is_label = |name: &str| name.split_once('=').is_some_and(|(key, _)| !key.is_empty());
    let none = |near: Option<String>| WordError::Node {
        word: word.into(),
        near: near.map(Arc::from),
        wider: Vec::new(),
    };
    match (prefixed(word), word.split_once(':')) {
        (Some((WordKind::Label, name)), _) if !is_label(name) => {
            Err(WordError::Label { name: name.into() })
        }
        (Some((_, "")), _) => Err(none(None)),
        (Some(_), _) => Ok(()),
        (None, Some((prefix, name))) => {
            let known = WordKind::ALL.iter().map(|kind| kind.as_str());
            Err(none(
                nearest(prefix, known).map(|near| format!("{near}:{name}")),
            ))
        }
        (None, None) if word.is_empty() => Err(none(None)),
        (None, None) if is_glob(word) => glob(word).map(drop),
        (None, None) => Ok(()),
    }
}

/// The matcher of a glob.
///
/// # Errors
///
/// It is none.
pub fn glob(word: &str) -> Result<GlobMatcher, WordError> {
    let glob = GlobBuilder::new(word).build();
    let glob = glob.map_err(|error| WordError::Pattern {
        word: Arc::from(word),
        reason: Arc::from(error.kind().to_string()),
    })?;
    Ok(glob.compile_matcher())
}

/// Why a word means no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// No node has this name.
    #[error("unknown node `{word}`{}", hint(.word, .near.as_ref(), .wider))]
    Node {
        /// The word.
        word: Arc<str>,
        /// The nearest name of a node.
        near: Option<Arc<str>>,
        /// The words by which a group, a rack or a tag of this name is meant.
        wider: Vec<Arc<str>>,
    },
    /// No node has a name that a glob matches.
    #[error("no node matches `{word}`")]
    Glob {
        /// The word.
        word: Arc<str>,
    },
    /// No group, rack, tag or label has this name.
    #[error("unknown {} `{name}`{}", .kind.as_str(), hint("", .near.as_ref(), &[]))]
    Name {
        /// Of which kind.
        kind: WordKind,
        /// The name.
        name: Arc<str>,
        /// The nearest name of that kind.
        near: Option<Arc<str>>,
    },
    /// A label without a value.
    #[error("`label:{name}` is not of the form `label:KEY=VALUE`")]
    Label {
        /// As it was written, without its prefix.
        name: Arc<str>,
    },
    /// A glob that is none.
    #[error("`{word}` is not a pattern: {reason}")]
    Pattern {
        /// The word.
        word: Arc<str>,
        /// Why not.
        reason: Arc<str>,
    },
}

fn hint(word: &str, near: Option<&Arc<str>>, wider: &[Arc<str>]) -> String {
    if word == "all" {
        return format!(
            "; `{ALL}`, quoted, means every machine, and `--all` where an action names its nodes"
        );
    }
    match (wider, near) {
        ([], None) => String::new(),
        ([], Some(near)) => format!("; did you mean `{}`?", in_list(near)),
        (wider, _) => {
            let words: Vec<String> = wider.iter().map(|word| format!("`{word}`")).collect();
            format!("; for more than a node, pass {}", words.join(" or "))
        }
    }
}

impl WordError {
    /// Whether the word could be read, and means nothing of this site.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        match self {
            Self::Node { .. } | Self::Glob { .. } | Self::Name { .. } => true,
            Self::Label { .. } | Self::Pattern { .. } => false,
        }
    }
}

/// The machines that words can mean: the designed nodes, and those that only records know.
#[derive(Clone, Copy)]
pub struct Machines<'a> {
    design: &'a Design,
    groups: &'a [Group],
    records: &'a BTreeMap<NodeName, NodeRecord>,
}

impl<'a> Machines<'a> {
    /// The machines of a design and its records, and the groups that hold.
    #[must_use]
    pub const fn new(
        design: &'a Design,
        groups: &'a [Group],
        records: &'a BTreeMap<NodeName, NodeRecord>,
    ) -> Self {
        Self {
            design,
            groups,
            records,
        }
    }

    /// Every node, sorted by name.
    pub fn all(self) -> impl Iterator<Item = &'a NodeName> {
        let mut designed = self.design.nodes.keys().peekable();
        let mut recorded = self.records.keys().peekable();
        std::iter::from_fn(move || match (designed.peek(), recorded.peek()) {
            (Some(one), Some(other)) if other < one => recorded.next(),
            (Some(one), other) => {
                if other == Some(one) {
                    recorded.next();
                }
                designed.next()
            }
            (None, _) => recorded.next(),
        })
    }

    /// The nodes that any of some words means.
    ///
    /// # Errors
    ///
    /// A word means none: a typing mistake must turn neither into "nothing to do" nor into everything.
    pub fn select(
        self,
        words: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<FxHashSet<&'a NodeName>, WordError> {
        let mut selected = FxHashSet::default();
        for word in words {
            selected.extend(self.meant_by(word.as_ref())?);
        }
        Ok(selected)
    }

    /// The words with the names of the nodes in the place of those that name nodes by something else, for if no
    /// design is at hand.
    ///
    /// # Errors
    ///
    /// As [`Self::select`].
    pub fn by_name(self, words: &BTreeSet<Arc<str>>) -> Result<BTreeSet<Arc<str>>, WordError> {
        let mut names = BTreeSet::new();
        for word in words {
            let nodes = self.meant_by(word)?;
            match is_by_name(word) {
                true => names.extend([word.clone()]),
                false => names.extend(nodes.into_iter().map(|node| Arc::from(node.as_str()))),
            }
        }
        Ok(names)
    }

    /// The nodes that a word means.
    ///
    /// # Errors
    ///
    /// As [`Self::select`].
    pub fn meant_by(self, word: &str) -> Result<Vec<&'a NodeName>, WordError> {
        if let Some(node) = self.find(word) {
            return Ok(vec![node]);
        }
        if let Some((kind, name)) = prefixed(word) {
            // As it stands in a list, too.
            return self.of_kind(kind, &name.replace("\\,", ","));
        }
        if is_glob(word) {
            let glob = glob(word)?;
            let nodes: Vec<_> = self
                .all()
                .filter(|node| glob.is_match(node.as_str()))
                .collect();
            // A site without nodes has none to take, which is no mistake.
            return match nodes.is_empty() && word != ALL {
                true => Err(WordError::Glob { word: word.into() }),
                false => Ok(nodes),
            };
        }
        let wider = [WordKind::Group, WordKind::Rack, WordKind::Tag].into_iter();
        Err(WordError::Node {
            word: word.into(),
            near: nearest(word, self.all().map(NodeName::as_str)).map(Arc::from),
            wider: wider
                .filter(|kind| self.of_kind(*kind, word).is_ok())
                .map(|kind| kind.word(word).into())
                .collect(),
        })
    }

    /// The nodes of a group, a rack, a tag or a label.
    ///
    /// # Errors
    ///
    /// There is none of this name, or a label has no value.
    pub fn of_kind(self, kind: WordKind, name: &str) -> Result<Vec<&'a NodeName>, WordError> {
        let one = || BTreeSet::from([Arc::from(name)]);
        let all = Selector::default;
        let selector = match kind {
            WordKind::Group => {
                let mut groups = self.groups.iter();
                let group = groups.find(|group| group.name.as_str() == name);
                let unknown = || self.unknown(kind, name);
                return Ok(group.ok_or_else(unknown)?.nodes(self.design));
            }
            WordKind::Rack => Selector {
                rack_names: one(),
                ..all()
            },
            WordKind::Tag => Selector {
                node_tags: one(),
                ..all()
            },
            WordKind::Label => {
                let pair = name.split_once('=').filter(|(key, _)| !key.is_empty());
                let (key, value) = pair.ok_or_else(|| WordError::Label { name: name.into() })?;
                let pair = (Arc::from(key), Arc::from(value));
                Selector {
                    node_labels: BTreeSet::from([pair]),
                    ..all()
                }
            }
        };
        let nodes = selector.nodes(self.design);
        match nodes.is_empty() {
            true => Err(self.unknown(kind, name)),
            false => Ok(nodes),
        }
    }

    fn unknown(self, kind: WordKind, name: &str) -> WordError {
        let nodes = || self.design.nodes.values();
        let known: BTreeSet<&str> = match kind {
            WordKind::Group => self
                .groups
                .iter()
                .map(|group| group.name.as_str())
                .collect(),
            WordKind::Rack => nodes().filter_map(|node| node.rack.as_deref()).collect(),
            WordKind::Tag => nodes()
                .flat_map(|node| node.tags.iter().map(|tag| &**tag))
                .collect(),
            WordKind::Label => BTreeSet::new(),
        };
        WordError::Name {
            kind,
            name: name.into(),
            near: nearest(name, known).map(Arc::from),
        }
    }

    fn find(self, name: &str) -> Option<&'a NodeName> {
        let designed = self.design.nodes.get_key_value(name).map(|(name, _)| name);
        designed.or_else(|| self.records.get_key_value(name).map(|(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{Site, site};

    /// A node, a tag and a rack that are all called `db`, a group `db` with two others, and these.
    fn documented() -> Site {
        let node = |name: &str, rack: &str, tags: &str| {
            format!(
                "---\nschema: drydock/BaremetalNode/v1\nmetadata: {{name: {name}}}\ndata: {{metadata: {{rack: {rack}, \
                 tags: [{tags}], owner_data: {{role: r{rack}}}}}}}\n"
            )
        };
        let strategy = "---\nschema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\n\
             data: {groups: [{name: db, critical: true, depends_on: [], selectors: [{rack_names: [r2]}]}]}\n";
        let nodes = [
            node("db", "db", "db"),
            node("db-replica", "r2", "db"),
            node("web", "r2", ""),
        ];
        site(&(nodes.concat() + strategy))
    }

    fn meant(site: &Site, word: &str) -> String {
        let records = BTreeMap::new();
        match Machines::new(&site.design, &site.guards.groups, &records).meant_by(word) {
            Ok(nodes) => {
                let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
                names.join(" ")
            }
            Err(error) => format!("! {error}"),
        }
    }

    #[test]
    fn a_bare_word_is_a_node_and_what_is_wider_has_a_prefix() {
        let site = documented();
        for (word, expected) in [
            ("db", "db"),
            ("db*", "db db-replica"),
            ("*", "db db-replica web"),
            ("tag:db", "db db-replica"),
            ("rack:db", "db"),
            ("group:db", "db-replica web"),
            ("label:role=rr2", "db-replica web"),
            (
                "r2",
                "! unknown node `r2`; for more than a node, pass `rack:r2`",
            ),
            ("we", "! unknown node `we`; did you mean `web`?"),
            ("x*", "! no node matches `x*`"),
            ("rack:r3", "! unknown rack `r3`"),
            ("tag:dbs", "! unknown tag `dbs`; did you mean `db`?"),
            ("group:none", "! unknown group `none`"),
            ("label:role=r9", "! unknown label `role=r9`"),
            (
                "label:role",
                "! `label:role` is not of the form `label:KEY=VALUE`",
            ),
            ("host:db", "! unknown node `host:db`"),
            (
                "db[",
                "! `db[` is not a pattern: unclosed character class; missing ']'",
            ),
        ] {
            assert_eq!(meant(&site, word), expected, "{word}");
        }
    }

    #[test]
    fn a_word_that_can_mean_no_machine_is_refused_before_a_design_is_read() {
        for word in ["n1", "n*", "rack:r1", "group:any", "tag:x", "label:a=b"] {
            assert_eq!(check_word(word), Ok(()), "{word}");
        }
        for word in ["", "n[", "rack:", "label:a", "label:=b", "host:n1"] {
            assert!(check_word(word).is_err(), "{word}");
        }
        let near = check_word("rak:r1").unwrap_err().to_string();
        assert_eq!(near, "unknown node `rak:r1`; did you mean `rack:r1`?");
    }

    #[test]
    fn a_correction_never_offers_more_machines_than_a_name() {
        let site = documented();
        // The nearest of all names would be that of the rack.
        assert_eq!(meant(&site, "r22"), "! unknown node `r22`");
    }

    #[test]
    fn where_no_design_is_at_hand_each_node_stands_by_its_name() {
        let site = documented();
        let records = BTreeMap::new();
        let words = BTreeSet::from(["db*", "group:db"].map(Arc::from));
        let names = Machines::new(&site.design, &site.guards.groups, &records)
            .by_name(&words)
            .unwrap();
        assert_eq!(
            names,
            BTreeSet::from(["db*", "db-replica", "web"].map(Arc::from))
        );
    }
}
