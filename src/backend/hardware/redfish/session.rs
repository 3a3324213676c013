//! The login at one controller: a session if it has them, else the account with each request.
//!
//! Controllers have few sessions, so each is ended: at the end, where reaching a machine fails, and where the caller
//! was cancelled meanwhile ([`Endings`]). A run keeps one for each machine from step to step ([`SessionPool`]). A controller that refuses a session is given the account with each request
//! (HTTP Basic) in its place; if it refuses that, too, the first refusal is the failure.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use reqwest::{Method, StatusCode, Url};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::resource::Redfish as Words;
use crate::backend::Secret;
use crate::backend::http::{Answer, Client, Credentials, Endpoint, Failure, Request, plain};
use crate::backend::looks::{Endings, LAST_ENDS};
use crate::threads::lock;

/// How often the end of a session is tried.
const ENDS: u32 = 3;

/// How long the answer to a login that was cancelled is waited for, to end the session that it opens.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// Sessions that are ended at once, where a run ends.
const AT_ONCE: usize = 64;

/// A session that was opened.
struct Session {
    client: Arc<Client>,
    subject: Arc<str>,
    token: Credentials,
    /// Where it is ended.
    url: Option<Url>,
}

impl Session {
    /// The request that ends it; its failure is ignored.
    fn ending(self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let url = self.url?;
        Some(async move {
            let request = Request::new(&self.subject, Method::DELETE, url)
                .credentials(Some(&self.token))
                .attempts(ENDS)
                .repeatable()
                .last();
            // An end that is refused leaves the session to its own end.
            drop(self.client.send(&request).await);
        })
    }
}

/// Sessions that a run keeps from step to step, one for each machine; all are ended at its end.
#[derive(Default)]
pub(super) struct SessionPool {
    /// Whether steps are carried out, so that the end of the run will come.
    is_run: AtomicBool,
    /// How many runs have ended.
    ended: AtomicUsize,
    sessions: Mutex<HashMap<Arc<str>, Session>>,
}

impl fmt::Debug for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool").finish_non_exhaustive()
    }
}

impl SessionPool {
    /// Keeps sessions from now on, until all are ended.
    pub(super) fn begin(&self) {
        self.is_run.store(true, Ordering::Relaxed);
    }

    /// Whether steps are carried out.
    pub(super) fn is_run(&self) -> bool {
        self.is_run.load(Ordering::Relaxed)
    }

    /// The run whose steps are carried out: what is read in it is not of another.
    pub(super) fn run(&self) -> Option<usize> {
        self.is_run().then(|| self.ended.load(Ordering::Relaxed))
    }

    /// Ends all sessions.
    pub(super) async fn end(&self) {
        self.is_run.store(false, Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
        let all = std::mem::take(&mut *lock(&self.sessions));
        let ends: Vec<_> = all.into_values().filter_map(Session::ending).collect();
        let ends = stream::iter(ends).for_each_concurrent(AT_ONCE, |end| end);
        drop(tokio::time::timeout(LAST_ENDS, ends).await);
    }

    fn take(&self, subject: &str) -> Option<Session> {
        lock(&self.sessions).remove(subject)
    }

    /// Keeps a session; gives back the one that is not to be kept.
    fn put(&self, session: Session) -> Option<Session> {
        if !self.is_run() {
            return Some(session);
        }
        let subject = session.subject.clone();
        lock(&self.sessions).insert(subject, session)
    }
}

/// The session of a login.
#[derive(Default)]
struct Held {
    session: Option<Session>,
    /// Whether the login is gone, which would have ended what comes now.
    is_left: bool,
}

impl Held {
    /// Takes a session in the place of the one before; gives it back if the login is gone.
    fn take_in(&mut self, session: Option<Session>) -> Option<Session> {
        if self.is_left {
            return session;
        }
        self.session = session;
        None
    }

    /// Gives the session up, and takes none from now on.
    fn leave(&mut self) -> Option<Session> {
        self.is_left = true;
        self.session.take()
    }
}

/// A session that is being opened, which ends it where its login was cancelled before the answer.
struct Opening {
    client: Arc<Client>,
    subject: Arc<str>,
    endpoint: Endpoint,
    /// Where it is opened.
    url: Url,
    account: (Arc<str>, Secret),
    session: Arc<Mutex<Held>>,
}

impl Opening {
    async fn carry_out(self, mut ended: oneshot::Sender<Result<(), Failure>>) {
        let (username, password) = &self.account;
        let request = Request::new(&self.subject, Method::POST, self.url.clone())
            .dialect(&Words)
            .json(&json!({"UserName": username, "Password": password.reveal()}))
            .hide(password);
        let left = async {
            ended.closed().await;
            sleep(LAST_ANSWER).await;
        };
        let answer = tokio::select! {
            answer = self.client.send(&request) => answer,
            () = left => return,
        };
        let (told, unheld) = match answer {
            Ok(answer) => {
                let session = self.read(&answer);
                (Ok(()), lock(&self.session).take_in(session))
            }
            Err(failure) => (Err(failure), None),
        };
        // Who was cancelled hears nothing any more.
        drop(ended.send(told));
        if let Some(ending) = unheld.and_then(Session::ending) {
            ending.await;
        }
    }

    /// The session that an answer gives; if its location is missing, or on another host, its body says where it is.
    fn read(&self, answer: &Answer) -> Option<Session> {
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
        Some(Session {
            client: self.client.clone(),
            subject: self.subject.clone(),
            token,
            url,
        })
    }
}

/// The login at one controller.
pub(super) struct Login {
    client: Arc<Client>,
    subject: Arc<str>,
    endpoint: Endpoint,
    account: Option<Credentials>,
    endings: Endings,
    kept: Arc<SessionPool>,
    /// Where sessions are opened; `None`: none are.
    sessions: Mutex<Option<Arc<str>>>,
    session: Arc<Mutex<Held>>,
    /// Why the last session was refused.
    refusal: Mutex<Option<Failure>>,
    /// Whether the account itself was accepted or refused, if it was sent with a request: until then one request has it at
    /// a time, and once it was refused none has it again, since controllers lock accounts.
    account_state: tokio::sync::Mutex<AccountState>,
}

/// The state of an account that is sent with requests.
enum AccountState {
    Untried,
    Accepted,
    Refused(Failure),
}

impl Login {
    /// The account that logs in.
    pub(super) fn account(&self) -> Option<&Credentials> {
        self.account.as_ref()
    }

    /// A text of the controller as it may be shown.
    pub(super) fn masked(&self, text: &str, longest: usize) -> String {
        match &self.account {
            Some(account) => account.masked(text, longest),
            None => plain(text, longest),
        }
    }

    pub(super) fn new(
        client: Arc<Client>,
        subject: Arc<str>,
        endpoint: Endpoint,
        account: Option<Credentials>,
        (endings, kept): (Endings, Arc<SessionPool>),
    ) -> Self {
        Self {
            client,
            subject,
            endpoint,
            account,
            endings,
            kept,
            sessions: Mutex::default(),
            session: Arc::default(),
            refusal: Mutex::default(),
            account_state: tokio::sync::Mutex::new(AccountState::Untried),
        }
    }

    /// Opens a session at a path, or takes the one that the run keeps.
    ///
    /// # Errors
    ///
    /// The controller does not answer. A session that is refused is no error: the account is used in its place.
    pub(super) async fn open(&self, sessions: Option<Arc<str>>) -> Result<(), Failure> {
        *lock(&self.sessions) = sessions;
        if let Some(kept) = self.kept.take(&self.subject) {
            lock(&self.session).session = Some(kept);
            return Ok(());
        }
        let _account = self.account_state.lock().await;
        self.renew().await
    }

    /// Opens a session of its own at a path: whether the account was accepted; `None`: there are no sessions, or the refusal
    /// of one does not tell.
    ///
    /// # Errors
    ///
    /// The controller does not answer, or refuses for another reason.
    pub(super) async fn accepts(
        &self,
        sessions: Option<Arc<str>>,
    ) -> Result<Option<bool>, Failure> {
        if sessions.is_none() {
            return Ok(None);
        }
        // One that was opened with another password proves nothing.
        let kept = self.kept.take(&self.subject);
        if let Some(ending) = kept.and_then(Session::ending) {
            ending.await;
        }
        *lock(&self.sessions) = sessions;
        let account = self.account_state.lock().await;
        self.renew().await?;
        drop(account);
        if lock(&self.session).session.is_some() {
            return Ok(Some(true));
        }
        // Taken: what the account is refused for is to be told, not this.
        let Some(refusal) = lock(&self.refusal).take() else {
            return Ok(None);
        };
        let words = refusal.words().unwrap_or_default().to_ascii_lowercase();
        let is_full = ["limit", "exceed", "maximum"]
            .iter()
            .any(|word| words.contains(word));
        match refusal.status().map(|status| status.as_u16()) {
            Some(401 | 403) if !is_full => Ok(Some(false)),
            // Some makers call a wrong password a bad request, and others a request for a session.
            Some(400 | 401 | 403 | 404 | 405 | 410 | 501) => Ok(None),
            _ => Err(refusal),
        }
    }

    /// Opens a session anew. The state of the account is held meanwhile: only one request at a time has the password.
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
        // The task that opens it is not within the fence of its caller.
        crate::backend::fence::pass().await;
        let (ended, answer) = oneshot::channel();
        let opening = Opening {
            client: self.client.clone(),
            subject: self.subject.clone(),
            endpoint: self.endpoint.clone(),
            url,
            account: (username.clone(), password.clone()),
            session: self.session.clone(),
        };
        self.endings.add(tokio::spawn(opening.carry_out(ended)));
        match answer.await {
            Ok(Err(failure)) if failure.status().is_some() => {
                *lock(&self.refusal) = Some(failure);
                Ok(())
            }
            Ok(ended) => ended,
            Err(_) => Ok(()),
        }
    }

    fn token(&self) -> Option<Credentials> {
        let held = lock(&self.session);
        held.session.as_ref().map(|session| session.token.clone())
    }

    /// Sends with the session if there is one, which is opened anew once if it has ended.
    pub(super) async fn send(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let Some(token) = self.token() else {
            return self.send_with_account(request).await;
        };
        let sent = self
            .client
            .send(&request.clone().credentials(Some(&token)))
            .await;
        match sent {
            Err(failure) if is_unauthorized(&failure) => match self.renewed(&token).await? {
                Some(token) => self.client.send(&request.credentials(Some(&token))).await,
                None => self.send_with_account(request).await,
            },
            sent => sent,
        }
    }

    /// The token in the place of one that has ended: of all requests whose session ended, one opens it anew, and where that was
    /// refused, none does again.
    async fn renewed(&self, ended: &Credentials) -> Result<Option<Credentials>, Failure> {
        let mut state = self.account_state.lock().await;
        let token = self.token();
        let is_renewed = token.as_ref().is_none_or(|token| !is_same(token, ended));
        if is_renewed || matches!(*state, AccountState::Refused(_)) {
            return Ok(token.filter(|_| is_renewed));
        }
        // While no answer comes, the next request tries that, too.
        self.renew().await?;
        let token = self.token().filter(|token| !is_same(token, ended));
        if token.is_none() {
            lock(&self.session).session = None;
            // What was accepted once may not be any more.
            *state = AccountState::Untried;
        }
        Ok(token)
    }

    /// Sends with the account: a refused one costs two wrong passwords at most, with the session before.
    async fn send_with_account(&self, request: Request<'_>) -> Result<Answer, Failure> {
        let request = request.credentials(self.account.as_ref());
        let mut state = self.account_state.lock().await;
        let sent = match &*state {
            AccountState::Refused(failure) => return self.told(Err(failure.clone())),
            AccountState::Untried => self.client.send(&request).await,
            AccountState::Accepted => {
                drop(state);
                let sent = self.client.send(&request).await;
                state = self.account_state.lock().await;
                sent
            }
        };
        match (&sent, &*state) {
            (Err(failure), AccountState::Untried | AccountState::Accepted)
                if is_unauthorized(failure) =>
            {
                *state = AccountState::Refused(failure.clone());
            }
            (Ok(_), AccountState::Untried) => *state = AccountState::Accepted,
            // Any other failure tells nothing of the account: some come before it is checked.
            _ => {}
        }
        drop(state);
        self.told(sent)
    }

    /// An answer, or the first refusal of the account.
    fn told(&self, sent: Result<Answer, Failure>) -> Result<Answer, Failure> {
        match sent {
            Err(failure) if is_unauthorized(&failure) => {
                let refusal = lock(&self.refusal).clone();
                Err(refusal.unwrap_or(failure))
            }
            sent => sent,
        }
    }

    /// Ends the session, or leaves it to the next step of the run.
    pub(super) async fn close(&self) {
        let session = lock(&self.session).session.take();
        let session = session.and_then(|session| self.kept.put(session));
        if let Some(ending) = session.and_then(Session::ending) {
            ending.await;
        }
    }
}

fn is_unauthorized(failure: &Failure) -> bool {
    failure.status() == Some(StatusCode::UNAUTHORIZED)
}

/// Whether two tokens are of the same session.
fn is_same(one: &Credentials, other: &Credentials) -> bool {
    match (one, other) {
        (Credentials::Header { value: one, .. }, Credentials::Header { value: other, .. }) => {
            one.reveal() == other.reveal()
        }
        _ => false,
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        let session = lock(&self.session).leave();
        let ending = session.and_then(Session::ending);
        if let (Some(ending), Ok(runtime)) = (ending, tokio::runtime::Handle::try_current()) {
            self.endings.add(runtime.spawn(ending));
        }
    }
}
