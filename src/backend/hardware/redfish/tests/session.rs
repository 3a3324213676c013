//! The login at a controller, used by many requests at the same time: a wrong password is sent twice at most.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use futures_util::future::join_all;
use reqwest::Method;

use super::super::session::{Login, SessionPool};
use super::*;
use crate::backend::http::tests::server::Received;
use crate::backend::http::{Answer, Credentials, Endpoint, Failure, HttpLimits, Request, Trust};
use crate::backend::looks::Endings;

/// Requests at the same time.
const MANY: usize = 24;

/// The account that a controller accepts, and the requests that it was sent.
#[derive(Debug, Default)]
struct Door {
    /// The password is another one now.
    is_changed: bool,
    /// Requests with a password are answered with this before it is checked.
    unlooked: Option<u16>,
    sessions: BTreeSet<String>,
    opened: usize,
    wrong: usize,
}

impl Door {
    fn answer(&mut self, received: &Received) -> Reply {
        let is_session = received.method == "POST";
        if !is_session && let Some(token) = received.headers.get("x-auth-token") {
            return match self.sessions.contains(token) {
                true => Reply::json(200, json!({})),
                false => Reply::json(401, json!({})),
            };
        }
        if let Some(status) = self.unlooked {
            return Reply::json(status, json!({}));
        }
        if self.is_changed {
            self.wrong += 1;
            return Reply::json(401, json!({}));
        }
        if !is_session {
            return Reply::json(200, json!({}));
        }
        self.opened += 1;
        let token = format!("door-token-{}", self.opened);
        self.sessions.insert(token.clone());
        Reply::Json(201, vec![("x-auth-token", token)], json!({}))
    }
}

/// A controller, and the login at it.
struct Used {
    server: Server,
    door: Arc<Mutex<Door>>,
    login: Login,
}

impl Used {
    async fn start(sessions: Option<&str>) -> Self {
        let door = Arc::new(Mutex::new(Door::default()));
        let handled = door.clone();
        let server = Server::plain(move |received| handled.lock().unwrap().answer(received)).await;
        let client = Client::new(&Trust::default(), HttpLimits::default()).unwrap();
        let account = Credentials::Basic {
            username: "admin".into(),
            password: Secret::new("s3cret-of-the-door".to_owned()),
        };
        let kept = (Endings::default(), Arc::new(SessionPool::default()));
        let endpoint = Endpoint::parse(&server.url).unwrap();
        let subject = Arc::from("node `n0`");
        let login = Login::new(Arc::new(client), subject, endpoint, Some(account), kept);
        login.open(sessions.map(Arc::from)).await.unwrap();
        Self {
            server,
            door,
            login,
        }
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap()
    }

    async fn read(&self) -> Result<Answer, Failure> {
        let endpoint = Endpoint::parse(&self.server.url).unwrap();
        let url = endpoint.resolve(SYSTEM).unwrap();
        self.login
            .send(Request::new("node `n0`", Method::GET, url))
            .await
    }

    /// Reads many times at once; how many reads succeeded.
    async fn read_many(&self) -> usize {
        let reads = join_all((0..MANY).map(|_| self.read())).await;
        reads.iter().filter(|read| read.is_ok()).count()
    }
}

const SESSIONS: Option<&str> = Some("/redfish/v1/SessionService/Sessions");

#[tokio::test(start_paused = true)]
async fn a_failure_before_the_password_was_looked_at_does_not_accept_it() {
    for status in [403, 404, 429, 500, 503] {
        let used = Used::start(None).await;
        used.door().unlooked = Some(status);
        used.read().await.unwrap_err();
        (used.door().unlooked, used.door().is_changed) = (None, true);
        assert_eq!(used.read_many().await, 0, "{status}");
        assert_eq!(used.door().wrong, 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_password_that_is_refused_after_it_was_accepted_is_not_sent_again() {
    let used = Used::start(None).await;
    assert_eq!(used.read_many().await, MANY);
    used.door().is_changed = true;
    used.read().await.unwrap_err();
    assert_eq!(used.read_many().await, 0);
    assert_eq!(used.door().wrong, 1);
}

#[tokio::test(start_paused = true)]
async fn of_many_requests_whose_session_ended_one_opens_it_anew() {
    let used = Used::start(SESSIONS).await;
    assert_eq!(used.read_many().await, MANY);
    used.door().sessions.clear();
    assert_eq!(used.read_many().await, MANY);
    assert_eq!(used.door().opened, 2);
    // If the password is another one by then, it is sent for a session and with one request.
    used.door().sessions.clear();
    used.door().is_changed = true;
    assert_eq!(used.read_many().await, 0);
    assert_eq!(used.read_many().await, 0);
    assert_eq!(used.door().wrong, 2);
}
