//! OAuth 1.0 with the signature method PLAINTEXT, as MAAS has it: a key of three parts, signed anew for each attempt.
//!
//! The secret travels in each request, and a server refuses a nonce that it has seen and a time that is far
//! from its own: so the header is made when a request is sent, never kept.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use rustls::crypto::ring;

use super::text::percent_encoded;
use crate::backend::Secret;

/// A key of a consumer without a secret of its own.
#[derive(Clone, Debug)]
pub struct OAuthKey {
    consumer: Arc<str>,
    token: Arc<str>,
    secret: Secret,
}

impl OAuthKey {
    /// Reads `CONSUMER:TOKEN:SECRET`; `None` if it is not of that form.
    #[must_use]
    pub fn parse(key: &Secret) -> Option<Self> {
        let parts: Vec<&str> = key.reveal().trim().split(':').collect();
        let is_plain =
            |part: &&str| !part.is_empty() && part.bytes().all(|each| each.is_ascii_graphic());
        let [consumer, token, secret] = parts[..] else {
            return None;
        };
        [consumer, token, secret]
            .iter()
            .all(is_plain)
            .then(|| Self {
                consumer: Arc::from(consumer),
                token: Arc::from(token),
                secret: Secret::new(secret.to_owned()),
            })
    }

    /// The secret part.
    pub(super) fn secret(&self) -> &str {
        self.secret.reveal()
    }

    /// The value of `Authorization` for a request that is sent now; never the same twice.
    pub(super) fn header(&self) -> Option<String> {
        let mut nonce = [0; 16];
        ring::default_provider()
            .secure_random
            .fill(&mut nonce)
            .ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let field = |name: &str, value: &str| format!("{name}=\"{}\"", percent_encoded(value));
        let fields = [
            field("oauth_version", "1.0"),
            field("oauth_signature_method", "PLAINTEXT"),
            field("oauth_consumer_key", &self.consumer),
            field("oauth_token", &self.token),
            field("oauth_timestamp", &now.as_secs().to_string()),
            field("oauth_nonce", &HEXLOWER.encode(&nonce)),
            // The consumer has no secret: nothing stands before the `&`.
            field(
                "oauth_signature",
                &format!("&{}", percent_encoded(self.secret())),
            ),
        ];
        Some(format!("OAuth {}", fields.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<OAuthKey> {
        OAuthKey::parse(&Secret::new(text.to_owned()))
    }

    #[test]
    fn a_key_has_three_parts_and_shows_no_secret() {
        for wrong in [
            "",
            "a",
            "a:b",
            "a:b:",
            ":b:c",
            "a:b:c:d",
            "a:b:c d",
            "a:b:c\u{e4}",
        ] {
            assert!(key(wrong).is_none(), "{wrong:?}");
        }
        let key = key("consumer:token:Th1rdPartOfIt\n").unwrap();
        assert_eq!(key.secret(), "Th1rdPartOfIt");
        assert!(!format!("{key:?}").contains("Th1rdPartOfIt"));
    }

    #[test]
    fn each_header_has_a_nonce_of_its_own() {
        let key = key("consumer:token:Th1rdPartOfIt").unwrap();
        let (one, other) = (key.header().unwrap(), key.header().unwrap());
        let nonce = |header: &str| {
            let rest = header.split_once("oauth_nonce=\"").unwrap().1.to_owned();
            rest.split_once('"').unwrap().0.to_owned()
        };
        assert_ne!(nonce(&one), nonce(&other));
        assert!(
            one.starts_with("OAuth oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", ")
        );
        assert!(one.contains("oauth_consumer_key=\"consumer\", oauth_token=\"token\", "));
        assert!(
            one.ends_with("oauth_signature=\"%26Th1rdPartOfIt\""),
            "{one}"
        );
    }
}
