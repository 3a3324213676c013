//! The documents and machines of a site that Airship runs, as Shipyard gives them out. Only GET is sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value as Json;

use super::client::driven;
use super::{Client, Failure, FailureKind, runtime};
use crate::adopt::AirshipAnswers;
use crate::backend::Secret;
use crate::backend::http::{
    self, Answer, Credentials, Endpoint, HttpLimits, Request, Trust, is_loopback,
};
use crate::design::Guards;

/// The largest set of documents, in bytes: that of a file of a site.
const LARGEST: usize = 16 << 20;

/// Shipyard has Deckhand render the documents before it answers.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How often a request is sent if its failure can pass.
const ATTEMPTS: u32 = 3;

/// A Shipyard, and what it is asked with.
#[derive(Debug)]
pub struct Shipyard {
    /// Its address, the version of its API included (`https://shipyard:9000/api/v1.0`).
    pub url: Arc<str>,
    /// The Keystone token.
    pub token: Secret,
    /// Certificates to trust besides the system's, as PEM.
    pub authorities: Option<Secret>,
}

/// A collection at two versions.
#[derive(Deserialize)]
struct Collection {
    collection_name: Arc<str>,
    /// A number of Deckhand; a service in front of git has the id of a commit.
    #[serde(default)]
    base_revision: Json,
    new_status: Arc<str>,
}

/// The states of the machines.
#[derive(Default, Deserialize)]
struct Statuses {
    #[serde(default)]
    nodes_provision_status: Vec<Status>,
}

#[derive(Deserialize)]
struct Status {
    hostname: Arc<str>,
    status: Arc<str>,
}

/// Asks Shipyard for a site.
///
/// # Errors
///
/// Its address or certificates cannot be used, it does not answer, or refuses the token; nothing was applied with success.
pub fn ask_shipyard(client: &dyn Client, shipyard: &Shipyard) -> Result<AirshipAnswers, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::new(FailureKind::Usage, error.to_string());
    let endpoint = Endpoint::parse(&shipyard.url).map_err(|error| usage(&error))?;
    let host = Url::parse(&shipyard.url).ok();
    let host = host.as_ref().and_then(Url::host_str).unwrap_or_default();
    if endpoint.is_plain() && !is_loopback(host) {
        let text = "`--shipyard` is an address of plain HTTP beyond this machine, where the network in between can read the token";
        return Err(Failure::new(FailureKind::Usage, text).hint(
            "use `https`, or a tunnel that begins on this machine (`kubectl port-forward`)",
        ));
    }
    let trust = Trust {
        authorities: shipyard.authorities.clone(),
        ..Trust::default()
    };
    let limits = HttpLimits {
        request: TIMEOUT,
        body: LARGEST,
        redirects: 0,
        ..HttpLimits::default()
    };
    let sender = http::Client::new(&trust, limits).map_err(|error| usage(&error))?;
    let asked = Asked {
        endpoint,
        sender,
        credentials: Credentials::Header {
            name: "x-auth-token",
            value: shipyard.token.clone(),
        },
    };
    let runtime = runtime(&Guards::default())?;
    let answers = driven(client, &runtime, async { Some(asked.all().await) });
    answers.unwrap_or_else(|| Err(Failure::error("Shipyard was not asked")))
}

struct Asked {
    endpoint: Endpoint,
    sender: http::Client,
    credentials: Credentials,
}

impl Asked {
    async fn all(&self) -> Result<AirshipAnswers, Failure> {
        let versions = "configdocs?versions=successful_site_action&versions=committed";
        let collections: Vec<Collection> = self.json(versions).await?;
        let mut revisions = collections
            .iter()
            .filter_map(|each| match &each.base_revision {
                Json::Number(number) => Some(number.to_string()),
                Json::String(commit) => Some(commit.clone()),
                _ => None,
            });
        let (documents, has_secrets) = self.documents().await?;
        let statuses: Statuses = self
            .json("site_statuses?filters=nodes-provision-status")
            .await?;
        let machines = statuses.nodes_provision_status.into_iter();
        Ok(AirshipAnswers {
            documents,
            has_secrets,
            revision: Arc::from(revisions.next().unwrap_or_default()),
            changed: collections
                .iter()
                .filter(|each| *each.new_status != *"unmodified")
                .map(|each| each.collection_name.clone())
                .collect(),
            machines: machines
                .map(|each| (each.hostname, each.status))
                .collect::<BTreeMap<_, _>>(),
        })
    }

    /// The rendered documents, with their secrets if the token may read them: they tell which values are to be left out.
    async fn documents(&self) -> Result<(String, bool), Failure> {
        let version = "renderedconfigdocs?version=successful_site_action";
        let with_secrets = format!("{version}&cleartext-secrets=true");
        let (answer, has_secrets) = match self.get(&with_secrets).await {
            Err(failure) if failure.status() == Some(StatusCode::FORBIDDEN) => {
                (self.get(version).await.map_err(refused)?, false)
            }
            other => (other.map_err(refused)?, true),
        };
        match String::from_utf8(answer.body().to_vec()) {
            Ok(text) => Ok((text, has_secrets)),
            Err(_) => Err(Failure::error("the documents of Shipyard are not UTF-8")),
        }
    }

    async fn json<T: for<'d> Deserialize<'d>>(&self, path: &str) -> Result<T, Failure> {
        let answer = self.get(path).await.map_err(refused)?;
        answer
            .json()
            .map_err(|failure| Failure::error(failure.to_string()))
    }

    async fn get(&self, path: &str) -> Result<Answer, http::Failure> {
        let url = self.endpoint.resolve(path).map_err(|error| {
            http::Failure::unsent(
                "Shipyard",
                self.endpoint.authority(),
                "GET",
                &error.to_string(),
            )
        })?;
        let request = Request::new("Shipyard", Method::GET, url)
            .credentials(Some(&self.credentials))
            .attempts(ATTEMPTS);
        self.sender.send(&request).await
    }
}

/// The failure of a request, with the way out of the common ones.
fn refused(failure: http::Failure) -> Failure {
    let hint = match failure.status() {
        Some(StatusCode::UNAUTHORIZED) => {
            "the token has expired or is another cloud's: `openstack token issue` prints a new one"
        }
        Some(StatusCode::FORBIDDEN) => {
            "the account of the token needs a role that reads documents, such as `admin_ucp_viewer`"
        }
        Some(StatusCode::NOT_FOUND) => {
            "`--shipyard` is the address with the version of its API, as `https://shipyard:9000/api/v1.0`; documents of a site \
             to which no action was applied with success are not taken over"
        }
        _ => return Failure::error(failure.to_string()),
    };
    Failure::error(failure.to_string()).hint(hint)
}
