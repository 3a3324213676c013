//! One etcd cluster through the JSON gateway of its members, each asked for itself.
//!
//! Without a quorum a member answers some requests from memory, some after seven seconds, and some never;
//! so every request has a time limit, and what counts is read through the quorum first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use super::answer::{Alarms, Headed, Id, Members, Status};
use crate::backend::http::{
    Answer, Client, Credentials, Dialect, Endpoint, Failure, HttpLimits, Identity, Request, Trust,
};
use crate::backend::{Secret, Secrets};
use crate::design::{EtcdCluster, EtcdMember, Reference};
use crate::diagnostic::chain;
use crate::observed::{EtcdAnswer, EtcdSeen, Fact};

/// The time limit of a request that only reads: longer than the seven seconds after which a member without
/// a quorum times out by itself, so that its own error is received.
pub(super) const READ: Duration = Duration::from_secs(10);

/// The time limit of a request that a member answers by itself, from memory: one that takes longer hangs, and is asked for
/// nothing more.
const OWN: Duration = Duration::from_secs(4);

/// The time limit of a removal, which a member without a quorum never answers.
pub(super) const REMOVE: Duration = Duration::from_secs(30);

/// The credentials of a document, by name.
type References = BTreeMap<Arc<str>, Reference>;

/// A cluster and how to reach it.
pub(super) struct Gateway {
    pub(super) cluster: EtcdCluster,
    secrets: Arc<dyn Secrets>,
    client: OnceCell<Result<Client, Arc<str>>>,
    /// The tokens that members have given the user for its password, by their names; `None`: they ask for none.
    tokens: BTreeMap<Arc<str>, Mutex<Option<Option<Secret>>>>,
}

/// The answers of a member to which the user is unknown, or not known any more: nothing was done.
const UNKNOWN_USER: [&str; 3] = [
    "etcdserver: user name is empty",
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
];

/// An error of a request to a member.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The request could not be made: an address, a certificate, a credential.
    #[error("{0}")]
    Setup(Arc<str>),
    /// It was made.
    #[error("{}", .0.text())]
    Failed(Failure),
}

/// How a request is sent.
#[derive(Clone, Copy)]
struct Sending<'a> {
    limit: Duration,
    repeatable: bool,
    credentials: Option<&'a Credentials>,
    /// A secret in the body.
    hidden: Option<&'a Secret>,
}

impl Sending<'_> {
    /// One that only reads.
    const READING: Self = Self {
        limit: READ,
        repeatable: true,
        credentials: None,
        hidden: None,
    };

    /// One that is never repeated by itself.
    const fn once(limit: Duration) -> Self {
        Self {
            limit,
            repeatable: false,
            ..Self::READING
        }
    }
}

/// The answer to a user's password.
#[derive(Deserialize)]
struct Token {
    token: String,
}

/// The error format of etcd: `{"error": …, "message": …, "code": …}`.
struct Words;

impl Dialect for Words {
    fn words(&self, answer: &Answer) -> Option<String> {
        #[derive(Deserialize)]
        struct Refused {
            message: Option<String>,
            error: String,
        }
        let refused: Refused = answer.json().ok()?;
        Some(refused.message.unwrap_or(refused.error))
    }
}

impl CallError {
    /// Whether what answered is no etcd.
    fn is_invalid(&self) -> bool {
        match self {
            Self::Setup(_) => false,
            Self::Failed(failure) => failure.status().is_some() && failure.words().is_none(),
        }
    }

    /// Whether the member does not know the user, or wants one.
    fn is_of_user(&self) -> bool {
        self.words()
            .is_some_and(|words| UNKNOWN_USER.contains(&words))
    }

    /// etcd's own words.
    pub(super) fn words(&self) -> Option<&str> {
        match self {
            Self::Setup(_) => None,
            Self::Failed(failure) => failure.words(),
        }
    }
}

impl Gateway {
    pub(super) fn new(cluster: EtcdCluster, secrets: Arc<dyn Secrets>) -> Self {
        let members = cluster.members.iter();
        Self {
            tokens: members
                .map(|member| (member.name.clone(), Mutex::default()))
                .collect(),
            cluster,
            secrets,
            client: OnceCell::new(),
        }
    }

    /// The token that a member has given the user for its password; `None`: there is no user, or it asks for none.
    async fn token(&self, member: &EtcdMember) -> Result<Option<Secret>, CallError> {
        let (Some(username), Some(known)) = (&self.cluster.username, self.tokens.get(&member.name))
        else {
            return Ok(None);
        };
        // It is asked for once, whatever is asked of the member at the same time.
        let mut known = known.lock().await;
        if let Some(token) = &*known {
            return Ok(token.clone());
        }
        let password =
            self.with_secrets(|credentials, secrets| secret(credentials, secrets, "password"));
        let password = password.await;
        let password = password.map_err(CallError::Setup)?;
        let password = password.unwrap_or_else(|| Secret::passing(String::new()));
        let body = json!({"name": username, "password": password.reveal()});
        let sending = Sending {
            hidden: Some(&password),
            ..Sending::READING
        };
        let path = "v3/auth/authenticate";
        let given = self.send::<Token>(member, path, &body, sending).await;
        let token = match given {
            Ok(given) => Some(Secret::new(given.token)),
            Err(error) if error.words() == Some("etcdserver: authentication is not enabled") => {
                None
            }
            Err(error) => return Err(error),
        };
        *known = Some(token.clone());
        Ok(token)
    }

    /// Asks for credentials of the document, off the thread of requests: one may be the output of a program.
    async fn with_secrets<T: Send + 'static>(
        &self,
        ask: fn(&References, &dyn Secrets) -> Result<T, Arc<str>>,
    ) -> Result<T, Arc<str>> {
        let (credentials, secrets) = (self.cluster.credentials.clone(), self.secrets.clone());
        let asked = tokio::task::spawn_blocking(move || ask(&credentials, &*secrets)).await;
        asked.unwrap_or_else(|error| Err(Arc::from(error.to_string())))
    }

    /// The client, made when it is first used: a credential may be the output of a program.
    async fn client(&self) -> Result<&Client, CallError> {
        let make = || self.with_secrets(open);
        let client = self.client.get_or_init(make).await;
        client
            .as_ref()
            .map_err(|error| CallError::Setup(error.clone()))
    }

    /// One request to one member; if it does not know the user any more, it is asked once more with a new token.
    async fn call<T: DeserializeOwned>(
        &self,
        member: &EtcdMember,
        path: &str,
        body: &Value,
        sending: Sending<'_>,
    ) -> Result<T, CallError> {
        let mut asked = false;
        loop {
            let token = self.token(member).await?;
            let token = token.map(|value| Credentials::Header {
                name: "authorization",
                value,
            });
            let sending = Sending {
                credentials: token.as_ref(),
                ..sending
            };
            match self.send(member, path, body, sending).await {
                Err(error) if !asked && token.is_some() && error.is_of_user() => {
                    self.forget(member, token.as_ref()).await;
                    asked = true;
                }
                answer => return answer,
            }
        }
    }

    /// Drops what a member has given, unless it has given something else meanwhile.
    async fn forget(&self, member: &EtcdMember, old: Option<&Credentials>) {
        if let (Some(known), Some(Credentials::Header { value: old, .. })) =
            (self.tokens.get(&member.name), old)
        {
            let mut known = known.lock().await;
            known.take_if(|token| token.as_ref().is_some_and(|it| it.reveal() == old.reveal()));
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        member: &EtcdMember,
        path: &str,
        body: &Value,
        sending: Sending<'_>,
    ) -> Result<T, CallError> {
        let client = self.client().await?;
        let setup = |error| CallError::Setup(Arc::from(format!("client_url: {error}")));
        let endpoint = Endpoint::parse(&member.client_url).map_err(setup)?;
        let url = endpoint.resolve(path).map_err(setup)?;
        let subject = format!(
            "etcd cluster `{}`, member {}",
            self.cluster.name, member.name
        );
        let mut request = Request::new(&subject, Method::POST, url)
            .json(body)
            .timeout(sending.limit)
            .credentials(sending.credentials)
            .dialect(&Words);
        if let Some(secret) = sending.hidden {
            request = request.hide(secret);
        }
        if sending.repeatable {
            request = request.repeatable();
        }
        let answer = client.send(&request).await.map_err(CallError::Failed)?;
        answer.json().map_err(CallError::Failed)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        member: &EtcdMember,
        path: &str,
        body: &Value,
    ) -> Result<T, CallError> {
        self.call(member, path, body, Sending::READING).await
    }

    /// Whether a member reads through the quorum.
    async fn decides(&self, member: &EtcdMember) -> Result<bool, CallError> {
        // Any key serves; etcd's own check of health reads this one.
        let body = json!({"key": "aGVhbHRo", "limit": "1", "keys_only": true});
        match self.read::<Headed>(member, "v3/kv/range", &body).await {
            Ok(_) => Ok(true),
            // Rights are checked after the quorum.
            Err(error) if error.words() == Some("etcdserver: permission denied") => Ok(true),
            Err(error) if error.is_invalid() || error.is_of_user() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The members as a member knows them, and whether it asked the quorum just before.
    pub(super) async fn members(&self, member: &EtcdMember) -> Result<(bool, Members), CallError> {
        let decides = self.decides(member).await?;
        let members = self
            .read(member, "v3/cluster/member/list", &json!({}))
            .await?;
        Ok((decides, members))
    }

    /// All that a member says of itself and of its cluster.
    async fn answer(&self, member: &EtcdMember) -> Result<EtcdAnswer, CallError> {
        let (get, empty) = (json!({"action": "GET"}), json!({}));
        let sending = Sending {
            limit: OWN,
            ..Sending::READING
        };
        let path = "v3/maintenance/status";
        let status: Status = self.call(member, path, &empty, sending).await?;
        let (alarms, members) = tokio::join!(
            self.read::<Alarms>(member, "v3/maintenance/alarm", &get),
            self.members(member),
        );
        let mut errors = status.errors();
        let (decides, members) = match members {
            Ok((decides, members)) => (decides, members.seen()),
            // A learner does not answer this.
            Err(error) if status.is_learner && error.words().is_some() => (false, Vec::new()),
            Err(error) => return Err(error),
        };
        let alarms = match alarms {
            Ok(alarms) => alarms.seen(),
            // They are read through the quorum too: without one there is nothing to add.
            Err(_) if !decides => Vec::new(),
            Err(error) => {
                errors.push(Arc::from(format!("alarms cannot be read: {error}")));
                Vec::new()
            }
        };
        Ok(EtcdAnswer {
            cluster_id: status.header.cluster_id.text(),
            member_id: status.header.member_id.text(),
            members,
            leader: status.leader.map(Id::text),
            learner: status.is_learner,
            decides,
            alarms,
            errors,
            version: Arc::from(status.version),
            db_size: status.db_size.0,
            raft_index: status.raft_index.0,
            raft_applied: status.raft_applied_index.0,
            raft_term: status.raft_term.0,
        })
    }

    /// All members, each asked for itself, at once.
    pub(super) async fn look(&self) -> EtcdSeen {
        let members = self.cluster.members.iter();
        let answers = members.map(|member| async move { (member, self.answer(member).await) });
        let mut seen = EtcdSeen::default();
        for (member, answer) in join_all(answers).await {
            let fact = answer.map_or_else(
                |error| {
                    let text: Arc<str> = Arc::from(error.to_string());
                    if error.is_invalid() {
                        seen.invalid.insert(member.name.clone(), text.clone());
                    }
                    Fact::Unknown(text)
                },
                Fact::Known,
            );
            seen.answers.insert(member.name.clone(), fact);
        }
        seen
    }

    /// Asks a member to remove another, by the other's id in hexadecimal digits.
    pub(super) async fn remove(
        &self,
        through: &EtcdMember,
        id: &str,
        limit: Duration,
    ) -> Result<Members, CallError> {
        let Some(id) = Id::for_gateway(id) else {
            let message = format!("`{id}` is no id of a member");
            return Err(CallError::Setup(Arc::from(message)));
        };
        let path = "v3/cluster/member/remove";
        let sending = Sending::once(limit);
        self.call(through, path, &json!({ "ID": id }), sending)
            .await
    }
}

impl Gateway {
    /// Asks the leader to hand leadership over to a member, by its id in hexadecimal digits.
    pub(super) async fn transfer_leadership(
        &self,
        leader: &EtcdMember,
        to: &str,
    ) -> Result<(), CallError> {
        let Some(id) = Id::for_gateway(to) else {
            let message = format!("`{to}` is no id of a member");
            return Err(CallError::Setup(Arc::from(message)));
        };
        let path = "v3/maintenance/transfer-leadership";
        let body = json!({ "targetID": id });
        let sending = Sending::once(READ);
        let answer = self.call::<serde::de::IgnoredAny>(leader, path, &body, sending);
        answer.await.map(drop)
    }
}

/// A credential of the document; `None` if it names none.
fn secret(
    credentials: &References,
    secrets: &dyn Secrets,
    name: &str,
) -> Result<Option<Secret>, Arc<str>> {
    let Some(reference) = credentials.get(name) else {
        return Ok(None);
    };
    let revealed = secrets.reveal(reference);
    revealed
        .map(Some)
        .map_err(|error| Arc::from(format!("credentials: {name}: {error}")))
}

/// A client that is who the document says, and trusts whom the document says.
fn open(credentials: &References, secrets: &dyn Secrets) -> Result<Client, Arc<str>> {
    let secret = |name: &str| secret(credentials, secrets, name);
    let identity = match (secret("cert")?, secret("key")?) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        _ => return Err(Arc::from("credentials: `cert` and `key` go together")),
    };
    let trust = Trust {
        authorities: secret("ca")?,
        identity,
        ..Trust::default()
    };
    let limits = HttpLimits {
        connect: Duration::from_secs(5),
        request: READ,
        body: 1 << 20,
        redirects: 0,
        per_host: 4,
        ..HttpLimits::default()
    };
    Client::new(&trust, limits)
        .map_err(|error| Arc::from(format!("credentials: {}", chain(&error))))
}
