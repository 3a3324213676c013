//! The order of the layers, and which layer each document is in.

use std::collections::HashMap;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Mark};
use crate::document::{Document, Value};

use super::RenderOptions;
use super::survey::{Survey, metadata_mark};

const CODE: &str = "render-layering-policy";
const SCHEMA: &str = "deckhand/LayeringPolicy/";

/// The layers from the most general to the most specific; `None`, with an error, if no policy defines them.
///
/// Of several policies the first by name counts; that is an error unless all say the same.
pub(super) fn layer_order(
    survey: &mut Survey<'_>,
    options: &RenderOptions,
) -> Option<Vec<Arc<str>>> {
    let documents = survey.documents;
    let mut policies = (0..documents.len())
        .filter(|at| documents[*at].id.schema.starts_with(SCHEMA) && survey.is_sound(*at))
        .collect::<Vec<_>>()
        .into_iter();
    let Some(first) = policies.next() else {
        if options.default_layers.is_none() {
            let diagnostic = Diagnostic::error_in(
                CODE,
                None,
                "there is no layering policy among the documents",
            )
            .hint(format!(
                "a document of schema `{SCHEMA}v1` names the layers"
            ));
            survey.diagnostics.push(diagnostic);
        }
        return options.default_layers.clone();
    };
    let order = read(&documents[first]);
    for other in policies {
        let document = &documents[other];
        let name = &documents[first].id.name;
        let (is_same, message) = match (&order, read(document)) {
            (Ok(order), Ok(other)) if *order == other => (
                true,
                format!("a second layering policy, which says the same as `{name}`"),
            ),
            _ => (
                false,
                format!("a second layering policy, which differs from `{name}`"),
            ),
        };
        let diagnostic = if is_same {
            Diagnostic::warning(CODE, document.name_mark, message)
        } else {
            Diagnostic::error(CODE, document.name_mark, message)
        };
        survey
            .diagnostics
            .push(diagnostic.related(documents[first].name_mark, "the one that counts"));
    }
    match order {
        Ok(order) => Some(order),
        Err((mark, message)) => {
            survey.fail(first, Diagnostic::error(CODE, mark, message));
            None
        }
    }
}

fn read(policy: &Document) -> Result<Vec<Arc<str>>, (Mark, String)> {
    let order = policy.data.get("layerOrder").ok_or_else(|| {
        let message = "a layering policy needs `layerOrder`, a list of layers";
        (policy.data.mark, message.to_owned())
    })?;
    let Value::List(list) = &order.value else {
        let message = "`layerOrder` must be a list of layers";
        return Err((order.mark, message.to_owned()));
    };
    let mut seen = HashMap::new();
    list.iter()
        .enumerate()
        .map(|(at, layer)| match &layer.value {
            Value::String(name) if seen.insert(name.clone(), at).is_none() => Ok(name.clone()),
            Value::String(name) => Err((layer.mark, format!("layer `{name}` is named twice"))),
            other => {
                let message = format!("a layer must be a string, not a {}", other.type_name());
                Err((layer.mark, message))
            }
        })
        .collect()
}

/// The position of each document's layer in the order; a document of an unknown layer fails.
pub(super) fn layers(survey: &mut Survey<'_>, order: &[Arc<str>]) -> Vec<Option<usize>> {
    let positions: HashMap<&str, usize> = order
        .iter()
        .enumerate()
        .map(|(at, layer)| (&**layer, at))
        .collect();
    let documents = survey.documents;
    let mut layers = Vec::with_capacity(documents.len());
    for (at, document) in documents.iter().enumerate() {
        let Some(layer) = document.layer.as_deref() else {
            layers.push(None);
            continue;
        };
        let position = positions.get(layer).copied();
        if position.is_none() {
            let mark = metadata_mark(document, &["layeringDefinition", "layer"]);
            let names = order.iter().map(|layer| &**layer);
            let message = format!("the layering policy has no layer `{layer}`");
            let diagnostic = Diagnostic::error("render-layer", mark, message);
            let diagnostic = diagnostic.did_you_mean(layer, names);
            survey.fail(at, diagnostic);
        }
        layers.push(position);
    }
    layers
}
