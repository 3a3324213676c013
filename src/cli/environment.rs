//! The environment of programs that trueup starts: the variables that they need, not all of it.
//!
//! A pipeline's environment holds tokens that no child has a use for. Variables are passed on by name,
//! so that an unknown one is kept back.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::repository::Repository;

/// Variables that every program gets; a name that ends in `*` stands for all that begin so.
const USUAL: [&str; 39] = [
    "ALL_PROXY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GNUPGHOME",
    "GPG_AGENT_INFO",
    "GPG_TTY",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "NO_PROXY",
    "PASSWORD_STORE_*",
    "PATH",
    "PWD",
    "SHELL",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_*",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "NIX_*",
    "SYSTEMROOT",
    "container",
];

/// Additional variables of git and its credential helpers.
const GIT: [&str; 11] = [
    "CI_JOB_TOKEN",
    "EMAIL",
    "GCM_*",
    "GH_ENTERPRISE_TOKEN",
    "GH_HOST",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "GIT_*",
    "SSH_*",
    "SUDO_ASKPASS",
];

/// Additional variables of the programs of kubeconfigs.
const CLOUDS: [&str; 8] = [
    "AWS_*",
    "AZURE_*",
    "CLOUDSDK_*",
    "GOOGLE_*",
    "KUBECONFIG",
    "KUBERNETES_*",
    "OCI_*",
    "OS_*",
];

fn is_among(name: &OsStr, names: &[&str]) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    names.iter().any(|each| match each.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *each,
    })
}

/// Returns the folders in which programs are looked for: those of `PATH` but what lies in the checkout, where
/// a change of the design brings programs.
pub(super) fn search_path(root: &Path) -> OsString {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_outside = |folder: &PathBuf| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute() && !real.starts_with(&root)
    };
    std::env::join_paths(std::env::split_paths(&path).filter(is_outside)).unwrap_or_default()
}

fn passed(root: &Path, passes: impl Fn(&OsStr) -> bool) -> Vec<(OsString, OsString)> {
    let passed = std::env::vars_os().filter(|(name, _)| passes(name));
    let path = [("PATH".into(), search_path(root))];
    passed
        .filter(|(name, _)| name != "PATH")
        .chain(path)
        .collect()
}

/// Returns the variables for a program that prints a secret; `also`: those that the site passes on to it.
pub(super) fn for_program(root: &Path, also: &BTreeSet<String>) -> Vec<(OsString, OsString)> {
    passed(root, |name| {
        is_among(name, &USUAL) || name.to_str().is_some_and(|name| also.contains(name))
    })
}

/// Returns the variables for git if it is asked about a repository with this top: no helper is started for it.
pub(super) fn for_questions(root: &Path) -> Vec<(OsString, OsString)> {
    passed(root, |name| is_among(name, &USUAL) || is_among(name, &GIT))
}

/// Returns the variables for git; besides the usual ones those that its credential helpers name, and
/// those that the operator lists in `trueup.gitEnvironment`.
pub(super) fn for_git(repository: &Repository) -> Vec<(OsString, OsString)> {
    let also = repository.helper_variables();
    passed(repository.root(), |name| {
        is_among(name, &USUAL)
            || is_among(name, &GIT)
            || name.to_str().is_some_and(|name| also.contains(name))
    })
}

/// Returns the variables for a program of a kubeconfig.
pub(super) fn for_plugin(root: &Path, also: &BTreeSet<String>) -> Vec<(OsString, OsString)> {
    passed(root, |name| {
        is_among(name, &USUAL)
            || is_among(name, &CLOUDS)
            || name.to_str().is_some_and(|name| also.contains(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_pass_by_name_or_by_their_beginning() {
        for (name, passes) in [
            ("PATH", true),
            ("LC_ALL", true),
            ("XDG_CONFIG_HOME", true),
            ("BMC_PASSWORD", false),
            ("PATHS", false),
            ("TRUEUP_TRUST_FILE", false),
        ] {
            assert_eq!(is_among(OsStr::new(name), &USUAL), passes, "{name}");
        }
        // The headers of OpenTelemetry's exporter hold credentials of the collector.
        for name in [
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "TRACEPARENT",
        ] {
            let names = [&USUAL[..], &GIT, &CLOUDS];
            let passes = names.iter().any(|names| is_among(OsStr::new(name), names));
            assert!(!passes, "{name}");
        }
    }
}
