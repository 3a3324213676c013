//! Bearer tokens of OpenID Connect, checked against the keys of their issuer.
//!
//! The keys are read again when a token names one that is not known, at most once in a while: an issuer changes them, and
//! no caller can make the service ask for them often.

use std::collections::HashMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::signature::{Error as Unverified, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, Validation};
use reqwest::{Method, Url};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;
use tokio::sync::Mutex;

use super::answer::Refusal;
use super::settings::OidcSettings;
use super::subject::Subject;
use super::{Error, Rights};
use crate::backend::http::{Client, Endpoint, HttpLimits, Request, Trust, is_loopback};

/// The least time between two reads of the keys, in seconds.
const PAUSE: u64 = 30;

/// How long keys are taken for those of the issuer without another read, in seconds.
const KEPT: u64 = 3600;

/// By how much the clocks of an issuer and of this machine may differ, in seconds.
const LEEWAY: u64 = 60;

/// The algorithms of signatures: public keys only, so that no public key is taken for a shared secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Checks bearer tokens.
pub(super) struct Oidc {
    settings: OidcSettings,
    keys_at: Url,
    client: Client,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    set: Vec<Jwk>,
    /// When they were read, and when that was tried last.
    read: Option<u64>,
    tried: Option<u64>,
}

impl Oidc {
    pub(super) fn new(settings: &OidcSettings) -> Result<Self, Error> {
        install();
        let refused = |error: &dyn std::fmt::Display| {
            Error::Settings(format!("`oidc.jwks` cannot be used: {error}"))
        };
        Endpoint::parse(&settings.jwks).map_err(|error| refused(&error))?;
        let keys_at = Url::parse(&settings.jwks).map_err(|error| refused(&error))?;
        // A change of the keys on their way would make any caller valid.
        if keys_at.scheme() == "http" && !is_loopback(keys_at.host_str().unwrap_or_default()) {
            return Err(refused(&"use `https`"));
        }
        let limits = HttpLimits {
            request: Duration::from_secs(10),
            body: 1 << 20,
            redirects: 0,
            ..HttpLimits::default()
        };
        Ok(Self {
            client: Client::new(&Trust::default(), limits).map_err(|error| refused(&error))?,
            keys_at,
            settings: settings.clone(),
            keys: Mutex::default(),
        })
    }

    /// The holder of a token.
    pub(super) async fn subject(&self, token: &str, now: u64) -> Result<Subject, Refusal> {
        let refused = |_| Refusal::unauthenticated("the bearer token is not valid");
        let header = jsonwebtoken::decode_header(token).map_err(refused)?;
        if !ALGORITHMS.contains(&header.alg) {
            let text = "the bearer token is signed by an algorithm that is not taken";
            return Err(Refusal::unauthenticated(text));
        }
        let key = self.key(header.kid.as_deref(), header.alg, now).await?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let data = jsonwebtoken::decode::<HashMap<String, Value>>(token, &key, &validation);
        let claims = data.map_err(|error| why(error.kind()))?.claims;
        match claims.get("iat").map(Value::as_f64) {
            None => {}
            Some(Some(issued)) if issued <= (now + LEEWAY) as f64 => {}
            Some(Some(_)) => return Err(why(&ErrorKind::ImmatureSignature)),
            Some(None) => return Err(why(&ErrorKind::InvalidToken)),
        }
        self.judged(&claims)
    }

    fn judged(&self, claims: &HashMap<String, Value>) -> Result<Subject, Refusal> {
        let Some(name) = claims
            .get("sub")
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
        else {
            return Err(Refusal::unauthenticated(
                "the bearer token names no subject",
            ));
        };
        let listed = match claims.get(&self.settings.roles_claim) {
            Some(Value::Array(listed)) => listed.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(listed)) => listed.split(' ').collect(),
            _ => Vec::new(),
        };
        let given = listed
            .iter()
            .filter_map(|role| self.settings.roles.get(*role));
        let Some(rights) = Rights::all_of(given) else {
            return Err(Refusal::forbidden(
                "no role of the bearer token is one here",
            ));
        };
        let forms = ["sub", "email", "preferred_username", "name"];
        let forms = forms
            .iter()
            .filter_map(|claim| claims.get(*claim)?.as_str());
        Ok(Subject {
            name: Arc::from(name),
            principals: forms.map(Arc::from).collect(),
            by: "oidc",
            rights,
        })
    }

    /// The key that a token names.
    async fn key(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        now: u64,
    ) -> Result<DecodingKey, Refusal> {
        let mut keys = self.keys.lock().await;
        let is_old = keys.read.is_none_or(|read| now >= read + KEPT);
        let known = find(&keys.set, id, algorithm);
        if (is_old || known.is_none()) && keys.tried.is_none_or(|tried| now >= tried + PAUSE) {
            keys.tried = Some(now);
            match self.read().await {
                Ok(set) => {
                    keys.set = set;
                    keys.read = Some(now);
                }
                Err(error) => log::warn!("the keys of the issuer of tokens were not read: {error}"),
            }
        }
        if keys.read.is_none() {
            let text = "the keys of the issuer of the token cannot be read now";
            return Err(Refusal::unavailable(text));
        }
        let found = find(&keys.set, id, algorithm);
        let key = found.and_then(|key| DecodingKey::from_jwk(key).ok());
        let unknown = "the bearer token is signed by a key that its issuer does not have";
        key.ok_or_else(|| Refusal::unauthenticated(unknown))
    }

    async fn read(&self) -> Result<Vec<Jwk>, crate::backend::http::Failure> {
        let request = Request::new("OpenID Connect", Method::GET, self.keys_at.clone());
        let answer = self.client.send(&request).await?;
        Ok(answer.json::<JwkSet>()?.keys)
    }
}

/// The key of an id that is for signatures by an algorithm. A token without an id is by the only such key.
fn find<'k>(keys: &'k [Jwk], id: Option<&str>, algorithm: Algorithm) -> Option<&'k Jwk> {
    let mut fitting = keys.iter().filter(|key| {
        let common = &key.common;
        let signs = !matches!(common.public_key_use, Some(PublicKeyUse::Encryption));
        let is_same = common.key_algorithm.is_none_or(|own| {
            own.to_string()
                .parse::<Algorithm>()
                .is_ok_and(|own| own == algorithm)
        });
        let is_meant = id.is_none_or(|id| common.key_id.as_deref() == Some(id));
        let family = DecodingKey::from_jwk(key).map(|key| key.family());
        signs && is_same && is_meant && family.is_ok_and(|family| family == algorithm.family())
    });
    let first = fitting.next();
    match id {
        Some(_) => first,
        None => first.filter(|_| fitting.next().is_none()),
    }
}

fn why(kind: &ErrorKind) -> Refusal {
    Refusal::unauthenticated(match kind {
        ErrorKind::ExpiredSignature => "the bearer token has expired",
        ErrorKind::ImmatureSignature => "the bearer token is not valid yet",
        ErrorKind::InvalidAudience => "the bearer token is for another audience",
        ErrorKind::InvalidIssuer => "the bearer token is of another issuer",
        _ => "the bearer token is not valid",
    })
}

/// Verification by ring, as for TLS.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| match key.family() == algorithm.family() {
        true => Ok(Box::new(ByRing {
            algorithm: *algorithm,
            key: key.clone(),
        })),
        false => Err(ErrorKind::InvalidAlgorithm.into()),
    },
    key_utils: KeyUtils::new_unimplemented(),
};

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Only this module installs one.
        let _ = PROVIDER.install_default();
    });
}

struct ByRing {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for ByRing {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), Unverified> {
        let verified = match (self.algorithm.family(), self.key.kind()) {
            (AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let parameters = rsa(self.algorithm).ok_or_else(Unverified::new)?;
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (_, DecodingKeyKind::SecretOrDer(key)) => {
                let algorithm = curve(self.algorithm).ok_or_else(Unverified::new)?;
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(Unverified::new()),
        };
        verified.map_err(|_| Unverified::new())
    }
}

impl JwtVerifier for ByRing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &ED25519,
        _ => return None,
    })
}
