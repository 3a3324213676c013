//! The OpenAPI document of the service: valid by a validator of others, and enough for a client that a generator makes of
//! it, which makes a plan, applies it and reads its run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::Service;
use super::keystone::deployed;
use crate::harness::{shared, skip, turn};

/// Uses each endpoint by the generated client, whose types refuse an answer without a field that they need.
const SCRIPT: &str = r#"
import sys, time
sys.path.insert(0, sys.argv[1])
from made import Client
from made.api.actions import action, actions
from made.api.plans import apply, create, plan, plans
from made.api.runs import progress, run, runs
from made.api.service import openapi
from made.api.site import drift, node, nodes, sites, status
from made.models import ApplyRequest, PlanRequest, StatusObject
client = Client(base_url=sys.argv[2])
def ask(operation, *arguments, code=200, **named):
    answer = operation.sync_detailed(*arguments, client=client, **named)
    assert answer.status_code == code, (operation.__name__, answer.status_code, answer.content[:400])
    return answer.parsed
from openapi_spec_validator import OpenAPIV31SpecValidator
import json
document = json.loads(openapi.sync_detailed(client=client).content)
OpenAPIV31SpecValidator(document).validate()
assert [site.is_served for site in ask(sites)] == [True]
assert {each.node for each in ask(status).nodes} == {each.name for each in ask(nodes)}
assert ask(node, "compute11").status.phase == "deployed"
assert isinstance(ask(node, "nothing", code=404), StatusObject)
assert ask(drift).nodes == []
made = ask(create, body=PlanRequest(action="redeploy", nodes=["compute11"], revision="committed"), code=201)
assert made.changes.additional_properties == {"redeploy": 1} and not made.is_blocked
assert [each.id for each in ask(plans)] == [made.id]
assert json.loads(plan.sync_detailed(made.id, client=client).content)["site"] == made.site
refused = ask(apply, made.id, body=ApplyRequest(effect="0" * 64), code=409)
assert refused.reason == "Conflict" and refused.details.error_count == 1
begun = ask(apply, made.id, body=ApplyRequest(effect=made.effect), code=202)
assert begun.plan == made.id and begun.run
for _ in range(200):
    if ask(action, begun.id).state != "running":
        break
    time.sleep(0.1)
assert ask(action, begun.id).status.reason == "Success"
assert [each.id for each in ask(actions)] == [begun.id]
newest = ask(runs, limit=1)[0]
assert (newest.id, newest.outcome, newest.requested.subject) == (begun.run, "succeeded", "loopback")
assert ask(run, begun.run).run.additional_properties["run"] == begun.run
assert ask(progress, begun.run).outcome == "succeeded"
print("all of it")
"#;

/// The tools; `None`, said loudly, if they cannot be had.
fn tools() -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn("python-openapi");
    let ended = Command::new(script)
        .args([
            "openapi",
            "openapi-python-client==0.29.1",
            "openapi-spec-validator==0.9.0",
        ])
        .output()
        .unwrap();
    if !ended.status.success() {
        skip("openapi-python-client cannot be got from PyPI");
        return None;
    }
    let folder = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    Some(Path::new(&folder).join("bin"))
}

#[test]
fn a_generated_client_makes_and_applies_a_plan() {
    let Some(tools) = tools() else { return };
    let site = deployed();
    let outside = tempfile::tempdir().unwrap();
    let config = outside.path().join("serve.yaml");
    std::fs::write(
        &config,
        "loopback: admin\nlimits: {requests_per_second: 1000}\n",
    )
    .unwrap();
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--config",
        config.to_str().unwrap(),
    ];
    let service = Service::spawn(&mut site.program(&arguments));
    let document = outside.path().join("openapi.json");
    std::fs::write(&document, service.get("/api/v1/openapi.json").body).unwrap();
    let generated = Command::new(tools.join("openapi-python-client"))
        .args(["generate", "--meta", "none", "--path"])
        .arg(&document)
        .arg("--output-path")
        .arg(outside.path().join("made"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&generated.stdout);
    assert!(generated.status.success(), "{said}");
    assert!(!said.contains("WARNING parsing"), "{said}");
    let ended = Command::new(tools.join("python"))
        .args(["-c", SCRIPT])
        .arg(outside.path())
        .arg(format!("http://{}", service.address()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "all of it\n");
}
