//! Tokens of Keystone v3, validated by Keystone itself.
//!
//! The caller's token validates itself, which Keystone's policies allow (`token_subject`): the service needs no account
//! of its own. It counts only if it is scoped to the project of the settings: a role in any other project, which
//! others may give, is none here. A result is kept for seconds, so that a revoked token is refused soon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::answer::Refusal;
use super::settings::KeystoneSettings;
use super::subject::Subject;
use super::{Error, Rights};
use crate::backend::Secret;
use crate::backend::http::{Client, Credentials, Endpoint, HttpLimits, Request, Trust};
use crate::threads::lock;

/// How long a validated token is taken for valid without another request, in seconds.
const KEPT: u64 = 30;

/// Most tokens that are kept.
const MOST: usize = 1024;

/// Validates tokens.
pub(super) struct Keystone {
    settings: KeystoneSettings,
    endpoint: Endpoint,
    client: Client,
    /// Validated tokens by their digests, and until when each counts.
    kept: Mutex<HashMap<[u8; 32], (Subject, u64)>>,
}

#[derive(Deserialize)]
struct Answer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    expires_at: Timestamp,
    user: User,
    project: Option<Project>,
    #[serde(default)]
    roles: Vec<Named>,
}

#[derive(Deserialize)]
struct User {
    name: String,
    domain: Named,
}

#[derive(Deserialize)]
struct Project {
    id: String,
    name: String,
    domain: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Keystone {
    pub(super) fn new(settings: &KeystoneSettings) -> Result<Self, Error> {
        let refused = |error: &dyn std::fmt::Display| {
            Error::Settings(format!("`keystone.url` cannot be used: {error}"))
        };
        let endpoint = Endpoint::parse(&settings.url).map_err(|error| refused(&error))?;
        let limits = HttpLimits {
            request: Duration::from_secs(10),
            body: 1 << 20,
            redirects: 0,
            per_host: 16,
            ..HttpLimits::default()
        };
        Ok(Self {
            client: Client::new(&Trust::default(), limits).map_err(|error| refused(&error))?,
            endpoint,
            settings: settings.clone(),
            kept: Mutex::default(),
        })
    }

    /// The holder of a token.
    pub(super) async fn subject(&self, token: &str, now: u64) -> Result<Subject, Refusal> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let kept = || lock(&self.kept);
        if let Some((subject, until)) = kept().get(&digest)
            && now < *until
        {
            return Ok(subject.clone());
        }
        let found = self.ask(token).await?;
        let expires = u64::try_from(found.expires_at.as_second()).unwrap_or_default();
        if expires <= now {
            return Err(Refusal::unauthenticated("the token has expired"));
        }
        let subject = self.judged(&found)?;
        let mut kept = kept();
        kept.retain(|_, (_, until)| now < *until);
        if kept.len() < MOST {
            kept.insert(digest, (subject.clone(), expires.min(now + KEPT)));
        }
        Ok(subject)
    }

    /// Asks Keystone for a token.
    async fn ask(&self, token: &str) -> Result<Token, Refusal> {
        let unavailable = |error: &dyn std::fmt::Display| {
            log::warn!("a token was not validated: {error}");
            Refusal::unavailable("Keystone cannot be asked for the token now")
        };
        let url = self.endpoint.resolve("auth/tokens?nocatalog");
        let url = url.map_err(|error| unavailable(&error))?;
        let credentials = Credentials::Header {
            name: "x-auth-token",
            value: Secret::passing(token.to_owned()),
        };
        let request = Request::new("Keystone", Method::GET, url)
            .credentials(Some(&credentials))
            .header("x-subject-token", token)
            .header("accept", "application/json");
        match self.client.send(&request).await {
            Ok(answer) => match answer.json::<Answer>() {
                Ok(answer) => Ok(answer.token),
                Err(error) => Err(unavailable(&error)),
            },
            // 401: the token does not authenticate itself; 404: it is not known, or has expired.
            Err(failure) => match failure.status() {
                Some(StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND) => Err(
                    Refusal::unauthenticated("Keystone does not know the token, or it has expired"),
                ),
                Some(StatusCode::FORBIDDEN) => Err(Refusal::unauthenticated(
                    "Keystone does not let the token validate itself",
                )),
                _ => Err(unavailable(&failure)),
            },
        }
    }

    /// The holder of a valid token, by its project and roles.
    fn judged(&self, token: &Token) -> Result<Subject, Refusal> {
        let wanted = &self.settings.project;
        let is_scoped = token.project.as_ref().is_some_and(|project| {
            project.id == *wanted || format!("{}/{}", project.domain.name, project.name) == *wanted
        });
        if !is_scoped {
            let text = "the token is not scoped to the project of this service";
            return Err(Refusal::forbidden(text));
        }
        let roles = token.roles.iter();
        let given = roles.filter_map(|role| self.settings.roles.get(&role.name));
        let Some(rights) = Rights::all_of(given) else {
            return Err(Refusal::forbidden("no role of the token is one here"));
        };
        let (domain, user) = (&token.user.domain.name, &token.user.name);
        let name: Arc<str> = Arc::from(format!("{domain}/{user}"));
        let at_domain = Arc::from(format!("{user}@{domain}"));
        Ok(Subject {
            principals: [name.clone(), at_domain, Arc::from(user.as_str())].into(),
            name,
            by: "keystone",
            rights,
        })
    }
}
