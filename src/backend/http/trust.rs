//! Whom a client believes: the system's certificates, a CA of one's own, a pinned certificate.
//!
//! Turning verification off is possible, for one endpoint at a time, and never silent: see
//! [`Trust::warning`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::HEXLOWER;
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

use crate::backend::Secret;

/// Whom a client believes.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Certificates, as PEM, to be trusted besides the system's.
    pub authorities: Option<Secret>,
    /// Certificates that are believed by their fingerprints; where there are any, only these are.
    pub fingerprints: Vec<Fingerprint>,
    /// Whether certificates are verified at all.
    pub verify: bool,
    /// Who the client itself is.
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
        let digits: Vec<u8> = text
            .chars()
            .filter(|letter| *letter != ':')
            .map(|letter| {
                letter
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            })
            .collect::<Option<_>>()
            .ok_or(TrustError::Fingerprint)?;
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        match <[u8; 32]>::try_from(bytes) {
            Ok(bytes) if digits.len() == 64 => Ok(Self(bytes)),
            _ => Err(TrustError::Fingerprint),
        }
    }
}

/// Why a client cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It is no fingerprint.
    #[error("a fingerprint is the SHA-256 of a certificate: 64 hexadecimal digits")]
    Fingerprint,
    /// What is to be trusted is no certificate.
    #[error("`ca` holds no certificate in PEM")]
    NoCertificate,
    /// The client's own certificate or key cannot be read.
    #[error("the client's certificate or key is no PEM")]
    Identity,
    /// The system's certificates, or those given, cannot be used.
    #[error("certificates cannot be used")]
    Certificates(#[source] TlsError),
    /// The client cannot be built.
    #[error("the HTTP client cannot be set up")]
    Client(#[source] reqwest::Error),
}

impl Trust {
    /// What a user is to be told, loudly, where certificates are not verified; `what`: which endpoint.
    #[must_use]
    pub fn warning(&self, what: &str) -> Option<String> {
        if self.verify {
            return None;
        }
        Some(format!(
            "certificates of {what} are NOT verified (`verify: false`): whoever stands between can read \
             the password and move the machine; give its CA in `ca` or its `fingerprints` instead"
        ))
    }

    /// The TLS configuration, on the ring provider.
    pub(super) fn config(&self) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let fingerprints = Some(self.fingerprints.clone()).filter(|_| self.verify);
        let by_chain = self.verify && self.fingerprints.is_empty();
        let verifier: Arc<dyn ServerCertVerifier> = if by_chain {
            let given = self.certificates()?;
            let chain = Verifier::new_with_extra_roots(given.clone(), provider.clone());
            Arc::new(ByChain {
                given,
                chain: chain.map_err(TrustError::Certificates)?,
            })
        } else {
            Arc::new(WithoutChain {
                fingerprints,
                provider: provider.clone(),
            })
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Certificates)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let Some(identity) = &self.identity else {
            return Ok(config.with_no_client_auth());
        };
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

/// All certificates in a PEM; `None` where there is none or one is broken.
fn certificates(pem: &Secret) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem.reveal().as_bytes()).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// Believes a chain to the system's certificates or those given, and a certificate that was itself given:
/// controllers sign their own, as a CA that is its own server, which no chain may end in.
#[derive(Debug)]
struct ByChain {
    given: Vec<CertificateDer<'static>>,
    chain: Verifier,
}

impl ServerCertVerifier for ByChain {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let found = self
            .chain
            .verify_server_cert(certificate, between, name, stapled, now);
        let is_given = || self.given.iter().any(|given| given == certificate);
        match found {
            Err(TlsError::InvalidCertificate(CertificateError::Other(_))) if is_given() => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            found => found,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.chain
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.chain
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Looks at the certificate alone, not at who issued it or what it is called.
#[derive(Debug)]
struct WithoutChain {
    /// Those that are believed; `None`: all.
    fingerprints: Option<Vec<Fingerprint>>,
    provider: Arc<CryptoProvider>,
}

/// A certificate that is not among those pinned.
#[derive(Debug, thiserror::Error)]
#[error("its fingerprint {0} is not among those given")]
struct NotPinned(Fingerprint);

impl ServerCertVerifier for WithoutChain {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let fingerprint = Fingerprint::of(certificate);
        match &self.fingerprints {
            Some(believed) if !believed.contains(&fingerprint) => {
                let error = OtherError(Arc::new(NotPinned(fingerprint)));
                Err(CertificateError::Other(error).into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
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
