//! The world into the documents: if a machine is right and its document wrong, its value is written if the field
//! comes from.
//!
//! A value is replaced in its place if all machines that have it from there want the same one, else the machine gets a field
//! of its own in its document, which is the narrowest layer. The machines of all sites of the repository count, since sites share
//! layers. The edited sites are loaded again before anything is kept: each field has its value, and no other machine's design has
//! changed, or all files are as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::neighbours::{self, Neighbour, NeighbourSite, neighbours};
use super::{Checkout, Client, Failure, FailureKind, Planned, refuse_errors};
use crate::adopt::{Edit, Fields, edited, insertions, replacement};
use crate::design::{FieldPattern, NodeDesign, NodeName, Section};
use crate::diagnostic::{Mark, Place, SourceId};
use crate::diff::path_of;
use crate::document::{Document, Map, Node, Value};
use crate::plan::no_difference;
use crate::site::{At, Depth, Detail, Loader, Settings, Site};

/// A field of a machine that its document has otherwise than the machine.
#[derive(Clone, Debug)]
pub struct WrittenField {
    /// The machine.
    pub node: NodeName,
    /// The field, as plans name it.
    pub path: String,
    /// The names of which the path is made.
    pub names: Vec<Arc<str>>,
    /// Its value in the documents, as it was.
    pub before: Option<String>,
    /// Its value on the machine; `None`: it has none.
    pub after: Option<String>,
    /// Where it was written: file, line and column as they were before.
    pub place: Place,
    /// Whether the machine has it for its own now, since others have the old value from the same place.
    pub is_own: bool,
}

/// The fields that were written, and those that were not.
#[derive(Clone, Debug, Default)]
pub struct WriteBack {
    /// Those that were written.
    pub written: Vec<WrittenField>,
    /// Those that a person has to write: the machine, the field, and why.
    pub left: Vec<(NodeName, String, String)>,
}

/// A field that is to be written.
struct Wanted {
    node: NodeName,
    section: Section,
    path: Vec<Arc<str>>,
    old: Option<Node>,
    new: Option<Value>,
}

impl Wanted {
    fn name(&self) -> String {
        path_of(self.path.iter().map(|name| &**name))
    }
}

/// Writes the values of machines into the documents of the worktree.
///
/// # Errors
///
/// The documents cannot be loaded or written; the edited ones are not what was wanted, and then they are as they were.
pub fn write_back(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    planned: &Planned,
    nodes: &BTreeSet<NodeName>,
    fields: &[FieldPattern],
) -> Result<WriteBack, Failure> {
    let mut loader = checkout.loader()?;
    let site = load(client, checkout, &mut loader)?;
    let mut result = WriteBack::default();
    let mut wanted = Vec::new();
    for node in nodes {
        if let Some(design) = site.design.nodes.get(node) {
            differing(planned, design, &mut wanted, &mut result.left);
        }
    }
    let is_selected =
        |path: &str| fields.is_empty() || fields.iter().any(|field| field.matches(path));
    let paths: BTreeSet<String> = wanted.iter().map(Wanted::name).collect();
    let left = result.left.iter().map(|(_, path, _)| &**path);
    let paths: BTreeSet<&str> = paths.iter().map(|path| &**path).chain(left).collect();
    let mut patterns = fields.iter();
    let wrong = patterns.find(|field| !paths.iter().any(|path| field.matches(path)));
    if let (Some(wrong), false) = (wrong, paths.is_empty()) {
        let why = no_difference(wrong.as_str(), paths.iter().copied());
        return Err(Failure::new(FailureKind::Usage, why));
    }
    wanted.retain(|each| is_selected(&each.name()));
    result.left.retain(|(_, path, _)| is_selected(path));
    let fields = fields_of(&wanted);
    let others = neighbours(checkout, &mut loader, &fields);
    let edits = edits((&site, &others), &loader, wanted, &mut result);
    if edits.is_empty() {
        return Ok(result);
    }
    let before = write(checkout, &loader, &edits)?;
    let edited = edits.keys().map(|source| loader.sources().path(*source));
    let edited: BTreeSet<Arc<str>> = edited.collect();
    let verified = verify(client, checkout, &site, nodes, &result)
        .and_then(|()| verify_neighbours(checkout, &others, &edited));
    if let Err(failure) = verified {
        for (path, text) in &before {
            put(checkout, path, text)?;
        }
        return Err(failure);
    }
    Ok(result)
}

fn load(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    loader: &mut Loader<'_>,
) -> Result<Site, Failure> {
    let settings = Settings {
        depth: Depth::Checked,
        detail: Detail::Documents,
        accept: super::AS_APPLIED.accept,
    };
    let site = loader.load(&checkout.location, At::Worktree, settings)?;
    refuse_errors(client, loader, Depth::Typed, site)
}

/// The fields in which a machine is otherwise than its documents.
fn differing(
    planned: &Planned,
    design: &NodeDesign,
    wanted: &mut Vec<Wanted>,
    left: &mut Vec<(NodeName, String, String)>,
) {
    let name = &design.name;
    if let Some(installed) = planned.applied.get(name) {
        for section in [
            Section::Hardware,
            Section::OperatingSystem,
            Section::Storage,
            Section::Network,
        ] {
            let value =
                |design: &NodeDesign| Some(design.sections.get(&section)?.to_node().into_owned());
            let mut walk = Walk {
                node: name,
                section,
                path: Vec::new(),
                wanted: &mut *wanted,
                left: &mut *left,
            };
            walk.compare(value(design).as_ref(), value(installed).as_ref());
        }
    }
    let observed = planned
        .observations
        .as_ref()
        .and_then(|all| all.node(name.as_str()));
    let Some(Some(cluster)) = observed.and_then(|observed| observed.cluster.known()) else {
        return;
    };
    let Some(labels) = design.sections.get(&Section::Labels) else {
        return;
    };
    let designed = labels
        .at(&["metadata", "owner_data"])
        .and_then(Node::as_map);
    for (key, field) in designed.into_iter().flat_map(Map::iter) {
        let found = cluster.labels.get(&key.text);
        if found.is_some() && found.map(|found| &**found) == field.node.scalar_text().as_deref() {
            continue;
        }
        wanted.push(Wanted {
            node: name.clone(),
            section: Section::Labels,
            path: vec!["metadata".into(), "owner_data".into(), key.text.clone()],
            old: Some(field.node.clone()),
            new: found.map(|found| Value::String(found.clone())),
        });
    }
}

/// A comparison of a designed and an installed value, down to scalars.
struct Walk<'w> {
    node: &'w NodeName,
    section: Section,
    path: Vec<Arc<str>>,
    wanted: &'w mut Vec<Wanted>,
    left: &'w mut Vec<(NodeName, String, String)>,
}

impl Walk<'_> {
    fn compare(&mut self, designed: Option<&Node>, installed: Option<&Node>) {
        if designed.map(|node| &node.value) == installed.map(|node| &node.value) {
            return;
        }
        let is_secret = |node: Option<&Node>| node.is_some_and(Node::has_secret);
        let (one, other) = (
            designed.and_then(Node::as_map),
            installed.and_then(Node::as_map),
        );
        let is_scalar = |node: Option<&Node>| node.is_none_or(|node| node.scalar_text().is_some());
        match (one, other) {
            _ if is_secret(designed) || is_secret(installed) => {
                self.leave("it is secret, or holds a secret");
            }
            (Some(one), Some(other)) => {
                let keys = one.keys().chain(other.keys());
                let keys: BTreeSet<Arc<str>> = keys.map(|key| key.text.clone()).collect();
                for key in keys {
                    self.path.push(key.clone());
                    self.compare(one.get(&key), other.get(&key));
                    self.path.pop();
                }
            }
            (None, None) if is_scalar(designed) && is_scalar(installed) => {
                self.wanted.push(Wanted {
                    node: self.node.clone(),
                    section: self.section,
                    path: self.path.clone(),
                    old: designed.cloned(),
                    new: installed.map(|node| node.value.clone()),
                });
            }
            (_, _) => self.leave("it is a list, or a whole part"),
        }
    }

    fn leave(&mut self, why: &str) {
        let path = path_of(self.path.iter().map(|name| &**name));
        let left = (self.node.clone(), path, why.to_owned());
        self.left.push(left);
    }
}

/// Where the old value of a field comes from, and the field.
type Origin = (Option<Mark>, Section, Vec<Arc<str>>);

/// The path of a file, and its text.
type FileText = (Arc<str>, Arc<str>);

/// Edits by source.
type Edits = BTreeMap<SourceId, Vec<Edit>>;

/// The fields, each once.
fn fields_of(wanted: &[Wanted]) -> BTreeSet<(Section, Vec<Arc<str>>)> {
    let fields = wanted.iter();
    fields
        .map(|each| (each.section, each.path.clone()))
        .collect()
}

/// How many machines of all sites have a field from a place.
fn users(
    site: &Site,
    others: &[Neighbour],
    wanted: &[Wanted],
) -> BTreeMap<(Section, Vec<Arc<str>>, Mark), usize> {
    let mut users = BTreeMap::new();
    for each in neighbours::origins(site, &fields_of(wanted)) {
        *users.entry(each).or_default() += 1;
    }
    for other in others {
        if let Ok(other) = &other.site {
            for each in &other.origins {
                *users.entry(each.clone()).or_default() += 1;
            }
        }
    }
    users
}

/// Decides for each field where it is written.
fn edits(
    (site, others): (&Site, &[Neighbour]),
    loader: &Loader<'_>,
    wanted: Vec<Wanted>,
    result: &mut WriteBack,
) -> Edits {
    let users = users(site, others, &wanted);
    let mut groups: BTreeMap<Origin, Vec<Wanted>> = BTreeMap::new();
    for each in wanted {
        let mark = each.old.as_ref().map(|old| old.mark);
        groups
            .entry((mark, each.section, each.path.clone()))
            .or_default()
            .push(each);
    }
    let mut edits = Edits::new();
    let mut own: BTreeMap<NodeName, Vec<Wanted>> = BTreeMap::new();
    for ((mark, section, path), group) in groups {
        let edit = mark.and_then(|mark| {
            let first = group.first()?;
            let (old, new) = (first.old.as_ref()?, first.new.as_ref()?);
            let all = users.get(&(section, path.clone(), mark)) == Some(&group.len())
                && !others
                    .iter()
                    .any(|other| other.may_use(&loader.sources().path(mark.source)));
            let same = group.iter().all(|each| each.new.as_ref() == Some(new));
            let text = loader.sources().text(mark.source);
            let edit = replacement(&text, usize::try_from(mark.offset).ok()?, &old.value, new);
            edit.filter(|_| all && same).map(|edit| (mark, edit))
        });
        match edit {
            Some((mark, edit)) => {
                edits.entry(mark.source).or_default().push(edit);
                for each in &group {
                    result
                        .written
                        .push(written(each, loader.sources().place(mark), false));
                }
            }
            None => {
                for each in group {
                    own.entry(each.node.clone()).or_default().push(each);
                }
            }
        }
    }
    let documents = documents(site);
    for (node, fields) in own {
        own_fields(
            site,
            loader,
            (&node, fields),
            &documents,
            &mut edits,
            result,
        );
    }
    edits
}

/// The documents of machines by name; `None`: it has several.
fn documents(site: &Site) -> BTreeMap<&str, Option<&Document>> {
    let mut found: BTreeMap<&str, Option<&Document>> = BTreeMap::new();
    for document in &site.documents {
        if &*document.id.schema == crate::design::MACHINE {
            let entry = found.entry(&document.id.name);
            entry
                .and_modify(|each| *each = None)
                .or_insert(Some(&**document));
        }
    }
    found
}

/// Gives a machine fields of its own.
fn own_fields(
    site: &Site,
    loader: &Loader<'_>,
    (node, wanted): (&NodeName, Vec<Wanted>),
    documents: &BTreeMap<&str, Option<&Document>>,
    edits: &mut Edits,
    result: &mut WriteBack,
) {
    let mut tree = Fields::default();
    let mut placed = Vec::new();
    for each in wanted {
        // Parts of other documents, which a machine names and does not hold.
        let is_named = ["hardware_profile", "networks", "links"].contains(&&*each.path[0]);
        let removal = || {
            Value::string(if each.section == Section::Labels {
                ""
            } else {
                "!"
            })
        };
        let mut path = each.path.clone();
        if each.new.is_none()
            && each.section == Section::Labels
            && let Some(last) = path.last_mut()
        {
            *last = Arc::from(format!("!{last}"));
        }
        let value = each.new.clone().unwrap_or_else(removal);
        if is_named || !tree.put(&path, value) {
            let why = match is_named {
                true => {
                    "other machines have it from the same document, and a machine cannot have it for its own"
                }
                false => "it has no place in the document of its machine",
            };
            result
                .left
                .push((node.clone(), each.name(), why.to_owned()));
        } else {
            placed.push(each);
        }
    }
    if placed.is_empty() {
        return;
    }
    let document = documents.get(node.as_str()).copied().flatten();
    let inserted = match document {
        Some(document) => {
            let text = loader.sources().text(document.data.mark.source);
            insertions(&text, &document.data, &tree).map(|found| (document.data.mark, found))
        }
        None => Err("its machine has several documents".to_owned()),
    };
    match inserted {
        Ok((mark, found)) => {
            edits.entry(mark.source).or_default().extend(found);
            let place = loader.sources().place(site.design.nodes[node].mark);
            let fields = placed.iter().map(|each| written(each, place.clone(), true));
            result.written.extend(fields);
        }
        Err(why) => {
            let fields = placed
                .iter()
                .map(|each| (node.clone(), each.name(), why.clone()));
            result.left.extend(fields);
        }
    }
}

fn written(each: &Wanted, place: Place, is_own: bool) -> WrittenField {
    let text = |value: Option<&Value>| Some(value?.scalar_text()?.into_owned());
    WrittenField {
        node: each.node.clone(),
        path: each.name(),
        names: each.path.clone(),
        before: text(each.old.as_ref().map(|old| &old.value)),
        after: text(each.new.as_ref()),
        place,
        is_own,
    }
}

/// Writes the edited files; the texts that they had.
fn write(
    checkout: &Checkout<'_>,
    loader: &Loader<'_>,
    edits: &Edits,
) -> Result<Vec<FileText>, Failure> {
    let sources = loader.sources();
    let mut files = Vec::with_capacity(edits.len());
    for (source, edits) in edits {
        let (path, text) = (sources.path(*source), sources.text(*source));
        let found = std::fs::read_to_string(checkout.repository.root().join(&*path));
        if !found.is_ok_and(|found| *found == *text) {
            let message = format!(
                "`{path}` is no file of this repository that can be edited, or changes now"
            );
            return Err(Failure::error(message).hint("write its fields by hand"));
        }
        let Some(new) = edited(&text, edits.clone()) else {
            return Err(Failure::error(format!("the edits of `{path}` overlap")));
        };
        files.push((path, text, new));
    }
    let mut before = Vec::with_capacity(files.len());
    for (path, text, new) in files {
        before.push((path.clone(), text));
        if let Err(failure) = put(checkout, &path, &new) {
            for (path, text) in &before {
                put(checkout, path, text)?;
            }
            return Err(failure);
        }
    }
    Ok(before)
}

fn put(checkout: &Checkout<'_>, path: &str, text: &str) -> Result<(), Failure> {
    let repository = checkout.repository;
    let place = repository.root().join(path);
    let written = repository.replace_file(&place, |out| out.write_all(text.as_bytes()));
    written.map_err(|error| Failure::error(format!("`{path}` could not be written: {error}")))
}

/// Verifies that the edited documents have the wanted values, and no other change.
fn verify(
    client: &dyn Client,
    checkout: &Checkout<'_>,
    before: &Site,
    nodes: &BTreeSet<NodeName>,
    result: &WriteBack,
) -> Result<(), Failure> {
    let mut loader = checkout.loader()?;
    let after = load(client, checkout, &mut loader)?;
    for (name, design) in &after.design.nodes {
        let old = before.design.nodes.get(name);
        if !nodes.contains(name) && old.is_none_or(|old| old.digests != design.digests) {
            return Err(refused(format!(
                "the edit would change the design of `{name}`, too"
            )));
        }
    }
    for field in &result.written {
        let design = after.design.nodes.get(&field.node);
        let names: Vec<&str> = field.names.iter().map(|name| &**name).collect();
        let found = design.and_then(|design| {
            let mut sections = design.sections.iter();
            sections.find_map(|(_, fields)| fields.at(&names))
        });
        let found = found
            .filter(|found| !found.is_null())
            .and_then(Node::scalar_text);
        if found.as_deref() != field.after.as_deref() {
            let (node, path) = (&field.node, &field.path);
            return Err(refused(format!(
                "`{path}` of `{node}` would not have the value of the machine"
            )));
        }
    }
    Ok(())
}

/// Verifies that the edited documents change the design of no machine of another site.
fn verify_neighbours(
    checkout: &Checkout<'_>,
    before: &[Neighbour],
    edited: &BTreeSet<Arc<str>>,
) -> Result<(), Failure> {
    if before.is_empty() {
        return Ok(());
    }
    let after = neighbours(checkout, &mut checkout.loader()?, &BTreeSet::new());
    for old in before {
        let name = &old.name;
        let new = after.iter().find(|new| new.definition == old.definition);
        let new = new.and_then(|new| new.site.as_ref().ok());
        match (&old.site, new) {
            (Ok(old), Some(new)) => {
                if let Some(node) = changed(old, new) {
                    return Err(refused(format!(
                        "the edit would change the design of `{node}` of site `{name}`, too"
                    )));
                }
            }
            (Ok(_), None) => {
                return Err(refused(format!(
                    "site `{name}` could not be loaded with the edit"
                )));
            }
            (Err(()), _) => {
                if let Some(path) = edited.iter().find(|path| old.may_use(path)) {
                    return Err(refused(format!(
                        "site `{name}` has `{path}`, too, and its documents have errors: what the edit changes there is not known"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The first machine whose design is another one.
fn changed<'s>(old: &'s NeighbourSite, new: &'s NeighbourSite) -> Option<&'s NodeName> {
    let names = old.digests.keys().chain(new.digests.keys());
    let mut names = names.filter(|name| old.digests.get(*name) != new.digests.get(*name));
    names.next()
}

fn refused(text: String) -> Failure {
    Failure::new(FailureKind::Guard, text)
        .hint("all files are as they were; write the field by hand")
}
