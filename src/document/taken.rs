//! Secrets that are substituted: they stand in digests by the document and path that they are taken from.

use std::sync::Arc;

use super::{Field, Node, SecretOrigin, SubstitutionSource, Value, write_without_secrets};

impl SecretOrigin {
    /// A secret that is substituted, as often as it is.
    fn taken(source: &SubstitutionSource, from: Option<&Self>) -> Self {
        let from = from.filter(|from| !from.is_written());
        let pattern = source.pattern.as_deref().unwrap_or_default();
        let group = source.match_group.to_string();
        Self::new(
            false,
            &[
                b"reference",
                source.document.schema.as_bytes(),
                source.document.name.as_bytes(),
                source.path.as_bytes(),
                pattern.as_bytes(),
                group.as_bytes(),
                from.map(|from| from.sum().as_slice()).unwrap_or_default(),
            ],
        )
    }

    /// A text in which a pattern was replaced by a value, one of them being secret.
    #[must_use]
    pub fn mixed(text: &Node, pattern: &str, value: &Node) -> Self {
        let [text, value] = [text, value].map(|node| {
            let mut bytes = Vec::new();
            write_without_secrets(node, &mut bytes);
            bytes
        });
        Self::new(false, &[b"text", &text, pattern.as_bytes(), &value])
    }
}

/// Gives the secrets in a value that was substituted the origin that they have by that.
struct Taking<'s> {
    source: &'s SubstitutionSource,
    /// The last one that was made, and what of.
    last: Option<[SecretOrigin; 2]>,
}

impl Taking<'_> {
    fn origin(&mut self, from: &SecretOrigin) -> SecretOrigin {
        if let Some([known, taken]) = &self.last
            && known == from
        {
            return taken.clone();
        }
        let taken = SecretOrigin::taken(self.source, Some(from));
        self.last = Some([from.clone(), taken.clone()]);
        taken
    }

    /// The value with its secrets' new origin; `None` if there is no secret in it.
    fn of(&mut self, node: &Node) -> Option<Node> {
        let value = match &node.value {
            Value::Map(map) => {
                let mut changed = None;
                for (key, field) in map.iter() {
                    if let Some(node) = self.of(&field.node) {
                        let field = Field {
                            key_mark: field.key_mark,
                            node,
                        };
                        changed
                            .get_or_insert_with(|| (**map).clone())
                            .insert(key.clone(), field);
                    }
                }
                changed.map(|map| Value::Map(Arc::new(map)))
            }
            Value::List(list) => {
                let mut changed = None;
                for (at, item) in list.iter().enumerate() {
                    if let Some(item) = self.of(item) {
                        changed.get_or_insert_with(|| (**list).clone())[at] = item;
                    }
                }
                changed.map(|list| Value::List(Arc::new(list)))
            }
            _ => None,
        };
        if value.is_none() && !node.is_secret() {
            return None;
        }
        Some(Node {
            value: value.unwrap_or_else(|| node.value.clone()),
            mark: node.mark,
            secret: node.secret.as_ref().map(|from| self.origin(from)),
        })
    }
}

impl Node {
    /// The value as it is after a substitution: its secrets stand by their reference.
    #[must_use]
    pub fn taken_from(self, source: &SubstitutionSource) -> Self {
        Taking { source, last: None }.of(&self).unwrap_or(self)
    }

    /// The same, and a secret, since it is for a field that holds one.
    #[must_use]
    pub fn hidden_from(mut self, source: &SubstitutionSource) -> Self {
        if !self.is_secret() {
            self.hide(&SecretOrigin::taken(source, None));
        }
        self
    }
}
