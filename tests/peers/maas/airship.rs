//! A site that Airship runs is taken over: its documents from Shipyard, its machines from MAAS, and nothing but reads.

use std::sync::{Arc, Mutex};

use super::program::{GENERAL, Lab};
use super::region::Version;
use super::serve::{Answer, Received, Reply, Server};
use crate::site::{Ended, Site, trueup_meanwhile};

const TOKEN: &str = "gAAAAABkeystone-token";
const PASSWORD: &str = "the-password-of-all-controllers";
const ENVIRONMENT: [(&str, &str); 2] = [("MAAS_API_KEY", super::KEY_TEXT), ("OS_TOKEN", TOKEN)];

/// The same with a token that has expired.
const EXPIRED: [(&str, &str); 2] = [
    ("MAAS_API_KEY", super::KEY_TEXT),
    ("OS_TOKEN", "old-token-0123456789"),
];

/// Documents as Deckhand gives them out once they are rendered.
fn rendered(documents: &str) -> String {
    let all = documents.split("---\n").filter(|text| !text.is_empty());
    let ours =
        all.filter(|text| !text.contains("schema: trueup/") && !text.contains("schema: pegleg/"));
    let written = ours.map(|text| {
        let text = text.replacen(
            "metadata: {",
            "metadata: {schema: metadata/Document/v1, storagePolicy: cleartext, layeringDefinition: {abstract: false, layer: site, \
             parentSelector: {level: global}, actions: [{method: merge, path: .}]}, ",
            1,
        );
        format!("---\n{text}id: 1\nstatus: {{bucket: site, revision: 7}}\n")
    });
    written.collect()
}

/// What of a site Airship adds: a secret, the profile of which it is a part, and what deploys no machine.
fn secrets(value: &str, profile: &str) -> String {
    let metadata = |name: &str, policy: &str| {
        format!(
            "metadata: {{schema: metadata/Document/v1, name: {name}, storagePolicy: {policy}, layeringDefinition: {{abstract: \
             false, layer: site}}}}"
        )
    };
    format!(
        "---\nschema: deckhand/Passphrase/v1\n{}\ndata: {value}\n---\nschema: drydock/HostProfile/v1\n{}\ndata: {profile}\n---\n\
         schema: armada/Chart/v1\n{}\ndata: {{chart_name: ceph}}\n",
        metadata("oob", "encrypted"),
        metadata("spare", "encrypted"),
        metadata("ceph", "cleartext"),
    )
}

/// A Shipyard with one site, which keeps what it was asked.
struct Shipyard {
    server: Server,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Shipyard {
    /// `may_read_secrets`: whether the account of the token may.
    async fn start(documents: String, may_read_secrets: bool) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = requests.clone();
        let answer = move |received: &Received| {
            let asked: Vec<String> = received
                .query
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let line = format!("{} {}?{}", received.method, received.path, asked.join("&"));
            kept.lock().unwrap().push(line.clone());
            let of_secrets = line.contains("cleartext-secrets=true");
            let token = received.headers.get("x-auth-token");
            let (status, body) = match line.split('?').next().unwrap_or_default() {
                _ if token.map(String::as_str) != Some(TOKEN) => (401, "{}".to_owned()),
                "GET /MAAS/configdocs" => (
                    200,
                    r#"[{"collection_name":"site","base_version":"successful_site_action","base_revision":7,"base_status":"present","new_version":"committed","new_revision":9,"new_status":"unmodified"},{"collection_name":"software","base_version":"successful_site_action","base_revision":7,"base_status":"present","new_version":"committed","new_revision":9,"new_status":"modified"}]"#
                        .to_owned(),
                ),
                "GET /MAAS/renderedconfigdocs" if of_secrets && !may_read_secrets => {
                    (403, "{}".to_owned())
                }
                "GET /MAAS/renderedconfigdocs" => {
                    let profile = format!("{{hardware_profile: small, oob: {{type: ipmi, credential: {PASSWORD}}}}}");
                    let digest = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
                    let hidden = match of_secrets {
                        true => secrets(PASSWORD, &profile),
                        false => secrets(digest, digest),
                    };
                    (200, format!("{documents}{hidden}"))
                }
                "GET /MAAS/site_statuses" => (
                    200,
                    r#"{"nodes_provision_status":[{"hostname":"n1","status":"Deployed"},{"hostname":"gone","status":"Ready"}]}"#
                        .to_owned(),
                ),
                // Whatever changes something, or was not expected.
                _ => (500, "{}".to_owned()),
            };
            Reply::Answer(Answer {
                status,
                headers: Vec::new(),
                body,
            })
        };
        Self {
            server: Server::start(answer).await,
            requests,
        }
    }
}

async fn adopt(site: &Arc<Site>, shipyard: &Shipyard, lab: &Lab) -> Ended {
    let maas = lab.url();
    let words = [
        "adopt",
        "-o",
        "lab",
        "--from",
        "airship",
        "--url",
        &maas,
        "--credentials",
        "env:MAAS_API_KEY",
        "--shipyard",
        &shipyard.server.url,
        "--token",
        "env:OS_TOKEN",
    ];
    trueup_meanwhile(site.clone(), &words, &ENVIRONMENT).await
}

/// A site that was deployed, as Airship would have deployed it, and its documents as Deckhand rendered them.
async fn deployed() -> (Lab, String) {
    let lab = Lab::start(Version::V35).await;
    lab.trueup(&["apply", "--yes"]).await.with(0);
    let read = |name: &str| std::fs::read_to_string(lab.site.path().join(name)).unwrap();
    let documents = format!("{GENERAL}{}{}", read("networks.yaml"), read("nodes.yaml"));
    (lab, rendered(&documents))
}

/// Commits the documents; the first plan of them adopts each machine, and nothing is left to do after it.
async fn taken_as_it_is(site: &Arc<Site>) {
    site.git(&["add", "."]);
    site.git(&["commit", "-qm", "Adopt what runs"]);
    let trueup = async |words: &[&str]| trueup_meanwhile(site.clone(), words, &ENVIRONMENT).await;
    let plan = trueup(&["plan", "--site", "lab", "--format", "json"])
        .await
        .with(0)
        .json();
    let changes = plan["changes"].as_array().unwrap();
    let kinds: Vec<&str> = changes
        .iter()
        .map(|change| change["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["adopt"; 3], "{plan}");
    trueup(&["apply", "--yes", "--adopt", "all"]).await.with(0);
    trueup(&["plan", "--detailed-exitcode"]).await.with(0);
}

#[tokio::test]
async fn a_site_that_airship_runs_is_taken_over_without_a_redeploy() {
    let (lab, documents) = deployed().await;
    let shipyard = Shipyard::start(documents, true).await;
    let effects = lab.region.state().effects.clone();
    let site = Arc::new(Site::new(&[("README", "")]));
    let trueup = async |words: &[&str]| trueup_meanwhile(site.clone(), words, &ENVIRONMENT).await;

    let refused = adopt(&site, &shipyard, &lab).await.with(4).stderr;
    assert!(
        refused.contains("of revision 7; 1 field with a secret is left out"),
        "{refused}"
    );
    assert!(refused.contains("trueup trust"), "{refused}");
    let again = trueup(&["adopt", "-o", "lab"]).await.with(0).stderr;
    assert!(
        again.contains("3 machines are described already"),
        "{again}"
    );
    let read = |name: &str| std::fs::read_to_string(site.path().join("lab").join(name)).unwrap();
    for name in [
        "nodes.yaml",
        "profiles.yaml",
        "networks.yaml",
        "strategy.yaml",
        "backends.yaml",
        "ADOPTED.md",
    ] {
        let text = read(name);
        assert!(
            !text.contains(PASSWORD) && !text.contains(TOKEN),
            "{name}: {text}"
        );
    }
    let guide = read("ADOPTED.md");
    for words in [
        "`drydock/HostProfile/v1 spare: data.oob.credential`",
        "`software`",
        "`gone`: `Ready`",
        "`armada/Chart/v1`: 1",
    ] {
        assert!(guide.contains(words), "{words} in {guide}");
    }
    taken_as_it_is(&site).await;
    assert_eq!(lab.region.state().effects, effects);
    let requests = shipyard.requests.lock().unwrap();
    assert!(
        requests.iter().all(|line| line.starts_with("GET ")),
        "{requests:?}"
    );
    assert_eq!(requests.len(), 3, "{requests:?}");
}

#[tokio::test]
async fn without_rights_to_secrets_what_is_encrypted_is_named_and_a_refusal_writes_nothing() {
    let (lab, documents) = deployed().await;
    let shipyard = Shipyard::start(documents, false).await;
    let site = Arc::new(Site::new(&[("README", "")]));
    let told = adopt(&site, &shipyard, &lab).await.with(4).stderr;
    assert!(
        told.contains("left out: drydock/HostProfile/v1 spare: it is encrypted, and the token may not read what is"),
        "{told}"
    );
    // Another folder, by a token that has expired.
    let words = [
        "adopt",
        "-o",
        "other",
        "--from",
        "airship",
        "--url",
        &lab.url(),
        "--credentials",
        "env:MAAS_API_KEY",
        "--shipyard",
        &shipyard.server.url,
        "--token",
        "env:OS_TOKEN",
    ];
    let refused = trueup_meanwhile(site.clone(), &words, &EXPIRED)
        .await
        .with(1)
        .stderr;
    assert!(refused.contains("openstack token issue"), "{refused}");
    assert!(!refused.contains("old-token"), "{refused}");
    // Nor is the token sent if others can read it.
    let mut plain = words;
    let url = plain.iter().position(|word| *word == "--shipyard").unwrap() + 1;
    plain[url] = "http://192.0.2.7:9000/api/v1.0";
    let told = trueup_meanwhile(site.clone(), &plain, &ENVIRONMENT).await;
    assert!(told.with(64).stderr.contains("plain HTTP"));
    assert!(!site.path().join("other").exists());
}

#[tokio::test]
async fn machines_of_maas_are_adopted_without_airship_and_nothing_is_changed_there() {
    let (lab, _) = deployed().await;
    let effects = lab.region.state().effects.clone();
    let site = Arc::new(Site::new(&[("README", "")]));
    let trueup = async |words: &[&str]| trueup_meanwhile(site.clone(), words, &ENVIRONMENT).await;
    let url = lab.url();
    let from = [
        "adopt",
        "-o",
        "lab",
        "--from",
        "maas",
        "--url",
        &url,
        "--credentials",
        "env:MAAS_API_KEY",
    ];
    let refused = trueup(&from).await.with(4).stderr;
    assert!(refused.contains("trueup trust"), "{refused}");
    let adopted = trueup(&["adopt", "-o", "lab"]).await.with(0).stderr;
    assert!(adopted.contains("with 3 machines"), "{adopted}");
    taken_as_it_is(&site).await;
    let again = trueup(&["adopt", "-o", "lab"]).await.with(0).stderr;
    assert!(again.contains("no machine was added"), "{again}");
    assert_eq!(lab.region.state().effects, effects);
}
