//! The way of messages to one destination: a short queue, a thread, a few attempts, and a tally of what was lost.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use reqwest::{Method, Url};
use ring::hmac;
use serde_json::Value;

use super::Notification;
use super::settings::Destination;
use crate::backend::http::{Client, HttpLimits, Request, Trust};
use crate::backend::{Secret, Secrets};
use crate::design::Reference;
use crate::diagnostic::counted;
use crate::threads::lock;

/// The most messages that wait for a destination; further ones are lost.
const QUEUE: usize = 16;
/// How often a message is sent in all. A destination that has failed once is tried once from then on.
const ATTEMPTS: u32 = 3;
/// How far a request goes: the answer does not matter beside its status.
const LIMITS: HttpLimits = HttpLimits {
    connect: Duration::from_secs(3),
    request: Duration::from_secs(4),
    body: 64 << 10,
    redirects: 0,
    per_host: 1,
    total: 1,
    delay: Duration::from_secs(2),
};

/// The header with the signature: `sha256=` and the HMAC-SHA256 of the body in hexadecimal.
const SIGNATURE: &str = "x-trueup-signature";
/// The header with the id of the message, the same in each attempt.
const DELIVERY: &str = "x-trueup-delivery";

/// The way of messages to a destination.
pub(super) struct Delivery {
    name: String,
    destination: Arc<Destination>,
    secrets: Arc<dyn Secrets>,
    queue: Mutex<Option<SyncSender<Arc<Notification>>>>,
    tally: Arc<Tally>,
}

impl Delivery {
    pub(super) fn new(destination: Destination, secrets: Arc<dyn Secrets>) -> Self {
        Self {
            name: format!(
                "`{}` ({})",
                destination.name,
                destination.endpoint.authority()
            ),
            destination: Arc::new(destination),
            secrets,
            queue: Mutex::default(),
            tally: Arc::default(),
        }
    }

    /// The destination by name and host.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Puts a message into the queue.
    pub(super) fn hand_over(&self, notification: &Arc<Notification>) {
        if !self.destination.wants(notification.event) {
            return;
        }
        let mut queue = lock(&self.queue);
        let sender = queue.get_or_insert_with(|| self.begin());
        self.tally.expect();
        match sender.try_send(notification.clone()) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.tally.lose("too many messages wait for it"),
            Err(TrySendError::Disconnected(_)) => self.tally.lose("nothing sends to it any more"),
        }
    }

    /// Starts the thread that sends; it ends when the queue is dropped.
    fn begin(&self) -> SyncSender<Arc<Notification>> {
        let (sender, receiver) = sync_channel(QUEUE);
        let (destination, secrets) = (self.destination.clone(), self.secrets.clone());
        let tally = self.tally.clone();
        let work = move || send_all(&destination, &*secrets, &receiver, &tally);
        // Without a thread the receiver is gone, and each message is told as lost.
        let thread = std::thread::Builder::new().name("notify".to_owned());
        if let Err(error) = thread.spawn(work) {
            log::debug!("no thread for notifications: {error}");
        }
        sender
    }

    /// Waits until all is delivered or lost, at most until `deadline`; what was lost, in a line.
    pub(super) fn settle(&self, deadline: Instant) -> Option<String> {
        let (lost, why) = self.tally.settle(deadline)?;
        let lost = counted(lost, "notification was", "notifications were");
        Some(format!("{lost} not delivered to {}: {why}", self.name))
    }

    /// Sends a message at once, in one attempt.
    pub(super) fn try_now(&self, notification: &Notification) -> Result<(), String> {
        let runtime = runtime()?;
        let opened = Opened::open(&self.destination, &*self.secrets)?;
        runtime.block_on(opened.send(notification, 1))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| format!("the runtime could not be started: {error}"))
}

/// Sends what comes out of the queue, until that is dropped or nothing is waited for any more.
fn send_all(
    destination: &Destination,
    secrets: &dyn Secrets,
    receiver: &Receiver<Arc<Notification>>,
    tally: &Tally,
) {
    let ready = runtime().and_then(|runtime| Ok((runtime, Opened::open(destination, secrets)?)));
    let mut attempts = ATTEMPTS;
    for notification in receiver {
        if tally.is_left() {
            return;
        }
        let result = match &ready {
            Err(why) => Err(why.clone()),
            Ok((runtime, opened)) => runtime.block_on(opened.send(&notification, attempts)),
        };
        match result {
            Ok(()) => tally.deliver(),
            Err(why) => {
                attempts = 1;
                tally.lose(&why);
            }
        }
    }
}

/// A destination whose secrets are known.
struct Opened<'a> {
    destination: &'a Destination,
    client: Client,
    url: Url,
    path: Option<Secret>,
    key: Option<Secret>,
    routing_key: Option<Secret>,
}

impl<'a> Opened<'a> {
    fn open(destination: &'a Destination, secrets: &dyn Secrets) -> Result<Self, String> {
        let reveal = |reference: &Option<Reference>| {
            let secret = reference.as_ref().map(|it| secrets.reveal(it)).transpose();
            secret.map_err(|error| format!("a secret of it cannot be had: {error}"))
        };
        let (path, key) = (reveal(&destination.path)?, reveal(&destination.key)?);
        let routing_key = reveal(&destination.routing_key)?;
        let empty =
            |secret: &Option<Secret>| secret.as_ref().is_some_and(|it| it.reveal().is_empty());
        if empty(&key) || empty(&routing_key) {
            return Err("its key is empty".to_owned());
        }
        let trust = Trust {
            authorities: reveal(&destination.authorities)?,
            allow_plain_http: destination.allows_plain_http,
            ..Trust::default()
        };
        Ok(Self {
            client: Client::new(&trust, LIMITS).map_err(|error| error.to_string())?,
            url: address(destination, path.as_ref())?,
            destination,
            path,
            key,
            routing_key,
        })
    }

    /// Sends a message, a few times if that can help: its id is the same in each.
    async fn send(&self, notification: &Notification, attempts: u32) -> Result<(), String> {
        let routing_key = self.routing_key.as_ref().map_or("", Secret::reveal);
        let Some(body) = self.destination.shape.body(notification, routing_key) else {
            return Ok(());
        };
        let subject = format!("notification to `{}`", self.destination.name);
        let mut request = Request::new(&subject, Method::POST, self.url.clone())
            .repeatable()
            .for_its_status()
            .attempts(attempts)
            .header(DELIVERY, &*notification.id)
            .json(&body);
        if let Some(key) = &self.key {
            request = request.header(SIGNATURE, signature(key, &body));
        }
        let secrets = [&self.path, &self.key, &self.routing_key];
        for secret in secrets.into_iter().flatten() {
            request = request.hide(secret);
        }
        let sent = self.client.send(&request).await;
        sent.map(drop).map_err(|failure| failure.text().to_owned())
    }
}

/// The address of a destination: as it is written, or with the rest that is a secret behind it.
fn address(destination: &Destination, path: Option<&Secret>) -> Result<Url, String> {
    let endpoint = &destination.endpoint;
    let Some(path) = path.map(Secret::reveal) else {
        // Exactly what is written: a slash at its end may make it another address.
        return endpoint
            .resolve(&destination.written)
            .map_err(|error| error.to_string());
    };
    // No text shows what the secret is, nor a part of it.
    let url = endpoint.resolve(path.trim_start_matches('/'));
    let url = url.map_err(|_| "its `path` leads away from its `url`".to_owned())?;
    match url.as_str().ends_with(path) {
        true => Ok(url),
        false => Err("its `path` has characters that an address does not have".to_owned()),
    }
}

/// The signature of a body.
fn signature(key: &Secret, body: &Value) -> String {
    // As `Request::json` writes it; a value cannot fail.
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.reveal().as_bytes());
    format!(
        "sha256={}",
        HEXLOWER.encode(hmac::sign(&key, &bytes).as_ref())
    )
}

/// Messages on their way to a destination, and those that were lost.
#[derive(Default)]
struct Tally {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    lost: usize,
    why: Option<String>,
    /// Nothing is waited for any more.
    is_left: bool,
}

impl Tally {
    fn expect(&self) {
        lock(&self.state).waiting += 1;
    }

    fn deliver(&self) {
        self.change(|_| {});
    }

    fn lose(&self, why: &str) {
        self.change(|state| {
            state.lost += 1;
            state.why = Some(why.to_owned());
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        state.waiting = state.waiting.saturating_sub(1);
        change(&mut state);
        self.changed.notify_all();
    }

    fn is_left(&self) -> bool {
        lock(&self.state).is_left
    }

    /// How many were lost since this was asked last, and why the last of them was.
    fn settle(&self, deadline: Instant) -> Option<(usize, String)> {
        let mut state = lock(&self.state);
        while state.waiting > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.waiting > 0 {
            state.is_left = true;
            state.lost += std::mem::take(&mut state.waiting);
            state.why = Some("no answer in time".to_owned());
        }
        let lost = std::mem::take(&mut state.lost);
        let why = state.why.take().unwrap_or_default();
        (lost > 0).then_some((lost, why))
    }
}
