//! Bearer tokens of OpenID Connect, against an issuer that is a thread of the test.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::{Answer, Service, deployed, on};
use crate::fixture::Fixture;

const ISSUER: &str = "https://issuer.example";

/// A key of the issuer.
pub(crate) struct Key {
    pair: EcdsaKeyPair,
    id: &'static str,
}

impl Key {
    pub(crate) fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
        Self { pair, id }
    }

    /// The public half, as an issuer publishes it.
    pub(crate) fn published(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let coordinate = |part: &[u8]| BASE64URL_NOPAD.encode(part);
        json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id,
               "x": coordinate(&point[1..33]), "y": coordinate(&point[33..65])})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), message.as_bytes())
            .unwrap();
        format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.id}), claims)
    }
}

/// Publishes keys on a port; the count of how often they were asked for.
pub(crate) fn publish(keys: &Value) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/keys", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let (body, counted) = (keys.to_string(), asked.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The claims of an operator's token, some of them others.
pub(crate) fn claims(changed: &Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": "trueup", "sub": "olga", "exp": now() + 300,
                            "nbf": now() - 5, "groups": ["people", "sre"]});
    for (name, value) in changed.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims
                .as_object_mut()
                .unwrap()
                .insert(name.clone(), value.clone()),
        };
    }
    claims
}

pub(crate) fn start(fixture: &Fixture, jwks: &str) -> Service {
    let config = fixture.checkout.outside().join("serve.yaml");
    let text = format!(
        "oidc:\n  issuer: {ISSUER}\n  audience: trueup\n  jwks: {jwks}\n  roles_claim: groups\n  roles: {{sre: operator, boss: admin}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    Service::start(fixture, &["--config", config, "--listen", "127.0.0.1:0"])
}

fn ask(service: &Service, path: &str, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    service.request("POST", path, &[("Authorization", &bearer)], "")
}

#[test]
fn a_bearer_token_of_the_issuer_proves_its_holder() {
    let fixture = deployed("");
    let (key, next, other) = (Key::new("one"), Key::new("two"), Key::new("one"));
    let (jwks, asked) = publish(&json!({"keys": [key.published(), next.published()]}));
    let service = start(&fixture, &jwks);
    let path = on("compute11", "drain");
    for key in [&key, &next] {
        let answer = ask(&service, &path, &key.token(&claims(&json!({}))));
        assert_eq!(answer.reason(), (200, "Success".to_owned()), "{answer:?}");
    }
    let record = fixture.run(&["log", "--format", "json"]).with(0).json()["runs"][0].clone();
    assert_eq!(
        (&record["requested"]["subject"], &record["requested"]["by"]),
        (&"olga".into(), &"oidc".into())
    );
    let log = service.log();
    assert!(
        log.contains("/api/v1.0/nodes/compute11/drain by olga (oidc) at "),
        "{log}"
    );
    let above = ask(
        &service,
        &on("compute11", "decommission"),
        &key.token(&claims(&json!({}))),
    );
    assert_eq!(above.reason(), (403, "Forbidden".to_owned()));
    let without_role = key.token(&claims(&json!({"groups": ["people"]})));
    assert_eq!(
        ask(&service, &path, &without_role).reason(),
        (403, "Forbidden".to_owned())
    );
    for changed in [
        json!({"exp": now() - 62}),
        json!({"exp": null}),
        json!({"exp": "later"}),
        json!({"nbf": now() + 300}),
        json!({"nbf": "later"}),
        json!({"iat": now() + 300}),
        json!({"iat": "later"}),
        json!({"iss": "https://other.example"}),
        json!({"iss": null}),
        json!({"aud": "other"}),
        json!({"aud": null}),
        json!({"sub": null}),
        json!({"sub": ""}),
    ] {
        let answer = ask(&service, &path, &key.token(&claims(&changed)));
        assert_eq!(
            answer.reason(),
            (401, "Unauthenticated".to_owned()),
            "{changed}"
        );
    }
    // Clocks differ by a minute at most.
    for changed in [
        json!({"exp": now() - 30}),
        json!({"nbf": now() + 30}),
        json!({"iat": now() + 30}),
    ] {
        let answer = ask(&service, &path, &key.token(&claims(&changed)));
        assert_ne!(answer.code, 401, "{changed}");
    }
    let whole = claims(&json!({}));
    let valid = key.token(&whole);
    let (rest, _) = valid.rsplit_once('.').unwrap();
    let public = key.published()["x"].as_str().unwrap().to_owned();
    for token in [
        String::new(),
        "x".to_owned(),
        "a.b.c".to_owned(),
        format!("{rest}."),
        format!("{rest}.AAAA"),
        // Another key of the same id, an unknown id, no signature, a public key as a shared secret.
        other.token(&whole),
        key.sign(&json!({"alg": "ES256", "kid": "three"}), &whole),
        key.sign(&json!({"alg": "none"}), &whole),
        key.sign(&json!({"alg": "HS256", "kid": "one"}), &whole),
        key.sign(&json!({"alg": "RS256", "kid": "one"}), &whole),
        key.sign(
            &json!({"alg": "ES256", "jwk": {"kty": "oct", "k": public}}),
            &whole,
        ),
    ] {
        let answer = ask(&service, &path, &token);
        assert_eq!(
            answer.reason(),
            (401, "Unauthenticated".to_owned()),
            "{token}"
        );
    }
    // Tokens of unknown keys do not make the service ask for keys again and again.
    assert!(asked.load(Ordering::SeqCst) <= 2, "{asked:?}");
}

#[test]
fn keys_that_cannot_be_read_are_no_reason_to_believe_a_token() {
    let fixture = deployed("");
    let key = Key::new("one");
    let service = start(&fixture, "http://127.0.0.1:9/keys");
    let answer = ask(
        &service,
        &on("compute11", "drain"),
        &key.token(&claims(&json!({}))),
    );
    assert_eq!(answer.reason(), (503, "ServiceUnavailable".to_owned()));
}

/// A key of RSA, by the program `openssl`: ring makes none.
struct RsaKey {
    pair: ring::signature::RsaKeyPair,
}

impl RsaKey {
    fn new() -> Option<Self> {
        let made = std::process::Command::new("openssl")
            .args(["genpkey", "-quiet", "-algorithm", "RSA", "-outform", "DER"])
            .output();
        let der = made.ok().filter(|made| made.status.success())?.stdout;
        // Some versions write PKCS #8, others the key alone.
        let pair = ring::signature::RsaKeyPair::from_pkcs8(&der)
            .or_else(|_| ring::signature::RsaKeyPair::from_der(&der))
            .unwrap();
        Some(Self { pair })
    }

    pub(crate) fn published(&self) -> Value {
        let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(self.pair.public());
        let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": part(&public.n), "e": part(&public.e)})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let message = format!("{}.{}", part(header), part(claims));
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let padding = &ring::signature::RSA_PKCS1_SHA256;
        self.pair
            .sign(
                padding,
                &SystemRandom::new(),
                message.as_bytes(),
                &mut signature,
            )
            .unwrap();
        format!("{message}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

#[test]
fn a_public_key_is_no_shared_secret_and_a_token_brings_no_keys_of_its_own() {
    let Some(rsa) = RsaKey::new() else {
        return crate::skipped::skipped("openssl makes no RSA key");
    };
    let fixture = deployed("");
    let (own, encrypts) = (Key::new("one"), Key::new("two"));
    let mut for_encryption = encrypts.published();
    for_encryption["use"] = json!("enc");
    let shared_secret =
        json!({"kty": "oct", "kid": "shared", "k": BASE64URL_NOPAD.encode(b"a shared secret")});
    let set = json!({"keys": [rsa.published(), own.published(), for_encryption, shared_secret]});
    let (jwks, asked) = publish(&set);
    let (other, others_asked) = publish(&json!({"keys": [Key::new("evil").published()]}));
    let service = start(&fixture, &jwks);
    let path = on("nothing", "drain");
    let whole = claims(&json!({}));
    let valid = json!({"alg": "RS256", "kid": "rsa"});
    assert_eq!(ask(&service, &path, &rsa.sign(&valid, &whole)).code, 404);
    let by_hmac = |key: &[u8], kid: &str| {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let message = format!(
            "{}.{}",
            part(&json!({"alg": "HS256", "kid": kid})),
            part(&whole)
        );
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        let signature = ring::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    };
    let modulus = rsa.published()["n"].as_str().unwrap().to_owned();
    let evil = Key::new("evil");
    let header = |changed: Value| {
        let mut header = json!({"alg": "ES256", "kid": "evil", "typ": "JWT"});
        for (name, value) in changed.as_object().unwrap() {
            header[name] = value.clone();
        }
        header
    };
    for token in [
        by_hmac(modulus.as_bytes(), "rsa"),
        by_hmac(rsa.pair.public().as_ref(), "rsa"),
        by_hmac(b"a shared secret", "shared"),
        // The right key by another algorithm, or a key for something else.
        rsa.sign(&json!({"alg": "PS256", "kid": "rsa"}), &whole),
        rsa.sign(&json!({"alg": "RS512", "kid": "rsa"}), &whole),
        rsa.sign(&json!({"alg": "RS256", "kid": "one"}), &whole),
        own.sign(&json!({"alg": "ES256", "kid": "rsa"}), &whole),
        own.sign(&json!({"alg": "ES384", "kid": "one"}), &whole),
        encrypts.token(&whole),
        // No id, and several keys that may be meant; ids that are no ids.
        evil.sign(&json!({"alg": "ES256"}), &whole),
        evil.sign(&header(json!({"kid": "../../../etc/passwd"})), &whole),
        evil.sign(&header(json!({"kid": ["one"]})), &whole),
        evil.sign(&header(json!({"kid": "one\u{0}"})), &whole),
        evil.sign(&header(json!({"kid": ""})), &whole),
        // Keys that the token brings, or says where they are.
        evil.sign(&header(json!({"jwk": evil.published()})), &whole),
        evil.sign(&header(json!({"jku": other})), &whole),
        evil.sign(&header(json!({"x5u": other})), &whole),
        evil.sign(&header(json!({"alg": "None"})), &whole),
        evil.sign(&header(json!({"alg": ["ES256"]})), &whole),
        evil.sign(
            &header(json!({"crit": ["b64"], "b64": false, "kid": "one"})),
            &whole,
        ),
    ] {
        let answer = ask(&service, &path, &token);
        assert_eq!(
            answer.reason(),
            (401, "Unauthenticated".to_owned()),
            "{token}"
        );
    }
    assert_eq!(others_asked.load(Ordering::SeqCst), 0);
    assert!(asked.load(Ordering::SeqCst) <= 2, "{asked:?}");
}

#[test]
fn a_token_that_expires_in_the_middle_counts_no_longer_and_its_action_ends() {
    let fixture = super::slow();
    let key = Key::new("one");
    let (jwks, _) = publish(&json!({"keys": [key.published()]}));
    let service = start(&fixture, &jwks);
    let token = key.token(&claims(&json!({"exp": now() - 57})));
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", &*bearer), ("Prefer", "respond-async")];
    let begun = service.request("POST", &on("compute11", "drain"), &headers, "");
    assert_eq!(begun.code, 202, "{begun:?}");
    let url = begun.json()["details"]["action"]["url"]
        .as_str()
        .unwrap()
        .to_owned();
    let get = |token: &str| {
        let bearer = format!("Bearer {token}");
        service.request("GET", &url, &[("Authorization", &bearer)], "")
    };
    assert_eq!(get(&token).code, 200);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(get(&token).reason(), (401, "Unauthenticated".to_owned()));
    crate::fixture::wait_until("the drain does not end", || {
        get(&key.token(&claims(&json!({})))).json()["state"] == "succeeded"
    });
}
