//! The login at one controller: a session where it has them, else the account with each request.
//!
//! Controllers have few sessions, so each is ended: at the end, where reaching a machine fails, and where the caller
//! was cancelled meanwhile ([`Endings`]). A controller that refuses a session is given the account with each request
//! (HTTP Basic) in its place; where it refuses that, too, the first refusal is the failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde_json::json;
use tokio::task::JoinHandle;

use super::resource::Redfish as Words;
use crate::backend::Secret;
use crate::backend::http::{Answer, Client, Credentials, Endpoint, Failure, Request};
use crate::threads::lock;

/// How long sessions that are being ended are waited for before the process goes.
const LAST: Duration = Duration::from_secs(5);
/// How often the end of a session is tried.
const ENDS: u32 = 3;
/// Most sessions whose ends are remembered.
const MOST_ENDINGS: usize = 10_000;

/// Sessions whose users were cancelled, and which are being ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Endings {
    fn add(&self, ending: JoinHandle<()>) {
        let mut endings = lock(&self.0);
        endings.retain(|each| !each.is_finished());
        if endings.len() < MOST_ENDINGS {
            endings.push(ending);
        }
    }

    /// Waits until all are ended, for a few seconds at most.
    pub(super) async fn all(&self) {
        let endings = std::mem::take(&mut *lock(&self.0));
        // What does not answer meanwhile ends its session by itself.
        drop(tokio::time::timeout(LAST, futures_util::future::join_all(endings)).await);
    }
}

/// A session that was opened.
struct Session {
    token: Credentials,
    /// Where it is ended.
    url: Option<Url>,
}

/// The login at one controller.
pub(super) struct Login {
    client: Arc<Client>,
    subject: Arc<str>,
    endpoint: Endpoint,
    account: Option<Credentials>,
    endings: Endings,
    /// Where sessions are opened; `None`: none are.
    sessions: Mutex<Option<Arc<str>>>,
    session: Mutex<Option<Session>>,
    /// Why the last session was refused.
    refusal: Mutex<Option<Failure>>,
}

impl Login {
    pub(super) fn new(
        client: Arc<Client>,
        subject: Arc<str>,
        endpoint: Endpoint,
        account: Option<Credentials>,
        endings: Endings,
    ) -> Self {
        Self {
            client,
            subject,
            endpoint,
            account,
            endings,
            sessions: Mutex::default(),
            session: Mutex::default(),
            refusal: Mutex::default(),
        }
    }

    /// Opens a session at a path.
    ///
    /// # Errors
    ///
    /// The controller does not answer. A session that is refused is no error: the account is used in its place.
    pub(super) async fn open(&self, sessions: Option<Arc<str>>) -> Result<(), Failure> {
        *lock(&self.sessions) = sessions;
        self.renew().await
    }

    async fn renew(&self) -> Result<(), Failure> {
        let Some(Credentials::Basic { username, password }) = &self.account else {
            return Ok(());
        };
        let Some(path) = lock(&self.sessions).clone() else {
            return Ok(());
        };
        let Ok(url) = self.endpoint.resolve(&path) else {
            return Ok(());
        };
        let request = Request::new(&self.subject, Method::POST, url)
            .dialect(&Words)
            .json(&json!({"UserName": username, "Password": password.reveal()}))
            .hide(password);
        match self.client.send(&request).await {
            Ok(answer) => *lock(&self.session) = self.read_session(&answer),
            Err(failure) if failure.status().is_some() => *lock(&self.refusal) = Some(failure),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// The session that an answer gives; where its location is missing, or on another host, its body says where it is.
    fn read_session(&self, answer: &Answer) -> Option<Session> {
        // Read before the token is a secret, which is masked in what is read.
        let body: Option<serde_json::Value> = answer.json().ok();
        let token = Credentials::Header {
            name: "x-auth-token",
            value: Secret::new(answer.header("x-auth-token")?.to_owned()),
        };
        let own = body
            .as_ref()
            .and_then(|body| body.get("@odata.id")?.as_str());
        let places = [answer.header("location"), own];
        let mut places = places.into_iter().flatten();
        let url = places.find_map(|place| self.endpoint.resolve(place).ok());
        Some(Session { token, url })
    }

    fn token(&self) -> Option<Credentials> {
        let session = lock(&self.session);
        session.as_ref().map(|session| session.token.clone())
    }

    /// Sends with the session where there is one, which is opened anew once if it has ended.
    pub(super) async fn send(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let Some(token) = self.token() else {
            return self.send_with_account(request).await;
        };
        let sent = self
            .client
            .send(&request.clone().credentials(Some(&token)))
            .await;
        match sent {
            Err(failure) if failure.status() == Some(StatusCode::UNAUTHORIZED) => {
                *lock(&self.session) = None;
                self.renew().await?;
                match self.token() {
                    Some(token) => self.client.send(&request.credentials(Some(&token))).await,
                    None => self.send_with_account(request).await,
                }
            }
            sent => sent,
        }
    }

    async fn send_with_account(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let sent = self
            .client
            .send(&request.credentials(self.account.as_ref()))
            .await;
        match sent {
            Err(failure) if failure.status() == Some(StatusCode::UNAUTHORIZED) => {
                let refusal = lock(&self.refusal).clone();
                Err(refusal.unwrap_or(failure))
            }
            sent => sent,
        }
    }

    /// Ends the session.
    pub(super) async fn close(&self) {
        let session = lock(&self.session).take();
        if let Some(ending) = session.and_then(|session| self.ending(session)) {
            ending.await;
        }
    }

    /// The request that ends a session; its failure is ignored.
    fn ending(&self, session: Session) -> Option<impl Future<Output = ()> + Send + 'static> {
        let url = session.url?;
        let (client, subject) = (self.client.clone(), self.subject.clone());
        Some(async move {
            let request = Request::new(&subject, Method::DELETE, url)
                .credentials(Some(&session.token))
                .attempts(ENDS)
                .repeatable()
                .last();
            // An end that is refused leaves the session to its own end.
            drop(client.send(&request).await);
        })
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        let session = lock(&self.session).take();
        let ending = session.and_then(|session| self.ending(session));
        if let (Some(ending), Ok(runtime)) = (ending, tokio::runtime::Handle::try_current()) {
            self.endings.add(runtime.spawn(ending));
        }
    }
}
