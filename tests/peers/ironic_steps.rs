//! What a deploy runs on Ironic besides its own steps, and what Ironic has no room for.

use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::ironic::{Lab, commit, documents, site_of};

/// Ironic bounds how many machines are deployed and cleaned at once, and answers 503 beyond that. (A pool of
/// workers that is too small is no such trial: the one of Ironic 39 stays full for ever once it was full.)
#[tokio::test]
async fn what_ironic_answers_with_503_is_deployed_and_torn_down_in_the_end() {
    let limits = [
        ("OS_CONDUCTOR__MAX_CONCURRENT_DEPLOY", "1"),
        ("OS_CONDUCTOR__MAX_CONCURRENT_CLEAN", "1"),
    ];
    let Some(lab) = Lab::start_with("1", &limits) else {
        return;
    };
    let site = site_of(&documents(4, &lab.hardware()));
    let body = json!({"name": "other", "driver": "fake-hardware"});
    lab.api(Method::POST, "nodes", body).await.unwrap();
    let apply = [
        "apply",
        "--yes",
        "--parallelism",
        "6",
        "--max-unavailable",
        "6",
    ];
    let destroy = [&apply[..], &["--allow-destroy", "all"]].concat();
    // The only place is taken by another machine, until many requests were refused for it.
    for (arguments, busy) in [(&apply[..], "wait call-back"), (&destroy, "clean wait")] {
        lab.put_state("other", busy);
        let enough = lab.answered("PUT", 503) + 6;
        let mut applying = site.start(arguments, &[], Stdio::null());
        while lab.answered("PUT", 503) < enough {
            assert!(applying.try_wait().unwrap().is_none(), "{busy}: it ended");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        lab.put_state("other", "enroll");
        let ended = tokio::task::spawn_blocking(move || applying.wait().unwrap());
        assert_eq!(ended.await.unwrap().code(), Some(0), "{busy}");
        site.trueup(&["plan", "--detailed-exitcode"], &[]).with(0);
        commit(&site, &documents(1, &lab.hardware()));
    }
    eprintln!("{} answers 503", lab.answered("PUT", 503));
}

/// Its fake hardware has one deploy step, which a design may switch off and not move; what it does not have
/// Ironic leaves out without saying so.
#[test]
fn ironic_runs_the_deploy_steps_of_the_design_or_the_deploy_fails() {
    let Some(lab) = Lab::start("3") else { return };
    let with = |steps: &str| {
        let mut files = documents(1, &lab.hardware());
        let (_, machines) = &mut files[2];
        *machines = machines.replace(
            "boot_mac: '52:54:00:00:00:01'}}",
            &format!("boot_mac: '52:54:00:00:00:01'}}, platform: {{deploy_steps: [{steps}]}}}}"),
        );
        assert!(machines.contains("deploy_steps"), "{machines}");
        files
    };
    let site = site_of(&with("{interface: deploy, step: deploy, priority: 150}"));
    let ended = site.trueup(&["apply", "--yes"], &[]);
    assert_ne!(ended.code, 0, "{ended:?}");
    let words = ended.stdout + &ended.stderr;
    for said in [
        "deploy step deploy.deploy (priority 150)",
        "is a core step and cannot be overridden",
    ] {
        assert!(words.contains(said), "{words}");
    }
    let off = "{interface: deploy, step: deploy, priority: 0}";
    commit(&site, &with(off));
    let apply = ["apply", "--yes", "--allow-redeploy", "all"];
    let ended = site.trueup(&apply, &[]);
    let words = ended.stdout + &ended.stderr;
    assert!(
        words.contains("No deploy steps returned by the driver"),
        "{words}"
    );

    let bios = "{interface: bios, step: apply_configuration, priority: 150, args: {settings: [{name: Turbo, value: Disabled}]}}";
    commit(&site, &with(bios));
    let failed = site.trueup(&apply, &[]);
    assert_ne!(failed.code, 0, "{failed:?}");
    let words = failed.stdout + &failed.stderr;
    let step = r#"deploy step bios.apply_configuration {"settings":[{"name":"Turbo","value":"Disabled"}]}"#;
    assert!(words.contains(step), "{words}");
    let why = "Ironic has deployed it without bios.apply_configuration";
    assert!(words.contains(why), "{words}");
}
