//! A service from its settings to its end.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use axum::{Router, middleware};
use http::Uri;
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;

use super::address::Address;
use super::answer::Refusal;
use super::authenticate::Authenticator;
use super::certificate::acceptor;
use super::deckhand::Deckhand;
use super::guard::{guard, panicked};
use super::health::{IMAGES, probes};
use super::host::Host;
use super::images::ImageFolder;
use super::listen::{Limits, Listener, answer};
use super::resume::resume;
use super::settings::{Files, Settings};
use super::shared::Shared;
use super::{Error, own, page, promenade, shipyard};
use crate::run::Stop;
use crate::workflow::Failure;

/// A service that listens.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    limits: Limits,
    images: Option<Arc<ImageFolder>>,
}

impl Server {
    /// Listens on addresses.
    ///
    /// # Errors
    ///
    /// The settings cannot be used; an address would be open to callers who are not authenticated, or cannot be listened
    /// on.
    pub async fn bind(
        host: Arc<dyn Host>,
        settings: &Settings,
        files: &Files,
        addresses: &[Address],
        own_uid: u32,
    ) -> Result<Self, Error> {
        for address in addresses {
            settings.admits(address)?;
        }
        let authenticator = Authenticator::new(settings, own_uid)?;
        let deckhand = settings.deckhand.as_ref();
        let deckhand = deckhand
            .map(|listed| Deckhand::new(listed, files))
            .transpose()?;
        let tls = acceptor(files)?;
        let images = settings.images.as_ref();
        let images = images
            .map(|images| {
                let (host, allow) = (host.clone(), images.allow.clone());
                ImageFolder::open(host, &images.folder, IMAGES, allow).map(Arc::new)
            })
            .transpose()?;
        let mut listeners = Vec::with_capacity(addresses.len());
        for address in addresses {
            let is_shared = !settings.peers.is_empty() || settings.has_tokens();
            listeners.push(Listener::bind(address, tls.clone(), is_shared).await?);
        }
        let shared = Shared::new(host, settings, (authenticator, deckhand));
        Ok(Self {
            shared: Arc::new(shared),
            listeners,
            limits: Limits {
                connections: settings.limits.connections,
                ..Limits::default()
            },
            images,
        })
    }

    /// The folder of images that is served to controllers.
    #[must_use]
    pub fn images(&self) -> Option<&ImageFolder> {
        self.images.as_deref()
    }

    /// The words of the settings that bind a role to machines, and mean none of the committed design.
    ///
    /// # Errors
    ///
    /// The site cannot be read.
    pub async fn words_of_no_machine(&self) -> Result<Vec<Arc<str>>, Failure> {
        if !self.shared.has_parts() {
            return Ok(Vec::new());
        }
        let shared = self.shared.clone();
        let view = self.shared.ask(move || shared.view_of_site()).await;
        let view = view.map_err(|refusal| Failure::error(refusal.into_status().message))??;
        Ok(view.words_of_none().cloned().collect())
    }

    /// The addresses that it listens on, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Resumes the run that was interrupted, beside the answers to requests.
    pub fn resume_interrupted(&self) {
        // If the place is taken, there is nothing to resume.
        let _ = resume(&self.shared, None);
    }

    /// Answers until a stop is asked for; then begins nothing more, asks the running action to stop, and ends when it
    /// has. Asked again, the action stops at once.
    pub async fn run(self, mut stop: Stop) {
        let Self {
            shared,
            listeners,
            limits,
            images,
        } = self;
        let router = router(&shared, images);
        let (over, is_over) = watch::channel(false);
        let stopping = shared.clone();
        let ending = async move {
            stop.asked().await;
            stopping.actions.stop();
            tokio::select! {
                () = stopping.actions.idle() => {}
                () = stop.immediately() => {
                    stopping.actions.stop();
                    stopping.actions.idle().await;
                }
            }
            stopping.feeds.close();
            over.send_replace(true);
        };
        tokio::join!(answer(listeners, router, limits, is_over), ending);
    }
}

fn router(shared: &Arc<Shared>, images: Option<Arc<ImageFolder>>) -> Router {
    let routes = promenade::routes()
        .merge(own::routes())
        .merge(page::routes())
        .merge(shipyard::routes())
        .fallback(no_resource)
        .method_not_allowed_fallback(promenade::no_method)
        .with_state(shared.clone());
    let routes = match images {
        Some(images) => routes.nest(IMAGES.trim_end_matches('/'), images.routes()),
        None => routes,
    };
    routes
        .merge(probes(shared.clone()))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
}

/// Refuses a path that nothing has, in the form of the API that it would be of.
async fn no_resource(uri: Uri) -> Response {
    let path = uri.path();
    match path.starts_with("/api/v1.0/") && !path.starts_with("/api/v1.0/nodes/") {
        true => shipyard::no_resource(path),
        false => Refusal::not_found("there is no such resource").into_response(),
    }
}
