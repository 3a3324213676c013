//! Where a service is: scheme, host, port and the path below which it answers.
//!
//! A link in an answer (locations of tasks) is resolved against its endpoint and stays on
//! it: credentials never go if an answer points to.

use std::sync::Arc;

use reqwest::Url;

use super::text::plain;

/// A service's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    authority: Arc<str>,
}

/// Why something is no address of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

impl Endpoint {
    /// Reads `http://host:port/path` or `https://…`.
    ///
    /// # Errors
    ///
    /// It is no such address, or carries an account, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let shown = plain(text, 100);
        let mut url = Url::parse(text)
            .map_err(|error| EndpointError(format!("`{shown}` is no address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            let message = format!("`{shown}` is no address of the form `https://host:port`");
            return Err(EndpointError(message));
        }
        if !url.username().is_empty() || url.password().is_some() {
            // Not shown: it may hold a password.
            let message = "an address does not carry an account: use `credentials`".to_owned();
            return Err(EndpointError(message));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(EndpointError(format!(
                "`{shown}` has more than host and path"
            )));
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        let authority = Arc::from(authority(&url));
        Ok(Self { url, authority })
    }

    /// Its host and port.
    #[must_use]
    pub fn authority(&self) -> &Arc<str> {
        &self.authority
    }

    /// Whether what is sent there can be read on its way.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    /// The address of something of this service: a path below it (`v1/nodes`), one from the host's root
    /// (`/redfish/v1`), or a whole address on the same host.
    ///
    /// # Errors
    ///
    /// It is no address, or one elsewhere.
    pub fn resolve(&self, reference: &str) -> Result<Url, EndpointError> {
        let shown = plain(reference, 100);
        let url = self
            .url
            .join(reference)
            .map_err(|error| EndpointError(format!("`{shown}` is no address: {error}")))?;
        if url.origin() != self.url.origin()
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err(EndpointError(format!(
                "`{shown}` leads away from {}",
                self.authority
            )));
        }
        Ok(url)
    }
}

/// Whether a host, as it stands in a URL, is this machine.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

/// Host and port of an address, the port also if it is the scheme's own.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_names_is_found_on_the_same_host_only() {
        let endpoint = Endpoint::parse("https://10.0.0.4:8443/base").unwrap();
        assert_eq!(&**endpoint.authority(), "10.0.0.4:8443");
        for (reference, expected) in [
            ("v1/nodes", Ok("https://10.0.0.4:8443/base/v1/nodes")),
            ("/redfish/v1/", Ok("https://10.0.0.4:8443/redfish/v1/")),
            (
                "https://10.0.0.4:8443/redfish/v1/T/1",
                Ok("https://10.0.0.4:8443/redfish/v1/T/1"),
            ),
            (
                "//evil.example/redfish",
                Err("`//evil.example/redfish` leads away from 10.0.0.4:8443"),
            ),
            (
                "http://10.0.0.4:8443/x",
                Err("`http://10.0.0.4:8443/x` leads away from 10.0.0.4:8443"),
            ),
            (
                "https://10.0.0.4/x",
                Err("`https://10.0.0.4/x` leads away from 10.0.0.4:8443"),
            ),
            (
                "https://root@10.0.0.4:8443/x",
                Err("`https://root@10.0.0.4:8443/x` leads away from 10.0.0.4:8443"),
            ),
        ] {
            let found = endpoint.resolve(reference);
            let found = found.as_ref().map(Url::as_str).map_err(|e| e.0.as_str());
            assert_eq!(found, expected, "{reference}");
        }
    }

    #[test]
    fn an_endpoint_has_scheme_and_host_and_no_account() {
        for (text, problem) in [
            (
                "ftp://host/",
                "`ftp://host/` is no address of the form `https://host:port`",
            ),
            (
                "host:80",
                "`host:80` is no address of the form `https://host:port`",
            ),
            (
                "http://a:b@host/",
                "an address does not carry an account: use `credentials`",
            ),
            (
                "http://host/?a",
                "`http://host/?a` has more than host and path",
            ),
            ("http://", "`http://` is no address: empty host"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap_err().0, problem);
        }
        let six = Endpoint::parse("https://[fd00::4]").unwrap();
        assert_eq!(&**six.authority(), "[fd00::4]:443");
        assert!(!six.is_plain());
    }
}
