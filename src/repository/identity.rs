//! A repository's own name: the same in all of its clones.

use super::{Error, Repository};

impl Repository {
    /// The name that signatures are bound to: `trueup.repository` of git's configuration, else the [identity](Self::identity).
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub fn signed_name(&self) -> Result<String, Error> {
        match self.config("trueup.repository")? {
            Some(name) => Ok(name),
            None => self.identity(),
        }
    }

    /// The URL of the remote that it works with, without account and form, else where it lies.
    ///
    /// # Errors
    ///
    /// The configuration cannot be read.
    pub fn identity(&self) -> Result<String, Error> {
        if let Ok(Some(remote)) = self.default_remote()
            && let Some(url) = self.config(&format!("remote.{remote}.url"))?
        {
            return Ok(plain_url(&self.absolute(url)));
        }
        let folder = self.common_dir();
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Ok(folder.to_string_lossy().into_owned())
    }

    /// An address that is a relative path, which git takes from the worktree, as an absolute one; another one as it is.
    fn absolute(&self, url: String) -> String {
        let is_relative = !url.contains(':') && !url.starts_with('/');
        let path = is_relative.then(|| self.root().join(&url).canonicalize());
        match path {
            Some(Ok(path)) => path.to_string_lossy().into_owned(),
            _ => url,
        }
    }
}

/// `git@host:team/site.git`, `https://me:token@host/team/site` and `ssh://git@host/team/site/` are one.
fn plain_url(url: &str) -> String {
    let (rest, has_scheme) = match url.split_once("://") {
        Some((_, rest)) => (rest, true),
        None => (url, false),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = match host.split_once(':') {
        // Behind the colon stands a path if there is no scheme, else a port.
        Some((host, first)) if !has_scheme => format!("{}/{first}", host.to_ascii_lowercase()),
        _ => host.to_ascii_lowercase(),
    };
    let whole = match path {
        "" => host,
        path => format!("{host}/{path}"),
    };
    let whole = whole.trim_end_matches('/');
    whole.strip_suffix(".git").unwrap_or(whole).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_identity_however_it_was_cloned() {
        for url in [
            "git@Git.example:team/site.git",
            "https://me:token@git.example/team/site",
            "ssh://git@git.example/team/site/",
            "https://git.example/team/site.git",
        ] {
            assert_eq!(plain_url(url), "git.example/team/site", "{url}");
        }
        assert_eq!(plain_url("/srv/git/site.git"), "/srv/git/site");
        assert_eq!(plain_url("https://h:8443/x"), "h:8443/x");
    }

    #[test]
    fn a_remote_beside_the_clone_is_the_same_by_a_relative_path() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        git2::Repository::init_bare(folder.join("site.git")).unwrap();
        let clone = git2::Repository::init(folder.join("clone")).unwrap();
        let whole = folder.join("site.git");
        let whole = whole.to_str().unwrap();
        let expected = whole.strip_suffix(".git").unwrap();
        for url in ["../site.git", whole] {
            clone
                .config()
                .unwrap()
                .set_str("remote.origin.url", url)
                .unwrap();
            clone
                .config()
                .unwrap()
                .set_str("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
                .unwrap();
            let repository = Repository::discover(&folder.join("clone")).unwrap();
            assert_eq!(repository.identity().unwrap(), expected, "{url}");
        }
    }
}
