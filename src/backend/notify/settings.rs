//! The destinations of notifications, as `notify` of `trueup/Backends/v1` has them.

use std::sync::Arc;

use serde::Deserialize;

use super::Moment;
use super::shapes::Shape;
use crate::backend::http::Endpoint;
use crate::design::{Guards, Reference};
use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Marked, Node, from_node};

const CODE: &str = "schema-notify";

/// The most destinations of a site.
const MOST: usize = 8;

/// A destination of notifications.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) name: Arc<str>,
    pub(super) endpoint: Endpoint,
    /// The path of the address, as it is written.
    pub(super) written: Arc<str>,
    /// The rest of the address, if it is a secret.
    pub(super) path: Option<Reference>,
    pub(super) shape: Shape,
    /// The key that signs each message.
    pub(super) key: Option<Reference>,
    /// The key of an integration of PagerDuty.
    pub(super) routing_key: Option<Reference>,
    /// The moments that it is told of.
    pub(super) events: Vec<Moment>,
    pub(super) authorities: Option<Reference>,
    pub(super) allows_plain_http: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Marked<Arc<str>>,
    url: Marked<Arc<str>>,
    path: Option<Reference>,
    #[serde(default)]
    shape: Shape,
    key: Option<Reference>,
    routing_key: Option<Reference>,
    events: Option<Vec<Moment>>,
    ca: Option<Reference>,
}

impl Destination {
    /// The destinations that the documents name.
    ///
    /// # Errors
    ///
    /// A setting cannot be used; with its place.
    pub(super) fn all(guards: &Guards) -> Result<Vec<Self>, Box<Diagnostic>> {
        let backends = &guards.backends;
        let data = backends.data.as_ref();
        let Some(list) = data.and_then(|data| data.get("notify")) else {
            return Ok(Vec::new());
        };
        let items = list.as_list().into_iter().flatten();
        let mut all: Vec<Self> = Vec::new();
        for item in items {
            let read = Self::read(item, backends.allow_plain_http)?;
            if all.iter().any(|other| other.name == read.name) {
                let message = format!("two destinations are called `{}`", read.name);
                return Err(refusal(item.mark, message));
            }
            all.push(read);
        }
        match all.len() > MOST {
            true => {
                let message = format!("at most {MOST} destinations are told of a run");
                Err(refusal(list.mark, message))
            }
            false => Ok(all),
        }
    }

    fn read(item: &Node, allows_plain_http: bool) -> Result<Self, Box<Diagnostic>> {
        let written: Written =
            from_node(item).map_err(|mismatch| Box::new(mismatch.into_diagnostic(CODE)))?;
        let (url, mark) = (&written.url.value, written.url.mark);
        let endpoint = Endpoint::parse(url).map_err(|error| refusal(mark, error.to_string()))?;
        let name = written.name.value;
        match written.shape {
            Shape::Json if written.key.is_none() => {
                let message =
                    format!("the destination `{name}` needs a `key`, which signs its messages");
                let hint = "for example `key: {env: TRUEUP_NOTIFY_KEY}`";
                return Err(Box::new(
                    Diagnostic::error(CODE, item.mark, message).hint(hint),
                ));
            }
            Shape::PagerDuty if written.routing_key.is_none() => {
                let message =
                    format!("the destination `{name}` needs the `routing_key` of its integration");
                return Err(refusal(item.mark, message));
            }
            _ => {}
        }
        let every = vec![Moment::Begin, Moment::Stop, Moment::End];
        Ok(Self {
            name,
            endpoint,
            written: url.clone(),
            path: written.path,
            shape: written.shape,
            key: written.key,
            routing_key: written.routing_key,
            events: written.events.unwrap_or(every),
            authorities: written.ca,
            allows_plain_http,
        })
    }

    /// Whether it is told of a moment.
    pub(super) fn wants(&self, moment: Moment) -> bool {
        moment == Moment::Test || self.events.contains(&moment)
    }
}

fn refusal(mark: Mark, message: String) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(CODE, mark, message))
}
