//! How a cluster is reached, as `clusters` of the site's `trueup/Backends/v1` says.
//!
//! The schema has checked the form already if a site was validated. A kubeconfig is referred to:
//! `file` is its path, what `env` or `exec` gives is its content; without a reference it is looked for
//! where kubectl looks (`KUBECONFIG`, `~/.kube/config`), and then in the pod that trueup runs in.

use std::sync::Arc;

use crate::design::{Guards, Reference};

/// The image of the pod that shuts a kubelet down, if the document names none: it has to have
/// `nsenter` and `sleep`.
const SHUTDOWN_IMAGE: &str = "busybox:1.36";

/// How a cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) struct Settings {
    /// Its name in the document.
    pub(in crate::backend) name: Arc<str>,
    /// Where its kubeconfig is; `None`: where kubectl looks for it.
    pub(in crate::backend) kubeconfig: Option<Reference>,
    /// The context in it; `None`: the current one.
    pub(in crate::backend) context: Option<Arc<str>>,
    /// The image of the pod that shuts a kubelet down.
    pub(in crate::backend) shutdown_image: Arc<str>,
    /// Whether credentials may be sent over plain HTTP.
    pub(in crate::backend) allows_plain_http: bool,
}

impl Settings {
    /// Reads the settings of a cluster; `None` if the document names no such cluster, or a simulated one.
    pub(in crate::backend) fn read(guards: &Guards, name: &str) -> Option<Self> {
        let clusters = guards.backends.data.as_ref()?.get("clusters")?;
        let written = clusters.get(name)?;
        let text = |key| written.get(key).and_then(|node| node.as_str());
        if text("kind").is_some_and(|kind| kind != "kubernetes") {
            return None;
        }
        Some(Self {
            name: Arc::from(name),
            kubeconfig: written.get("kubeconfig").and_then(Reference::read),
            context: text("context").map(Arc::from),
            shutdown_image: Arc::from(text("shutdown_image").unwrap_or(SHUTDOWN_IMAGE)),
            allows_plain_http: guards.backends.allow_plain_http,
        })
    }
}
