//! A connection to one controller: requests, its session, versions, long operations.
//!
//! A session is opened where the service offers one and deleted at the end, also where the caller was
//! cancelled meanwhile: controllers have few of them. Where none can be had, each request carries the
//! account (HTTP Basic).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::resource::{Part, Redfish as Words, Resource, last};
use crate::backend::http::{Answer, Class, Client, Credentials, Endpoint, Failure, Request, plain};
use crate::backend::{Reporter, Secret};
use crate::threads::lock;

/// Most members of a collection that are read.
const MOST_MEMBERS: usize = 10_000;
/// How often a look is tried, where failing can pass.
const LOOKS: u32 = 3;
/// The longest time between two polls of a task.
const TASK_INTERVAL: Duration = Duration::from_secs(10);

/// A controller of one node.
pub(super) struct Controller {
    client: Arc<Client>,
    subject: Arc<str>,
    endpoint: Endpoint,
    account: Option<Credentials>,
    sessions: Option<Arc<str>>,
    session: Mutex<Option<Session>>,
    own: Option<Own>,
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

/// A session that was opened.
struct Session {
    token: Credentials,
    path: Option<String>,
}

/// The state of a request that may take long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It was done, or so it is said.
    Done,
    /// It runs; the task to poll.
    Task(Arc<str>),
}

/// How a long operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// It runs, with its reported progress.
    Running(String),
    /// It ended well.
    Done,
    /// It ended badly; what it says.
    Failed(String),
    /// Not found any more.
    Gone,
}

impl Controller {
    /// A controller that nothing was asked of yet.
    pub(super) fn new(
        client: Arc<Client>,
        subject: Arc<str>,
        endpoint: Endpoint,
        account: Option<Credentials>,
    ) -> Self {
        Self {
            client,
            subject,
            endpoint,
            account,
            sessions: None,
            session: Mutex::default(),
            own: None,
        }
    }

    /// Uses the controller for one of its systems alone: requests to another one are refused from now on.
    pub(super) fn keep_to(&mut self, own: Own) {
        self.own = Some(own);
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Opens a session where the service has them; a path from its root, or from an earlier time.
    ///
    /// # Errors
    ///
    /// The account is refused, or the controller does not answer. Missing or exhausted sessions are no error.
    pub(super) async fn log_in(&mut self, sessions: Option<Arc<str>>) -> Result<(), Failure> {
        self.sessions = sessions;
        self.open_session().await
    }

    async fn open_session(&self) -> Result<(), Failure> {
        let (Some(path), Some(Credentials::Basic { username, password })) =
            (&self.sessions, &self.account)
        else {
            return Ok(());
        };
        let request = self
            .request(Method::POST, path)?
            .json(&json!({"UserName": username, "Password": password.reveal()}))
            .hide(password);
        let answer = match self.client.send(&request).await {
            Ok(answer) => answer,
            Err(failure) => {
                let refused = failure.status().is_none()
                    || failure.status() == Some(StatusCode::UNAUTHORIZED)
                    || failure.status() == Some(StatusCode::FORBIDDEN);
                return if refused { Err(failure) } else { Ok(()) };
            }
        };
        if let Some(token) = answer.header("x-auth-token") {
            let session = Session {
                token: Credentials::Header {
                    name: "x-auth-token",
                    value: Secret::new(token.to_owned()),
                },
                path: answer.header("location").map(str::to_owned),
            };
            *self.session() = Some(session);
        }
        Ok(())
    }

    /// Ends the session.
    pub(super) async fn log_out(&self) {
        let session = self.session().take();
        if let Some(request) = session.and_then(|session| self.delete_session(session)) {
            request.await;
        }
    }

    /// The request that deletes a session; its failure is ignored.
    fn delete_session(
        &self,
        session: Session,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let url = self.endpoint.resolve(session.path.as_deref()?).ok()?;
        let (client, subject) = (self.client.clone(), self.subject.clone());
        Some(async move {
            let request = Request::new(&subject, Method::DELETE, url)
                .credentials(Some(&session.token))
                .last();
            // An end that is refused leaves the session to its own end.
            drop(client.send(&request).await);
        })
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Option<Session>> {
        lock(&self.session)
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
            Ok(url) => Ok(Request::new(&self.subject, method, url)
                .dialect(&Words)
                .header("odata-version", "4.0")),
            Err(error) => Err(elsewhere(&error.to_string())),
        }
    }

    /// Sends with the session where there is one, which is opened anew once if it has ended.
    async fn send(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let token = self.session().as_ref().map(|session| session.token.clone());
        let Some(token) = token else {
            return self
                .client
                .send(&request.credentials(self.account.as_ref()))
                .await;
        };
        let sent = self
            .client
            .send(&request.clone().credentials(Some(&token)))
            .await;
        match sent {
            Err(failure) if failure.status() == Some(StatusCode::UNAUTHORIZED) => {
                *self.session() = None;
                self.open_session().await?;
                let token = self.session().as_ref().map(|session| session.token.clone());
                let credentials = token.as_ref().or(self.account.as_ref());
                self.client.send(&request.credentials(credentials)).await
            }
            sent => sent,
        }
    }

    /// Reads a resource.
    pub(super) async fn get(&self, path: &str) -> Result<Resource, Failure> {
        let request = self.request(Method::GET, path)?.attempts(LOOKS);
        let answer = self.send(request).await?;
        Resource::read(path, &answer)
    }

    /// Reads the service's root, which needs no login.
    pub(super) async fn root(&self) -> Result<Resource, Failure> {
        const ROOT: &str = "/redfish/v1/";
        let request = self.request(Method::GET, ROOT)?.attempts(LOOKS);
        let answer = self.client.send(&request).await?;
        Resource::read(ROOT, &answer)
    }

    /// Reads a resource that not every implementation has; `None` if not found.
    pub(super) async fn get_if_there(&self, path: &str) -> Result<Option<Resource>, Failure> {
        match self.get(path).await {
            Ok(resource) => Ok(Some(resource)),
            Err(failure) => match failure.status().map(|status| status.as_u16()) {
                Some(404 | 405 | 410 | 501) => Ok(None),
                _ => Err(failure),
            },
        }
    }

    /// The paths of a collection's members, page by page. Tried once: some services answer for good with
    /// an error of the server where they have no such thing.
    pub(super) async fn members(&self, collection: &str) -> Result<Vec<Arc<str>>, Failure> {
        let request = self.request(Method::GET, collection)?;
        let mut page = Resource::read(collection, &self.send(request).await?)?;
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
    /// them where it cannot, or fails to. `levels`: [`Resource::expands`].
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
        let request = self.request(Method::GET, &path)?;
        let page = match self.send(request).await {
            Ok(answer) => Resource::read(collection, &answer)?,
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

    /// Asks for an action.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Accepted, Failure> {
        let request = self.request(Method::POST, path)?.json(body);
        let answer = self.send(request).await?;
        Ok(accepted(&answer))
    }

    /// Changes a resource as it was read; where it changed meanwhile, once more as it is then.
    pub(super) async fn patch(
        &self,
        resource: &Resource,
        body: &Value,
    ) -> Result<Accepted, Failure> {
        let mut etag = resource.etag.clone();
        let mut again = etag.is_some();
        loop {
            let mut request = self.request(Method::PATCH, &resource.path)?.json(body);
            if let Some(etag) = etag.take() {
                request = request.header("if-match", etag);
            }
            match self.send(request).await {
                Ok(answer) => return Ok(accepted(&answer)),
                Err(failure)
                    if again && failure.status() == Some(StatusCode::PRECONDITION_FAILED) =>
                {
                    again = false;
                    etag = self.get(&resource.path).await?.etag;
                }
                Err(failure) => return Err(failure),
            }
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

    /// Waits for a long operation's end.
    ///
    /// # Errors
    ///
    /// It failed, or its task is not found any more.
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
                Ok(TaskState::Failed(text)) => {
                    let text = format!("{what} failed: {}", plain(&text, 300));
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

impl Drop for Controller {
    fn drop(&mut self) {
        let session = self.session().take();
        let deletion = session.and_then(|session| self.delete_session(session));
        if let (Some(deletion), Ok(runtime)) = (deletion, tokio::runtime::Handle::try_current()) {
            runtime.spawn(deletion);
        }
    }
}

pub(super) fn accepted(answer: &Answer) -> Accepted {
    if answer.status() != StatusCode::ACCEPTED {
        return Accepted::Done;
    }
    let body: Option<Value> = answer.json().ok();
    let of_body = || {
        let body = body.as_ref()?;
        let monitor = body.get("TaskMonitor").or_else(|| body.get("@odata.id"))?;
        monitor.as_str()
    };
    match answer.header("location").or_else(of_body) {
        Some(location) => Accepted::Task(Arc::from(location)),
        None => Accepted::Done,
    }
}

pub(super) fn task_state(status: StatusCode, body: Option<&Resource>) -> TaskState {
    let state = body.and_then(|body| body.text("/TaskState"));
    let messages = || {
        let list = body.and_then(|body| body.value.get("Messages")?.as_array());
        let texts = list.into_iter().flatten();
        let texts: Vec<&str> = texts
            .filter_map(|message| message.get("Message")?.as_str())
            .collect();
        texts.join(" ")
    };
    match state {
        Some("Completed") => match body.and_then(|body| body.text("/TaskStatus")) {
            Some("Critical") => TaskState::Failed(format!("it ended, critical: {}", messages())),
            _ => TaskState::Done,
        },
        Some(ended @ ("Exception" | "Killed" | "Cancelled")) => {
            TaskState::Failed(format!("{ended}: {}", messages()))
        }
        None if status != StatusCode::ACCEPTED => TaskState::Done,
        other => {
            let state = plain(other.unwrap_or("Running"), 40);
            TaskState::Running(
                match body.and_then(|body| body.number("/PercentComplete")) {
                    Some(percent) => format!("{state}, {percent} %"),
                    None => state,
                },
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_from_its_state_and_a_monitor_from_its_status() {
        let table = [
            (202, json!({}), TaskState::Running("Running".to_owned())),
            (
                202,
                json!({"TaskState": "Pending", "PercentComplete": 3}),
                TaskState::Running("Pending, 3 %".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Running"}),
                TaskState::Running("Running".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Completed", "TaskStatus": "OK"}),
                TaskState::Done,
            ),
            (
                200,
                json!({"TaskState": "Completed", "TaskStatus": "Critical", "Messages": [{"Message": "no"}]}),
                TaskState::Failed("it ended, critical: no".to_owned()),
            ),
            (
                200,
                json!({"TaskState": "Exception", "Messages": [{"Message": "bad drive"}, {}]}),
                TaskState::Failed("Exception: bad drive".to_owned()),
            ),
            (200, json!({"Id": "drive"}), TaskState::Done),
            (204, Value::Null, TaskState::Done),
        ];
        for (status, value, expected) in table {
            let body = Resource {
                value,
                path: Arc::from("/t"),
                etag: None,
            };
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(task_state(status, Some(&body)), expected, "{}", body.value);
        }
    }
}
