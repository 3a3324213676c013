//! A connection to one controller: requests, its session, versions, long operations.
//!
//! What only reads is tried three times, whatever is read. What changes something is sent in the shape that the
//! controller takes: with the version that it demands, without a header that it refuses, to the path that it means.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::resource::{Part, Redfish as Words, Resource, last};
use super::session::{Login, SessionPool};
use super::shapes::{
    ANY_VERSION, Make, Operation, PATCH, Remembered, STRONG, Shape, Shapes, VERSION,
    is_about_shape, is_about_version,
};
use super::task::{Accepted, TaskState, accepted, task_state};
use crate::backend::Reporter;
use crate::backend::http::{Answer, Class, Client, Credentials, Endpoint, Failure, Request, plain};
use crate::backend::looks::Endings;

/// Most members of a collection that are read.
const MOST_MEMBERS: usize = 10_000;
/// How often a look is tried, where failing can pass.
const LOOKS: u32 = 3;
/// The time before an answer that was no resource is read again.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest time between two polls of a task.
const TASK_INTERVAL: Duration = Duration::from_secs(10);

/// A controller of one node.
pub(super) struct Controller {
    client: Arc<Client>,
    subject: Arc<str>,
    endpoint: Endpoint,
    login: Login,
    own: Option<Own>,
    /// Whether requests name the version of the protocol.
    names_version: AtomicBool,
    remembered: Arc<Remembered>,
    make: Make,
}

/// The system that a controller is used for, and the collection in which it and others are.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) system: Arc<str>,
    pub(super) systems: Arc<str>,
}

impl Own {
    /// Whether a path on the controller is of another system.
    pub(super) fn is_of_another(&self, path: &str) -> bool {
        let path = parts(path);
        path.len() > parts(&self.systems).len()
            && path.starts_with(&parts(&self.systems))
            && !path.starts_with(&parts(&self.system))
    }
}

/// Whether an implementation does not have what was asked for.
pub(super) fn is_not_there(failure: &Failure) -> bool {
    let status = failure.status().map(|status| status.as_u16());
    matches!(status, Some(404 | 405 | 410 | 501))
}

/// Whether a refusal tells that the resource is gone, and not that the method is none of it.
fn is_gone(failure: &Failure) -> bool {
    let status = failure.status().map(|status| status.as_u16());
    matches!(status, Some(404 | 410))
}

/// The parts of a path, without escapes, in lower case: what some service may take for the same.
pub(super) fn parts(path: &str) -> Vec<String> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let bytes = part.as_bytes();
            let mut plain = Vec::with_capacity(bytes.len());
            let mut at = 0;
            while at < bytes.len() {
                let digits = part.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
                match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(escaped) => {
                        plain.push(escaped);
                        at += 3;
                    }
                    None => {
                        plain.push(bytes[at]);
                        at += 1;
                    }
                }
            }
            String::from_utf8_lossy(&plain).to_lowercase()
        })
        .collect()
}

impl Controller {
    /// A controller that nothing was asked of yet.
    pub(super) fn new(
        client: Arc<Client>,
        subject: Arc<str>,
        endpoint: Endpoint,
        account: Option<Credentials>,
        (remembered, sessions): (Arc<Remembered>, (Endings, Arc<SessionPool>)),
    ) -> Self {
        let (other, name, place) = (client.clone(), subject.clone(), endpoint.clone());
        Self {
            login: Login::new(other, name, place, account, sessions),
            client,
            subject,
            endpoint,
            own: None,
            names_version: AtomicBool::new(true),
            remembered,
            make: Make::default(),
        }
    }

    /// Its habits are those of a make from now on.
    pub(super) fn is_made(&mut self, make: Make) {
        self.make = make;
    }

    /// The shapes of an operation in the order in which this controller is given them.
    pub(super) fn shapes(&self, operation: Operation, all: Vec<Shape>) -> Shapes {
        let accepted = self.remembered.shape(&self.make, operation);
        Shapes::of(all, &self.make, operation, accepted.as_ref())
    }

    /// Whether a controller of its make has taken something before.
    pub(super) fn has_taken(&self, operation: Operation) -> bool {
        self.remembered.shape(&self.make, operation).is_some()
    }

    /// Remembers the shape in which it took something.
    pub(super) fn takes(&self, operation: Operation, shape: &Shape) {
        if self.remembered.keep(&self.make, operation, shape) {
            let (subject, make) = (&self.subject, &self.make);
            log::info!(
                "{subject}: its controller takes {operation} with {shape} (remembered for `{make}`)"
            );
        }
    }

    /// Uses the controller for one of its systems alone: requests to another one are refused from now on.
    pub(super) fn keep_to(&mut self, own: Own) {
        self.own = Some(own);
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The account that logs in.
    pub(super) fn account(&self) -> Option<&Credentials> {
        self.login.account()
    }

    /// A text of the controller as it may be shown.
    pub(super) fn masked(&self, text: &str, longest: usize) -> String {
        self.login.masked(text, longest)
    }

    /// Opens a session if the service has them; a path from its root, or from an earlier time.
    ///
    /// # Errors
    ///
    /// The controller does not answer. Missing, refused or exhausted sessions are no error.
    pub(super) async fn log_in(&self, sessions: Option<Arc<str>>) -> Result<(), Failure> {
        self.login.open(sessions).await
    }

    /// Whether it accepts the login: by a session if it has them, else by a read of a path. A wrong password is sent
    /// twice only if the refusal of the session does not tell that it is wrong.
    ///
    /// # Errors
    ///
    /// It does not answer, or for another reason than the login.
    pub(super) async fn accepts_login(
        &self,
        sessions: Option<Arc<str>>,
        path: &str,
    ) -> Result<bool, Failure> {
        if let Some(is_accepted) = self.login.accepts(sessions).await? {
            return Ok(is_accepted);
        }
        match self.get(path).await {
            Ok(_) => Ok(true),
            Err(failure) => match failure.status().map(|status| status.as_u16()) {
                Some(401 | 403) => Ok(false),
                _ => Err(failure),
            },
        }
    }

    /// Ends the session, if no later step of the run uses it.
    pub(super) async fn log_out(&self) {
        self.login.close().await;
    }

    fn request(&self, method: Method, path: &str) -> Result<Request<'_>, Failure> {
        let elsewhere = |text: &str| {
            let what = format!("{method} {}", plain(path, 160));
            let authority = self.endpoint.authority();
            Failure::unsent(&self.subject, authority, &what, text)
        };
        match self.endpoint.resolve(path) {
            Ok(url)
                if self
                    .own
                    .as_ref()
                    .is_some_and(|own| own.is_of_another(url.path())) =>
            {
                Err(elsewhere("this leads to another system of the controller"))
            }
            Ok(url) => Ok(Request::new(&self.subject, method, url).dialect(&Words)),
            Err(error) => Err(elsewhere(&error.to_string())),
        }
    }

    /// Sends a request; `is_open`: without the login.
    async fn send_as(&self, request: Request<'_>, is_open: bool) -> Result<Answer, Failure> {
        let send = async |request: Request<'_>| match is_open {
            true => self.client.send(&request).await,
            false => self.login.send(request).await,
        };
        if !self.names_version.load(Ordering::Relaxed) {
            return send(request).await;
        }
        let versioned = request.clone().header("odata-version", "4.0");
        match send(versioned).await {
            Err(failure) if refuses_version(&failure) => {
                self.names_version.store(false, Ordering::Relaxed);
                send(request).await
            }
            sent => sent,
        }
    }

    async fn send(&self, request: Request<'_>) -> Result<Answer, Failure> {
        self.send_as(request, false).await
    }

    /// Reads a resource, and again if what came is no resource.
    async fn read(&self, path: &str, is_open: bool) -> Result<Resource, Failure> {
        let mut looks = 1;
        loop {
            let request = self.request(Method::GET, path)?.attempts(LOOKS);
            let answer = self.send_as(request, is_open).await?;
            match Resource::read(path, &answer) {
                Err(_) if looks < LOOKS => {
                    looks += 1;
                    sleep(AGAIN).await;
                }
                read => return read,
            }
        }
    }

    /// Reads a resource.
    pub(super) async fn get(&self, path: &str) -> Result<Resource, Failure> {
        self.read(path, false).await
    }

    /// Reads the service's root, which needs no login.
    pub(super) async fn root(&self) -> Result<Resource, Failure> {
        self.read("/redfish/v1/", true).await
    }

    /// Reads a resource that not every implementation has; `None` if not found.
    pub(super) async fn get_if_there(&self, path: &str) -> Result<Option<Resource>, Failure> {
        match self.get(path).await {
            Ok(resource) => Ok(Some(resource)),
            Err(failure) if is_not_there(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The paths of a collection's members, page by page.
    pub(super) async fn members(&self, collection: &str) -> Result<Vec<Arc<str>>, Failure> {
        let mut page = self.get(collection).await?;
        let mut members = page.links("/Members");
        while let Some(next) = page.text("/Members@odata.nextLink").map(str::to_owned) {
            let before = members.len();
            page = self.get(&next).await?;
            members.extend(page.links("/Members"));
            if members.len() == before || members.len() > MOST_MEMBERS {
                break;
            }
        }
        members.truncate(MOST_MEMBERS);
        Ok(members)
    }

    /// The members of a collection, written out in the same answer as deep as the service can; links to
    /// them if it cannot, or fails to. `levels`: [`Resource::expands`].
    pub(super) async fn parts(&self, collection: &str, levels: u64) -> Result<Vec<Part>, Failure> {
        let links = async || {
            let members = self.members(collection).await?;
            Ok(members.into_iter().map(Part::Link).collect())
        };
        // Those that can go no deeper take no number; drives are two levels below.
        let path = match levels {
            0 => return links().await,
            1 => format!("{collection}?$expand=."),
            _ => format!("{collection}?$expand=.($levels=2)"),
        };
        let page = match self.get(&path).await {
            Ok(page) => page,
            Err(failure) if failure.status().is_some() => return links().await,
            Err(failure) => return Err(failure),
        };
        if page.text("/Members@odata.nextLink").is_some() {
            return links().await;
        }
        let mut parts = page.parts("/Members");
        parts.truncate(MOST_MEMBERS);
        Ok(parts)
    }

    /// Sends a change, and to the other form of its path where a redirect leads there: nothing was done by then.
    async fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        version: Option<&str>,
    ) -> Result<Accepted, Failure> {
        let send = async |path: &str| {
            // What is refused in passing was not done, so that it can be sent again as it is.
            let request = self.request(method.clone(), path)?.json(body);
            let mut request = request.attempts(LOOKS);
            if let Some(version) = version {
                request = request.header("if-match", version);
            }
            self.send(request).await
        };
        let sent = match send(path).await {
            Err(failure)
                if failure
                    .status()
                    .is_some_and(|status| status.is_redirection()) =>
            {
                let other = match path.strip_suffix('/') {
                    Some(path) => path.to_owned(),
                    None => format!("{path}/"),
                };
                send(&other).await
            }
            sent => sent,
        };
        Ok(accepted(&sent?))
    }

    /// Asks for an action.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Accepted, Failure> {
        self.change(Method::POST, path, body, None).await
    }

    /// Deletes a resource; one that is gone is deleted.
    pub(super) async fn delete(&self, path: &str) -> Result<Accepted, Failure> {
        let request = self.request(Method::DELETE, path)?.attempts(LOOKS);
        match self.send(request).await {
            Ok(answer) => Ok(accepted(&answer)),
            Err(failure) if is_gone(&failure) => Ok(Accepted::Done),
            Err(failure) => Err(failure),
        }
    }

    /// Changes a resource as it was read; if it changed meanwhile, once more as it is then. If the version is
    /// still refused it is named in other forms, since some controllers compare them wrongly or demand one that
    /// they do not tell.
    pub(super) async fn patch(
        &self,
        resource: &Resource,
        body: &Value,
    ) -> Result<Accepted, Failure> {
        let own = resource.etag.clone();
        let mut shapes = self.shapes(Operation::Precondition, versions(own.as_deref()));
        let mut etag = own;
        let (mut shape, mut is_fresh) = (shapes.next().unwrap_or_default(), false);
        loop {
            let version = version(&shape, etag.as_deref());
            let sent = self
                .change(Method::PATCH, &resource.path, body, version.as_deref())
                .await;
            let refusal = match sent {
                Err(failure) if is_about_version(&failure) => failure,
                sent => {
                    if sent.is_ok() {
                        self.takes(Operation::Precondition, &shape);
                    }
                    return sent;
                }
            };
            let had_version = etag.is_some();
            if had_version {
                etag = self.get(&resource.path).await?.etag;
            }
            if had_version && !std::mem::replace(&mut is_fresh, true) {
                continue;
            }
            match shapes.next() {
                Some(next) => shape = next,
                None => return Err(refusal),
            }
        }
    }

    /// Sends something in one shape after the other, as long as each is refused for its shape; `shapes`: some.
    pub(super) async fn in_shapes<F>(
        &self,
        operation: Operation,
        shapes: Vec<Shape>,
        send: impl Fn(&Shape) -> F,
    ) -> Result<Accepted, Failure>
    where
        F: Future<Output = Result<Accepted, Failure>>,
    {
        let mut shapes = self.shapes(operation, shapes);
        let mut shape = shapes.next().unwrap_or_default();
        let mut first: Option<Failure> = None;
        loop {
            let failure = match send(&shape).await {
                Ok(accepted) => {
                    self.takes(operation, &shape);
                    return Ok(accepted);
                }
                Err(failure) => failure,
            };
            // A path or a method that does not exist asks for the other way.
            let status = failure.status().map(|status| status.as_u16());
            let is_other_way = matches!(status, Some(404 | 405 | 501));
            let is_about_shape = is_other_way || is_about_shape(&failure);
            let words = match is_other_way {
                true => PATCH,
                false => failure.words().unwrap_or_default(),
            };
            let next = shapes.after(&shape, words).filter(|_| is_about_shape);
            let first_failure = first.take().unwrap_or(failure);
            match next {
                Some(next) => shape = next,
                None => return Err(first_failure),
            }
            first = Some(first_failure);
        }
    }

    /// How a long operation stands.
    pub(super) async fn task(&self, path: &str) -> Result<TaskState, Failure> {
        let request = self.request(Method::GET, path)?.attempts(LOOKS);
        let answer = match self.send(request).await {
            Ok(answer) => answer,
            Err(failure) => {
                return match failure.status().map(|status| status.as_u16()) {
                    Some(404 | 410) => Ok(TaskState::Gone),
                    // A monitor answers with the operation's own refusal at its end.
                    Some(400 | 409 | 412 | 422) => Ok(TaskState::Failed(failure.text().to_owned())),
                    _ => Err(failure),
                };
            }
        };
        let body = Resource::read(path, &answer).ok();
        Ok(task_state(answer.status(), body.as_ref()))
    }

    /// Waits for a long operation's end. One that ends with a warning may not have done all of it.
    ///
    /// # Errors
    ///
    /// It failed, warned of something, or its task is not found any more.
    pub(super) async fn follow(
        &self,
        what: &str,
        task: &str,
        settling: Duration,
        reporter: &Reporter,
    ) -> Result<(), Failure> {
        let interval = settling.clamp(Duration::from_millis(200), TASK_INTERVAL);
        loop {
            let failed = |class, text: &str| {
                let asked = format!("task {}", last(task));
                let authority = self.endpoint.authority();
                Failure::unsent(&self.subject, authority, &asked, text).meaning(class)
            };
            match self.task(task).await {
                Ok(TaskState::Done) => return Ok(()),
                Ok(TaskState::Warned(text)) => {
                    let text = format!(
                        "{what} ended with a warning, so that it may not be complete: {}",
                        self.masked(&text, 300)
                    );
                    return Err(failed(Class::Ambiguous, &text));
                }
                Ok(TaskState::Failed(text)) => {
                    let text = format!("{what} failed: {}", self.masked(&text, 300));
                    return Err(failed(Class::Permanent, &text));
                }
                Ok(TaskState::Gone) => {
                    let text = format!("{what} was begun, and its task is not found any more");
                    return Err(failed(Class::Ambiguous, &text));
                }
                Ok(TaskState::Running(state)) => reporter.progress(format!("{what}: {state}")),
                // A controller may be away for a while; the step's own time is the bound.
                Err(failure) if failure.class() == Class::Passing => {
                    reporter.progress(format!("{what}: {failure}"));
                }
                Err(failure) => return Err(failure),
            }
            sleep(interval).await;
        }
    }
}

/// Whether a refusal is about the header that names the version of the protocol.
fn refuses_version(failure: &Failure) -> bool {
    let words = failure.words().unwrap_or_default().to_ascii_lowercase();
    let is_refused = matches!(
        failure.status().map(|status| status.as_u16()),
        Some(400 | 406 | 412 | 501)
    );
    is_refused && words.contains("odata")
}

/// The forms in which the version of a resource is named that was read with this one.
fn versions(etag: Option<&str>) -> Vec<Shape> {
    let forms: &[&str] = match etag {
        Some(etag) if etag.starts_with("W/") => &[VERSION, STRONG, ANY_VERSION, ""],
        Some(_) => &[VERSION, ANY_VERSION, ""],
        None => &["", ANY_VERSION],
    };
    let shape = |name: &&'static str| match *name {
        "" => Shape::default(),
        name => Shape::of(&[name]),
    };
    forms.iter().map(shape).collect()
}

/// The version in the form of a shape.
fn version(shape: &Shape, etag: Option<&str>) -> Option<String> {
    if shape.has(ANY_VERSION) {
        return Some("*".to_owned());
    }
    let etag = etag?;
    match (shape.has(VERSION), shape.has(STRONG)) {
        (true, _) => Some(etag.to_owned()),
        (_, true) => Some(etag.trim_start_matches("W/").to_owned()),
        _ => None,
    }
}
