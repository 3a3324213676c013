//! Why a remote did not take a ref, by what it answered, and the way out for each.
//!
//! Hosts have no common form for it. Only the words of git itself and of hosts that are widely used are told apart; what
//! is not known is left to the answer, which is shown as it came.

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The remote is configured as a mirror, of which no single ref is pushed.
    Mirror,
    /// The disk of the remote is full, or a quota is.
    Disk,
    /// The push is too large.
    Size,
    /// The connection broke.
    Network,
    /// The address that is pushed to is no repository.
    Address,
    /// The account has not the right to push.
    Right,
    /// The branch or tag is protected.
    Protected,
    /// The host takes no refs but branches and tags.
    Namespace,
    /// Another ref has the name as a folder, or the folder as its name.
    InTheWay,
    /// Another rule of the host.
    Other,
}

/// Words of answers, in lower case, by what they mean; the first that is found counts.
const WORDS: [(Refusal, &[&str]); 9] = [
    (Refusal::InTheWay, &["exists; cannot create"]),
    (Refusal::Mirror, &["--mirror can't be combined"]),
    (
        Refusal::Disk,
        &[
            "no space left",
            "disk quota",
            "quota exceeded",
            "storage limit",
            "size limit of the repository",
        ],
    ),
    (
        Refusal::Size,
        &[
            "file size limit",
            "maximum allowed size",
            "too large",
            "http 413",
            "error: 413",
        ],
    ),
    (
        Refusal::Address,
        &[
            "does not appear to be a git repository",
            "repository not found",
        ],
    ),
    (
        Refusal::Protected,
        &[
            "protected branch",
            "protected tag",
            "gh006",
            "gh013",
            "tf402455",
            "cannot update this protected",
        ],
    ),
    (
        Refusal::Namespace,
        &[
            "hidden ref",
            "funny refname",
            "only branches and tags",
            "only push branches",
            "invalid ref name",
        ],
    ),
    (
        Refusal::Right,
        &[
            "permission denied",
            "permission to",
            "access denied",
            "not allowed to push",
            "not permitted",
            "authentication failed",
            "could not read username",
            "returned error: 401",
            "returned error: 403",
            "read-only",
            "read only",
            "tf401027",
        ],
    ),
    (
        Refusal::Network,
        &[
            "could not resolve host",
            "connection refused",
            "connection reset",
            "timed out",
            "hung up unexpectedly",
            "early eof",
            "rpc failed",
        ],
    ),
];

impl Refusal {
    /// The kind of a refusal with these words.
    pub(super) fn of(message: &str) -> Self {
        let message = message.to_lowercase();
        let is_said =
            |(_, words): &&(Self, &[&str])| words.iter().any(|each| message.contains(each));
        WORDS
            .iter()
            .find(is_said)
            .map_or(Self::Other, |(kind, _)| *kind)
    }

    /// The way out for a ref of a remote; `takes_such`: it has others below the same prefix.
    pub(super) fn hint(self, remote: &str, name: &str, takes_such: bool) -> String {
        let branches = "`git config trueup.refPrefix refs/heads/trueup`, in all clones of the site";
        match self {
            Self::Mirror => format!(
                "nothing can be pushed to a mirror but all refs: `git config --unset remote.{remote}.mirror`"
            ),
            Self::Disk => "the disk or the quota of the remote is full: free space there".to_owned(),
            Self::Size => "the limit for pushes has to be raised at the remote".to_owned(),
            Self::Network => format!(
                "`git ls-remote {remote}` shows whether the remote answers; then run it again"
            ),
            Self::Address => format!(
                "`git remote get-url --push {remote}` shows the address that is pushed to"
            ),
            Self::Right => "an apply needs the right to push: check the credentials of this account, and its role at the remote".to_owned(),
            Self::Protected => format!(
                "`{name}` is protected at the remote: let this account push it there"
            ),
            Self::InTheWay => format!(
                "another ref is in the way of `{name}`, since no name is a ref and a folder of refs: choose another branch"
            ),
            Self::Namespace => format!("for hosts that take branches and tags only: {branches}"),
            Self::Other
                if takes_such || name.starts_with("refs/heads/") || name.starts_with("refs/tags/") =>
            {
                "a rule of the remote refuses it, such as a hook: let this account push it there"
                    .to_owned()
            }
            Self::Other => format!(
                "a rule of the remote refuses it, such as a hook; where that takes branches and tags only: {branches}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_is_for_what_was_refused() {
        for (message, kind, hint) in [
            (
                "fatal: --mirror can't be combined with refspecs",
                Refusal::Mirror,
                "--unset remote.origin.mirror",
            ),
            (
                "fatal: '/nonexistent/r.git' does not appear to be a git repository; fatal: Could not read from remote repository.",
                Refusal::Address,
                "get-url --push origin",
            ),
            (
                "remote: Permission to o/r.git denied to bot.; fatal: unable to access 'https://h/o/r/': The requested URL returned error: 403",
                Refusal::Right,
                "right to push",
            ),
            (
                "[remote rejected] (pre-receive hook declined); remote: GitLab: You are not allowed to push code to protected branches on this project.",
                Refusal::Protected,
                "protected",
            ),
            (
                "[remote rejected] (deny updating a hidden ref)",
                Refusal::Namespace,
                "trueup.refPrefix",
            ),
            (
                "remote: fatal: write error: No space left on device; error: remote unpack failed: index-pack failed",
                Refusal::Disk,
                "free space",
            ),
            (
                "error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413",
                Refusal::Size,
                "limit",
            ),
            (
                "fatal: unable to access 'https://h/': Could not resolve host: h",
                Refusal::Network,
                "git ls-remote origin",
            ),
            ("[remote rejected] (hook declined)", Refusal::Other, "rule"),
        ] {
            assert_eq!(Refusal::of(message), kind, "{message}");
            let text = kind.hint("origin", "refs/trueup/edge/state", false);
            assert!(text.contains(hint), "{message}: {text}");
        }
        let text = Refusal::Other.hint("origin", "refs/tags/x", false);
        assert!(
            !text.contains("refPrefix"),
            "another prefix moves no tag: {text}"
        );
        let text = Refusal::Other.hint("origin", "refs/trueup/edge/lock", true);
        assert!(!text.contains("refPrefix"), "the records are there: {text}");
    }
}
