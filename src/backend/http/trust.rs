//! Whom a client believes: the system's certificates, a CA of one's own, a pinned certificate.
//!
//! Turning verification off is possible, for one endpoint at a time, and never silent: see
//! [`Trust::warning`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, OtherError,
    SignatureScheme,
};
use rustls_platform_verifier::Verifier;
use sha2::{Digest as _, Sha256};

use super::validity::expired;
use crate::backend::Secret;

/// Whom a client believes.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Certificates, as PEM, to be trusted besides the system's.
    pub authorities: Option<Secret>,
    /// Certificates that are believed by their fingerprints; if there are any, only these are.
    pub fingerprints: Vec<Fingerprint>,
    /// Whether certificates are verified at all.
    pub verify: bool,
    /// The client's own certificate.
    pub identity: Option<Identity>,
    /// Whether credentials may be sent over plain HTTP beyond this machine.
    pub allow_plain_http: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            authorities: None,
            fingerprints: Vec::new(),
            verify: true,
            identity: None,
            allow_plain_http: false,
        }
    }
}

/// A client's certificate with its key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, and those between it and its CA.
    pub certificate: Secret,
    /// Its key.
    pub key: Secret,
}

/// The SHA-256 of a certificate, as 64 hexadecimal digits with or without colons.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&HEXLOWER.encode_display(&self.0), f)
    }
}

impl FromStr for Fingerprint {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self, TrustError> {
        let digits: String = text.chars().filter(|letter| *letter != ':').collect();
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes());
        let bytes = bytes.ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(TrustError::Fingerprint)
    }
}

/// Why a client cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It is no fingerprint.
    #[error("a fingerprint is the SHA-256 of a certificate: 64 hexadecimal digits")]
    Fingerprint,
    /// `ca` holds no certificate.
    #[error("`ca` holds no certificate in PEM")]
    NoCertificate,
    /// The client's own certificate or key cannot be read.
    #[error("the client's certificate or key is no PEM")]
    Identity,
    /// The client's own certificate has expired.
    #[error("the client's certificate expired at {0}; renew it")]
    Expired(Timestamp),
    /// The system's certificates, or those given, cannot be used.
    #[error("certificates cannot be used")]
    Certificates(#[source] TlsError),
    /// The client cannot be built.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
}

impl Trust {
    /// The warning for a user where certificates are not verified; `what`: the endpoint.
    #[must_use]
    pub fn warning(&self, what: &str) -> Option<String> {
        if self.verify {
            return None;
        }
        Some(format!(
            "certificates of {what} are NOT verified (`verify: false`): an attacker on the network can read \
             the password and move the machine; give its CA in `ca` or its `fingerprints` instead"
        ))
    }

    /// The TLS configuration, on the ring provider.
    ///
    /// # Errors
    ///
    /// The certificates or keys that are to be used cannot be read.
    pub fn config(&self) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let believed = if !self.verify {
            Believed::All
        } else if self.fingerprints.is_empty() {
            let given = self.certificates()?;
            let chain = Verifier::new_with_extra_roots(given.clone(), provider.clone());
            let chain = chain.map_err(TrustError::Certificates)?;
            Believed::Chains { given, chain }
        } else {
            Believed::Pinned(self.fingerprints.clone())
        };
        let verifier = Arc::new(Certificates {
            believed,
            provider: provider.clone(),
        });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Certificates)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let Some(identity) = &self.identity else {
            return Ok(config.with_no_client_auth());
        };
        if let Some(end) = expired(identity.certificate.reveal().as_bytes(), Timestamp::now()) {
            return Err(TrustError::Expired(end));
        }
        let chain = certificates(&identity.certificate).ok_or(TrustError::Identity)?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.reveal().as_bytes())
            .map_err(|_| TrustError::Identity)?;
        config
            .with_client_auth_cert(chain, key)
            .map_err(TrustError::Certificates)
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TrustError> {
        match &self.authorities {
            None => Ok(Vec::new()),
            Some(pem) => certificates(pem).ok_or(TrustError::NoCertificate),
        }
    }
}

/// All certificates in a PEM; `None` if it has none or one is broken.
fn certificates(pem: &Secret) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.reveal().as_bytes()).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// Which certificates are believed.
#[derive(Debug)]
enum Believed {
    /// Those with a chain to the system's certificates or those given, and those that were given
    /// themselves: controllers sign their own, as a CA that is its own server, which no chain may end in.
    Chains {
        given: Vec<CertificateDer<'static>>,
        chain: Verifier,
    },
    /// Those with these fingerprints, of any issuer and name.
    Pinned(Vec<Fingerprint>),
    /// All.
    All,
}

/// Decides about the certificates of servers.
#[derive(Debug)]
struct Certificates {
    believed: Believed,
    provider: Arc<CryptoProvider>,
}

/// A certificate that is not among those pinned.
#[derive(Debug, thiserror::Error)]
#[error("its fingerprint {0} is not among those given")]
struct NotPinned(Fingerprint);

impl ServerCertVerifier for Certificates {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        match &self.believed {
            Believed::All => {}
            Believed::Pinned(fingerprints) => {
                let fingerprint = Fingerprint::of(certificate);
                if !fingerprints.contains(&fingerprint) {
                    let error = OtherError(Arc::new(NotPinned(fingerprint)));
                    return Err(CertificateError::Other(error).into());
                }
            }
            Believed::Chains { given, chain } => {
                let found = chain.verify_server_cert(certificate, between, name, stapled, now);
                let is_given = || given.iter().any(|given| given == certificate);
                match found {
                    Err(TlsError::InvalidCertificate(CertificateError::Other(_))) if is_given() => {
                        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                    }
                    found => return found,
                }
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    // That the other side has the key of its certificate is always checked.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
