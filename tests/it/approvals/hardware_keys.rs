//! Keys on security devices (`sk-ssh-ed25519@openssh.com`): their signatures hold.
//!
//! There is no device here. A signature is made as a device makes it: over the application, its flags, its counter and the
//! message. If OpenSSH's own device of software is installed (`openssh-tests`), the whole way is gone with it.

use std::path::Path;
use std::process::Command;

use data_encoding::BASE64;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use sha2::{Digest as _, Sha256, Sha512};

use super::refused::Forgery;
use super::signed::STATE;
use super::{PEOPLE, REDEPLOY, Team};
use crate::fixture::Ended;

const KIND: &str = "sk-ssh-ed25519@openssh.com";
const APPLICATION: &str = "ssh:";

/// OpenSSH's own device of software, as Debian installs it.
const DUMMY: &str = "/usr/lib/openssh/regress/misc/sk-dummy/sk-dummy.so";

struct Device(KeyPair);

fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length[..], bytes].concat()
}

impl Device {
    fn new() -> Self {
        Self(KeyPair::generate_for(&PKCS_ED25519).unwrap())
    }

    fn public(&self) -> Vec<u8> {
        [
            string(KIND),
            string(self.0.public_key_raw()),
            string(APPLICATION),
        ]
        .concat()
    }

    /// The signature of a message, with a touch.
    fn sign(&self, namespace: &str, message: &str) -> String {
        let digest = Sha512::digest(message);
        let parts = [
            string(namespace),
            string(""),
            string("sha512"),
            string(digest),
        ];
        let wrapped = [&b"SSHSIG"[..], &parts.concat()].concat();
        let tail = [&[1][..], &7u32.to_be_bytes()].concat();
        let (application, wrapped) = (Sha256::digest(APPLICATION), Sha256::digest(wrapped));
        let signed = [&application[..], &tail, &wrapped[..]].concat();
        let raw = self.0.sign(&signed).unwrap();
        let signature = [string(KIND), string(raw), tail].concat();
        let parts = [
            string(self.public()),
            string(namespace),
            string(""),
            string("sha512"),
            string(signature),
        ];
        let whole = [&b"SSHSIG\0\0\0\x01"[..], &parts.concat()].concat();
        let text = BASE64.encode(&whole);
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(70)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        format!(
            "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
            lines.join("\n")
        )
    }
}

#[test]
fn an_approval_by_a_security_key_counts_for_what_it_has_signed() {
    let team = Team::new();
    let device = Device::new();
    let lines = PEOPLE.map(|name| team.signer(name, name)).concat();
    let line = format!(
        "dora@example.org {KIND} {}\n",
        BASE64.encode(&device.public())
    );
    team.site.checkout.write("allowed_signers", lines + &line);
    team.agree("Dora has a device");
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let (name, statement) = team.statement();
    team.origin.git(&["update-ref", "-d", &name]);
    let (folder, _) = name.rsplit_once('/').unwrap();
    let own = data_encoding::HEXLOWER.encode(&Sha256::digest(device.public())[..16]);
    let forge = |namespace: &str, signed: &str| {
        let signature = device.sign(namespace, signed);
        let statement = statement.clone();
        let forgery = Forgery {
            statement,
            signature,
        };
        team.forge(&format!("{folder}/{own}"), &forgery);
    };
    let other = statement.replace("nonce: ", "nonce: 0");
    for (namespace, signed) in [("trueup-approval@v1", &other), ("git", &statement)] {
        forge(namespace, signed);
        let refused = team.refused(&REDEPLOY);
        assert!(
            refused.len() == 1 && refused[0].contains("does not hold"),
            "{refused:?}"
        );
        team.site.run(&["apply", &plan]).with(4);
    }
    forge("trueup-approval@v1", &statement);
    let approvals = team.approvals(&REDEPLOY);
    assert_eq!(
        approvals["given"][0]["by"], "dora@example.org",
        "{approvals}"
    );
    team.site.run(&["apply", &plan]).with(0);
}

#[test]
fn approvals_and_runs_are_signed_by_a_device_where_there_is_one() {
    if !Path::new(DUMMY).exists() {
        eprintln!(
            "SKIPPED: openssh-tests is not installed, so there is no device of software to sign with"
        );
        return;
    }
    let team = Team::new();
    let key = team.keys.path().join("device");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519-sk", "-N", "", "-f"])
        .arg(&key)
        .env("SSH_SK_PROVIDER", DUMMY)
        .status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let lines = PEOPLE.map(|name| team.signer(name, name)).concat();
    team.site.checkout.write(
        "allowed_signers",
        format!("{lines}dora@example.org {public}"),
    );
    team.agree("Dora has a device");
    team.sign_by(&team.site, key.to_str().unwrap());
    let run = |arguments: &[&str]| -> Ended {
        let mut command = team.site.command(arguments);
        command.env("SSH_SK_PROVIDER", DUMMY);
        command.output().unwrap().into()
    };
    let plan = team.plan(&REDEPLOY);
    run(&["approve", &plan, "--yes"])
        .with(0)
        .saying("as dora@example.org");
    team.sign_as(&team.site, "ada");
    team.site.run(&["apply", &plan]).with(0);
    team.sign_by(&team.site, key.to_str().unwrap());
    run(&["apply", "--yes", "power", "off", "edge-1"]).with(0);
    assert_eq!(team.signature()["by"], "dora@example.org");
    assert!(team.git_verifies(&["verify-commit", STATE]));
}
