//! Approvals without trueup: by git and `ssh-keygen` alone.

use std::process::Command;

use super::{REDEPLOY, Team};

#[test]
fn an_auditor_verifies_an_approval_with_git_and_ssh_keygen_alone() {
    let team = Team::new();
    let plan = team.plan(&REDEPLOY);
    team.approve(&plan, "bob", &[]).with(0);
    let name = team.refs().pop().unwrap();
    let folder = team.keys.path();
    for file in ["approval", "approval.sig"] {
        let text = team.origin.git(&["show", &format!("{name}:{file}")]);
        std::fs::write(folder.join(file), text + "\n").unwrap();
    }
    let statement = std::fs::read_to_string(folder.join("approval")).unwrap();
    let effect = name.split('/').nth(4).unwrap();
    assert!(
        statement.contains(&format!("effect: sha256:{effect}\n")),
        "{statement}"
    );
    assert!(statement.contains("site: edge\n"), "{statement}");
    let verify = |principal: &str, namespace: &str| {
        let signers = team.site.checkout.path().join("allowed_signers");
        let mut command = Command::new("ssh-keygen");
        command.args([
            "-Y",
            "verify",
            "-I",
            principal,
            "-n",
            namespace,
            "-s",
            "approval.sig",
            "-f",
        ]);
        command.arg(signers).current_dir(folder);
        command.stdin(std::fs::File::open(folder.join("approval")).unwrap());
        command.output().unwrap().status.success()
    };
    assert!(verify("bob@example.org", "trueup-approval@v1"));
    assert!(!verify("carol@example.org", "trueup-approval@v1"));
    assert!(!verify("bob@example.org", "git"));
}
