//! The common part of the settings of several backends: parsing, accounts, `{node}`, and the names of nodes
//! elsewhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::design::{NodeDesign, NodeName, Reference};
use crate::diagnostic::Diagnostic;
use crate::document::{Marked, Node, Seconds, from_node};
use crate::guard::Guarded;

/// An account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Account {
    /// The name of the account.
    pub(super) username: Arc<str>,
    /// Its password, with `{node}` in the place of the node's name.
    pub(super) password: Reference,
}

/// Settings as they are written, or the defaults if nothing is written.
///
/// # Errors
///
/// A setting is invalid; with its place and the code of the backend's settings.
pub(super) fn or_default<'de, T: Default + Deserialize<'de>>(
    node: Option<&'de Node>,
    code: &'static str,
) -> Result<T, Box<Diagnostic>> {
    match node.filter(|node| !node.is_null()) {
        None => Ok(T::default()),
        Some(node) => from_node(node).map_err(|mismatch| Box::new(mismatch.into_diagnostic(code))),
    }
}

/// A time in seconds, or what counts if nothing is written; `what` and `longest`: what it is, and its
/// bound.
///
/// # Errors
///
/// It is out of bounds; with its place and the code of the backend's settings.
pub(super) fn seconds(
    written: Option<Marked<Seconds>>,
    otherwise: Duration,
    (what, longest): (&str, f64),
    code: &'static str,
) -> Result<Duration, Box<Diagnostic>> {
    match written {
        None => Ok(otherwise),
        Some(Marked { value, .. }) if (0.0..=longest).contains(&value.get()) => {
            Ok(Duration::from_secs_f64(value.get()))
        }
        Some(Marked { mark, .. }) => {
            let message = format!("{what} is from 0 to {longest} seconds");
            Err(Box::new(Diagnostic::error(code, mark, message)))
        }
    }
}

/// How long a level must stay before it counts, up to an hour: 5 s where
/// nothing is written.
///
/// # Errors
///
/// It is out of bounds; with its place and the code of the backend's settings.
pub(super) fn settling_time(
    written: Option<Marked<Seconds>>,
    code: &'static str,
) -> Result<Duration, Box<Diagnostic>> {
    let otherwise = Duration::from_secs(5);
    seconds(written, otherwise, ("a settling time", 3600.0), code)
}

/// An address as the host of a URL.
pub(super) fn url_host(address: &str) -> Cow<'_, str> {
    match address.contains(':') {
        true => Cow::Owned(format!("[{address}]")),
        false => Cow::Borrowed(address),
    }
}

/// A text with the node's name in the place of `{node}`.
pub(super) fn for_node(text: &str, node: &NodeDesign) -> String {
    text.replace("{node}", node.name.as_str())
}

/// A reference with the node's name in the place of `{node}`.
pub(super) fn reference_for(reference: &Reference, node: &NodeDesign) -> Reference {
    let put = |text: &Arc<str>| Arc::from(for_node(text, node));
    match reference {
        Reference::Env(name) => Reference::Env(put(name)),
        Reference::File(path) => Reference::File(put(path)),
        Reference::Exec(words) => Reference::Exec(words.iter().map(put).collect()),
        Reference::Store(words) => Reference::Store(words.iter().map(put).collect()),
    }
}

/// The names of nodes that are called otherwise in a system (`ironic`, and `Ironic` in words).
///
/// # Errors
///
/// Two nodes have one name there: each would move the machine of the other.
pub(super) fn names(
    site: &Guarded,
    system: &str,
    title: &str,
    code: &'static str,
) -> Result<HashMap<NodeName, Arc<str>>, Box<Diagnostic>> {
    let names = &site.guards().backends.names;
    let other = |node: &NodeName| names.get(node)?.get(system).cloned();
    let mut owners: HashMap<Arc<str>, &NodeName> = HashMap::new();
    for node in site.nodes.keys() {
        let name = other(node).unwrap_or_else(|| Arc::from(node.as_str()));
        if let Some(owner) = owners.insert(name.clone(), node) {
            let data = site.guards().backends.data.as_ref();
            let mark = data
                .and_then(|data| data.get("names"))
                .map(|names| names.mark);
            let message = format!("`{owner}` and `{node}` are both called `{name}` in {title}");
            let mark = mark.unwrap_or(site.nodes[node].mark);
            return Err(Box::new(Diagnostic::error(code, mark, message)));
        }
    }
    let others = names
        .keys()
        .filter_map(|node| Some((node.clone(), other(node)?)));
    Ok(others.collect())
}
