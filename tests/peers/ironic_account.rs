//! Ironic that wants an account, behind TLS.
//!
//! Ironic checks the account itself (`http_basic`). It is put behind a server of the test's own that
//! speaks TLS, as it is behind a proxy if it is in use.

use std::process::Command;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use trueup::backend::{ActError, Hardware, Secret, SecretError, Secrets};
use trueup::design::Reference;
use trueup::lifecycle::ProvisionState;
use trueup::step::StepKind;

use crate::harness::{Peer, shared, wait_until};
use crate::ironic::Hands;

const PASSWORD: &str = "a pass phrase of the lab";

/// Starts Ironic as the script of the others does, but for the account.
const START: &str = r#"
set -eu
env=$("$PEERS/python-env.sh" ironic ironic==39.0.0)
mkdir -p lock
hash=$("$env/bin/python" -c 'import bcrypt, os; print(bcrypt.hashpw(os.environ["PASSWORD"].encode(), bcrypt.gensalt(4, b"2b")).decode())')
printf 'lab:%s\n' "$hash" | sed 's/\$2b\$/$2y$/' > accounts
sed -e "s#@DIR@#$PWD#g; s#@PORT@#$PORT#g; s#@DELAY@#0#g" \
  -e "s#^auth_strategy = noauth#auth_strategy = http_basic\nhttp_basic_auth_user_file = $PWD/accounts#" \
  "$PEERS/ironic.conf.in" > ironic.conf
"$env/bin/ironic-dbsync" --config-file ironic.conf create_schema
exec "$env/bin/ironic" --config-file ironic.conf
"#;

/// Knows one password and one certificate.
#[derive(Debug)]
struct Known {
    password: &'static str,
    certificate: String,
}

impl Secrets for Known {
    fn reveal(&self, reference: &Reference) -> Result<Secret, SecretError> {
        match reference {
            Reference::Env(name) if &**name == "CA" => Ok(Secret::new(self.certificate.clone())),
            _ => Ok(Secret::new(self.password.to_owned())),
        }
    }
}

/// Speaks TLS on a port of its own, and passes everything on; its port and its certificate.
async fn front(behind: u16) -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                if let Ok(mut ironic) = TcpStream::connect(("127.0.0.1", behind)).await {
                    let _ = copy_bidirectional(&mut stream, &mut ironic).await;
                }
            });
        }
    });
    (port, cert.pem())
}

fn text(error: ActError) -> String {
    let text = error.to_string();
    assert!(!text.contains(PASSWORD), "{text}");
    text
}

#[tokio::test]
async fn an_account_and_a_certificate_are_good_or_each_is_named_as_what_is_wrong() {
    let Some(peers) = shared("peers") else { return };
    let peer = Peer::program(|folder, ports| {
        let mut command = Command::new("bash");
        command
            .args(["-c", START])
            .current_dir(folder)
            .env("PEERS", &peers)
            .env("PASSWORD", PASSWORD)
            .env("PORT", ports.at(0).to_string());
        command
    });
    let Some(peer) = peer else { return };
    let behind = peer.ports().at(0);
    wait_until("Ironic listens", || {
        std::net::TcpStream::connect(("127.0.0.1", behind)).is_ok()
    });
    let (port, certificate) = front(behind).await;
    let hands = |settings: &str, password: &'static str| {
        let known = Known {
            password,
            certificate: certificate.clone(),
        };
        let settings = format!("endpoint: https://127.0.0.1:{port}\n      {settings}");
        Hands::of(&["n1"], &settings, Arc::new(known))
    };
    let account = "credentials: {username: lab, password: {env: PASSWORD}}";
    let verify = async |hands: &Hands| {
        let (order, _) = hands.order(StepKind::VerifySite, None, json!({}));
        hands.backends.act(&order).await
    };
    let good = hands(&format!("{account}\n      ca: {{env: CA}}"), PASSWORD);
    // The conductor may not be there yet when the API is.
    let mut tries = 0;
    while let Err(error) = verify(&good).await {
        tries += 1;
        assert!(tries < 60, "{}", text(error));
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    good.act(StepKind::Prepare, "n1").await.unwrap();
    assert_eq!(good.state("n1").await, ProvisionState::Available);

    let wrong = hands(&format!("{account}\n      ca: {{env: CA}}"), "wrong");
    let said = text(verify(&wrong).await.unwrap_err());
    assert!(said.contains("401"), "{said}");
    let nobody = hands("ca: {env: CA}", PASSWORD);
    let said = text(verify(&nobody).await.unwrap_err());
    assert!(said.contains("401"), "{said}");
    let untrusted = hands(account, PASSWORD);
    let said = text(verify(&untrusted).await.unwrap_err());
    assert!(said.contains("its certificate is not trusted"), "{said}");
}
