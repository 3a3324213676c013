//! The configuration of git, as git reads it: files, includes, and the environment (`GIT_CONFIG_*`).
//!
//! It is read once, when a repository is opened, and does not change afterwards but by
//! [`Repository::configure`](super::Repository::configure).

use super::{Error, git};

/// A value, and where it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// Section and variable in lower case, as git lists them.
    key: String,
    /// A key without a value (`gpgsign` alone) has none, and is true.
    value: Option<String>,
    /// Whether the user or the system set it, and not the repository.
    is_own: bool,
}

/// All values that git reads for a repository, a later one before an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Configuration {
    settings: Vec<Setting>,
}

impl Configuration {
    /// The configuration by what `git config --list -z --show-scope` prints.
    pub(super) fn listed(text: &str) -> Self {
        let mut parts = text.split_terminator('\0');
        let mut settings = Vec::new();
        while let (Some(scope), Some(entry)) = (parts.next(), parts.next()) {
            let (key, value) = match entry.split_once('\n') {
                Some((key, value)) => (key, Some(value.to_owned())),
                None => (entry, None),
            };
            settings.push(Setting {
                key: key.to_owned(),
                value,
                is_own: !matches!(scope, "local" | "worktree"),
            });
        }
        Self { settings }
    }

    /// The configuration as libgit2 reads it, which is git's if nothing includes another file.
    pub(super) fn of(handle: &git2::Repository) -> Result<Self, Error> {
        let reading = || git("read the configuration of git");
        let config = handle.config().map_err(reading())?;
        let mut levels = Vec::new();
        let entries = config.entries(None).map_err(reading())?;
        entries
            .for_each(|entry| {
                use git2::ConfigLevel::{Global, ProgramData, System, XDG};
                let Ok(key) = entry.name() else { return };
                let value = match entry.has_value().then(|| entry.value()) {
                    Some(Ok(value)) => Some(value.to_owned()),
                    Some(Err(_)) => return,
                    None => None,
                };
                let setting = Setting {
                    key: key.to_owned(),
                    value,
                    is_own: matches!(entry.level(), ProgramData | System | XDG | Global),
                };
                levels.push((entry.level() as i32, setting));
            })
            .map_err(reading())?;
        levels.sort_by_key(|(level, _)| *level);
        let settings = levels.into_iter().map(|(_, setting)| setting).collect();
        Ok(Self { settings })
    }

    /// The value of a key; `None` if it is not set.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.find(key, |_| true)
    }

    /// The value of a key that the user or the system has set.
    pub(super) fn own_value(&self, key: &str) -> Option<&str> {
        self.find(key, |setting| setting.is_own)
    }

    fn find(&self, key: &str, counts: impl Fn(&Setting) -> bool) -> Option<&str> {
        let key = folded(key);
        let mut newest = self.settings.iter().rev();
        let found = newest.find(|setting| setting.key == key && counts(setting))?;
        Some(found.value.as_deref().unwrap_or_default())
    }

    /// Whether a key is true; `None` if it is not set, or is no truth value.
    pub(super) fn truth(&self, key: &str) -> Option<bool> {
        let key = folded(key);
        let newest = self.settings.iter().rev().find(|each| each.key == key)?;
        match newest.value.as_deref().map(str::to_ascii_lowercase) {
            None => Some(true),
            Some(text) => match &*text {
                "true" | "yes" | "on" => Some(true),
                "" | "false" | "no" | "off" => Some(false),
                number => number.parse::<i64>().ok().map(|number| number != 0),
            },
        }
    }

    /// All keys that have a value, and the values.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        let settings = self.settings.iter();
        settings.filter_map(|each| Some((&*each.key, each.value.as_deref()?)))
    }

    /// Sets a value in the repository's own file, which has been written.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        self.settings.push(Setting {
            key: folded(key),
            value: Some(value.to_owned()),
            is_own: false,
        });
    }
}

/// A key as git lists it: all but what may stand between its first dot and its last one is in lower case.
fn folded(key: &str) -> String {
    match (key.split_once('.'), key.rsplit_once('.')) {
        (Some((section, _)), Some((whole, variable))) => {
            let between = &whole[section.len()..];
            let (section, variable) = (section.to_ascii_lowercase(), variable.to_ascii_lowercase());
            format!("{section}{between}.{variable}")
        }
        _ => key.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_the_middle_of_a_key_keeps_its_case() {
        let listed = Configuration::listed(
            "global\0user.name\nAda\0local\0remote.Origin.url\n/x\0local\0core.bare\0command\0user.name\nBot\0",
        );
        assert_eq!(listed.value("user.name"), Some("Bot"));
        assert_eq!(listed.value("Remote.Origin.URL"), Some("/x"));
        assert_eq!(listed.value("remote.origin.url"), None);
        assert_eq!(listed.truth("core.bare"), Some(true), "a key alone is true");
        assert_eq!(listed.truth("core.filemode"), None);
        assert_eq!(listed.own_value("user.name"), Some("Bot"));
        assert_eq!(
            listed.own_value("remote.Origin.url"),
            None,
            "the repository's own"
        );
    }

    #[test]
    fn truth_values_are_those_of_git() {
        for (text, truth) in [
            ("yes", Some(true)),
            ("ON", Some(true)),
            ("2", Some(true)),
            ("0", Some(false)),
            ("", Some(false)),
            ("input", None),
        ] {
            let listed = Configuration::listed(&format!("local\0core.autocrlf\n{text}\0"));
            assert_eq!(listed.truth("core.autocrlf"), truth, "{text}");
        }
    }
}
