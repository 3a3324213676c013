//! Whether the images can be had that machines are deployed with, before anything is done to a machine.
//!
//! Only images that a URL names over HTTP can be asked for from here, and only those of machines that the
//! plan deploys. The deploying side fetches them itself: the request here is a HEAD.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use reqwest::{Method, StatusCode, Url};

use crate::backend::http::{Client, Request};
use crate::backend::{ActError, Order};
use crate::design::{HardwareBackend, NodeDesign, NodeName};
use crate::guard::Guarded;

/// Images that are asked for in the same moment.
const AT_ONCE: usize = 16;

/// Nodes that an error names.
const NAMED: usize = 3;

/// The URLs that the machines of a backend are deployed from.
#[derive(Debug, Default)]
pub(super) struct Images(HashMap<NodeName, Vec<Arc<str>>>);

impl Images {
    /// Those of all nodes that a backend moves; `urls`: what a node is deployed from.
    pub(super) fn of(
        site: &Guarded,
        backend: &HardwareBackend,
        urls: impl Fn(&NodeDesign) -> Vec<String>,
    ) -> Self {
        let mut known: HashMap<String, Arc<str>> = HashMap::new();
        let mut all = HashMap::new();
        let own = site.nodes.values();
        for node in own.filter(|node| std::ptr::eq(site.guards().backend_of(node), backend)) {
            let urls = urls(node).into_iter();
            let urls = urls.filter(|url| url.starts_with("http://") || url.starts_with("https://"));
            let urls: Vec<Arc<str>> = urls
                .map(|url| match known.get(&url) {
                    Some(known) => known.clone(),
                    None => {
                        let shared: Arc<str> = Arc::from(url.as_str());
                        known.insert(url, shared.clone());
                        shared
                    }
                })
                .collect();
            if !urls.is_empty() {
                all.insert(node.name.clone(), urls);
            }
        }
        Self(all)
    }

    /// Asks for each image that the deploys of the plan name.
    ///
    /// # Errors
    ///
    /// Which cannot be had, for which machines, and why; all of them at once.
    pub(super) async fn verify(&self, client: &Client, order: &Order) -> Result<(), ActError> {
        let deploys = order.step.given().deploys();
        let mut wanted: BTreeMap<&Arc<str>, Vec<&NodeName>> = BTreeMap::new();
        for node in deploys {
            for url in self.0.get(node).into_iter().flatten() {
                wanted.entry(url).or_default().push(node);
            }
        }
        let mut missing = Vec::new();
        let mut passing = true;
        let looks = wanted.iter().map(|(url, nodes)| async move {
            order.reporter.progress(format!("looking for {url}"));
            (nodes, look(client, url).await)
        });
        let looks: Vec<_> = looks.collect();
        let mut looks = stream::iter(looks).buffered(AT_ONCE);
        while let Some((nodes, looked)) = looks.next().await {
            if let Err(error) = looked {
                passing &= matches!(error, ActError::Passing(_) | ActError::Ambiguous(_));
                missing.push(format!("for {}: {error}", names(nodes)));
            }
        }
        let text: Arc<str> = Arc::from(missing.join("; "));
        match (missing.is_empty(), passing) {
            (true, _) => Ok(()),
            (false, true) => Err(ActError::Passing(text)),
            (false, false) => Err(ActError::Permanent(text)),
        }
    }
}

/// Asks for one image; one that a redirect leads to another host for is there as far as can be told.
async fn look(client: &Client, url: &str) -> Result<(), ActError> {
    let subject = format!("image {url}");
    let broken = |error: &dyn std::fmt::Display| {
        ActError::Permanent(Arc::from(format!("{subject}: {error}")))
    };
    let address = Url::parse(url).map_err(|error| broken(&error))?;
    let head = Request::new(&subject, Method::HEAD, address.clone()).attempts(3);
    let Err(failure) = client.send(&head).await else {
        return Ok(());
    };
    let refused = [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];
    let status = failure.status();
    if status.is_some_and(|status| status.is_redirection()) {
        return Ok(());
    }
    if !status.is_some_and(|status| refused.contains(&status)) {
        return Err(failure.into());
    }
    let first = Request::new(&subject, Method::GET, address).header("range", "bytes=0-0");
    match client.send(&first).await {
        Ok(_) => Ok(()),
        // It was there, and more of it than was asked for.
        Err(failure) if failure.status().is_some_and(|status| status.is_success()) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}

fn names(nodes: &[&NodeName]) -> String {
    let shown: Vec<String> = nodes
        .iter()
        .take(NAMED)
        .map(|node| format!("`{node}`"))
        .collect();
    match nodes.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::backend::Reporter;
    use crate::backend::http::{HttpLimits, Trust};
    use crate::design::RunId;
    use crate::step::{Effect, Step, StepId, StepKind, VerifySiteParameters};

    /// A server of images: what it answers depends on method and path.
    async fn serve() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut asked = vec![0; 4096];
                    let read = stream.read(&mut asked).await.unwrap_or(0);
                    let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
                    let line = match asked.split(' ').take(2).collect::<Vec<_>>()[..] {
                        ["HEAD", "/there"] => "200 OK\r\ncontent-length: 999999999999",
                        ["HEAD", "/range"] => "405 Method Not Allowed\r\ncontent-length: 0",
                        ["GET", "/range"] if asked.contains("range: bytes=0-0") => {
                            "206 Partial Content\r\ncontent-length: 1"
                        }
                        ["HEAD", "/moved"] => {
                            "302 Found\r\nlocation: http://192.0.2.1/x\r\ncontent-length: 0"
                        }
                        _ => "404 Not Found\r\ncontent-length: 0",
                    };
                    let answer = format!("HTTP/1.1 {line}\r\nconnection: close\r\n\r\nx");
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        format!("http://{address}")
    }

    fn order(deploys: &[&str]) -> Order {
        let deploys = deploys.iter().map(|name| NodeName::from(*name)).collect();
        Order {
            leaving: Arc::default(),
            soaked: Arc::default(),
            run: RunId::from("R1"),
            step: Arc::new(Step {
                id: StepId {
                    kind: StepKind::VerifySite,
                    group: None,
                    node: None,
                    wave: None,
                },
                timeout: 10,
                effect: Effect::None,
                standby: false,
                parameters: Some(Arc::new(VerifySiteParameters { deploys }.into())),
                needs: Vec::new(),
            }),
            node: None,
            notes: Vec::new(),
            reporter: Reporter::default(),
        }
    }

    #[tokio::test]
    async fn an_image_that_is_not_there_is_named_with_the_machines_that_are_deployed_from_it() {
        let server = serve().await;
        let client = Client::new(&Trust::default(), HttpLimits::default()).unwrap();
        let of = |name: &str, paths: &[&str]| {
            let urls = paths
                .iter()
                .map(|path| Arc::from(format!("{server}{path}")));
            (NodeName::from(name), urls.collect::<Vec<Arc<str>>>())
        };
        let images = Images(HashMap::from([
            of("n1", &["/there", "/range"]),
            of("n2", &["/moved"]),
            of("n3", &["/gone"]),
            of("n4", &["/gone"]),
        ]));
        images.verify(&client, &order(&["n1", "n2"])).await.unwrap();
        // What is not deployed is not looked for.
        images.verify(&client, &order(&[])).await.unwrap();
        let error = images.verify(&client, &order(&["n1", "n3", "n4"])).await;
        let Err(ActError::Permanent(text)) = error else {
            panic!("{error:?}");
        };
        let host = &server["http://".len()..];
        assert!(text.starts_with("for `n3`, `n4`: image http://"), "{text}");
        assert!(
            text.contains(host) && text.contains("404 Not Found"),
            "{text}"
        );
        // An absent server can come back.
        let nowhere = vec![Arc::from("http://127.0.0.1:1/x")];
        let images = Images(HashMap::from([(NodeName::from("n5"), nowhere)]));
        let error = images.verify(&client, &order(&["n5"])).await;
        assert!(matches!(error, Err(ActError::Passing(_))), "{error:?}");
    }
}
