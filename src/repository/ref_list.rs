//! The refs of a remote at an instant, found by name, by folder and by ending without a walk over all of them.

use std::collections::{BTreeMap, HashMap};

use super::ObjectId;

/// Refs by name.
pub(super) struct RefList {
    refs: BTreeMap<String, ObjectId>,
    /// By the last two parts of their names.
    by_ending: HashMap<String, Vec<String>>,
}

/// The last two parts of a name.
fn ending(name: &str) -> &str {
    let mut slashes = name.rmatch_indices('/');
    slashes.nth(1).map_or(name, |(at, _)| &name[at + 1..])
}

impl RefList {
    pub(super) fn of(refs: BTreeMap<String, ObjectId>) -> Self {
        let mut by_ending: HashMap<String, Vec<String>> = HashMap::new();
        for name in refs.keys() {
            let of_ending = by_ending.entry(ending(name).to_owned()).or_default();
            of_ending.push(name.clone());
        }
        Self { refs, by_ending }
    }

    pub(super) fn get(&self, name: &str) -> Option<ObjectId> {
        self.refs.get(name).copied()
    }

    /// Those named, those below a name that ends in `*`, and those that end like a name which begins with `*`.
    pub(super) fn among(&self, names: &[&str]) -> BTreeMap<String, ObjectId> {
        let mut found = BTreeMap::new();
        let mut add = |name: &String, id: &ObjectId| {
            found.insert(name.clone(), *id);
        };
        for asked in names {
            if let Some(folder) = asked.strip_suffix('*') {
                let below = self.refs.range(folder.to_owned()..);
                let below = below.take_while(|(name, _)| name.starts_with(folder));
                below.for_each(|(name, id)| add(name, id));
            } else if let Some(end) = asked.strip_prefix('*') {
                let whole = end.trim_start_matches('/');
                match (end.starts_with('/'), whole.split('/').count()) {
                    (true, 2) => {
                        let names = self.by_ending.get(whole).into_iter().flatten();
                        names.for_each(|name| add(name, &self.refs[name]));
                    }
                    _ => {
                        let all = self.refs.iter().filter(|(name, _)| name.ends_with(end));
                        all.for_each(|(name, id)| add(name, id));
                    }
                }
            } else if let Some((name, id)) = self.refs.get_key_value(*asked) {
                add(name, id);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_are_found_by_name_by_folder_and_by_ending() {
        let id: ObjectId = "1111111111111111111111111111111111111111".parse().unwrap();
        let names = [
            "refs/heads/main",
            "refs/tags/site-action-success/edge/R1",
            "refs/trueup/edge/lock",
            "refs/trueup/edge/state",
            "refs/trueup/other/edge/state",
            "refs/trueup/ledge/state",
        ];
        let list = RefList::of(names.map(|name| (name.to_owned(), id)).into());
        let among = |asked: &str| {
            list.among(&[asked])
                .into_keys()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(among("refs/trueup/edge/lock"), "refs/trueup/edge/lock");
        assert_eq!(among("refs/trueup/edge"), "");
        assert_eq!(
            among("refs/trueup/edge/*"),
            "refs/trueup/edge/lock refs/trueup/edge/state"
        );
        assert_eq!(
            among("*/edge/state"),
            "refs/trueup/edge/state refs/trueup/other/edge/state"
        );
        assert_eq!(among("*edge/lock"), "refs/trueup/edge/lock");
        assert_eq!(among("*/state").split(' ').count(), 3);
        assert_eq!(list.get("refs/heads/main"), Some(id));
    }
}
