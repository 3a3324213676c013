//! The names of a client's certificate, and TLS as the server speaks it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::Error;
use super::settings::Files;

/// The subject alternative names of a certificate, as `dns:NAME` and `uri:NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(pub(super) Vec<String>);

/// The names of a certificate that was verified.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Names {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else {
        return Names::default();
    };
    let dns = parsed.valid_dns_names().map(|name| format!("dns:{name}"));
    let uris = parsed.valid_uri_names().map(|name| format!("uri:{name}"));
    Names(dns.chain(uris).collect())
}

/// TLS with a certificate of the server's own; callers with a certificate are verified if there is a CA for them.
///
/// # Errors
///
/// The files hold no certificates or no key, or these do not fit together.
pub(super) fn acceptor(files: &Files) -> Result<Option<TlsAcceptor>, Error> {
    let Some((certificate, key)) = &files.identity else {
        return Ok(None);
    };
    let refused = |what: &str, error: &dyn std::fmt::Display| {
        Error::Settings(format!("`{what}` cannot be used: {error}"))
    };
    let chain = certificates("tls.certificate", certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| refused("tls.key", &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("tls", &error))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates("tls.client_ca", authorities)? {
                let added = roots.add(authority);
                added.map_err(|error| refused("tls.client_ca", &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            // A caller without one may ask for health, and is refused by each resource that needs a role.
            let verifier = verifier
                .allow_unauthenticated()
                .build()
                .map_err(|error| refused("tls.client_ca", &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| refused("tls.certificate", &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Error::Settings(format!("`{what}` holds no certificate"))),
        Err(error) => Err(Error::Settings(format!("`{what}` cannot be read: {error}"))),
    }
}
