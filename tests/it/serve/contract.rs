//! Each row of the specification's tables: codes, reasons, parameters and defaults.

use serde_json::json;

use super::{Service, deployed, on};

/// Checks how long the steps of a kind took together, but for what the clock lost between them.
#[track_caller]
fn took(service: &Service, kind: &str, seconds: f64) {
    let metrics = service.get("/metrics").body;
    let name = format!("trueup_step_duration_seconds_sum{{kind=\"{kind}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    let value: f64 = value
        .unwrap_or_else(|| panic!("{metrics}"))
        .parse()
        .unwrap();
    assert!((value - seconds).abs() < 5.0, "{value}");
}

#[track_caller]
fn ends(service: &Service, path: &str, code: u16, reason: &str) {
    let answer = service.post(path);
    assert_eq!(
        answer.reason(),
        (code, reason.to_owned()),
        "{path}: {answer:?}"
    );
}

#[test]
fn every_operation_succeeds_and_is_not_found_for_a_node_that_is_none() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    for operation in [
        "drain",
        "clear-labels",
        "remove-etcd",
        "shutdown-kubelet",
        "remove-from-cluster",
    ] {
        ends(&service, &on("control01", operation), 200, "Success");
    }
    ends(
        &service,
        &on("control02", "remove-etcd"),
        500,
        "RemoveEtcdError",
    );
    ends(
        &service,
        &on("control02", "decommission"),
        500,
        "DisassociateStepFailure",
    );
    ends(&service, &on("compute11", "decommission"), 200, "Success");
    for operation in [
        "decommission",
        "drain",
        "clear-labels",
        "remove-etcd",
        "shutdown-kubelet",
        "remove-from-cluster",
    ] {
        for node in [
            "nothing", "rack01", "compute", "compute*", "..%2f..", "a%00b",
        ] {
            ends(&service, &on(node, operation), 404, "NotFound");
        }
    }
    // Again, where everything is done: it stays so.
    ends(&service, &on("compute12", "drain"), 200, "Success");
    ends(&service, &on("compute12", "drain"), 200, "Success");
    fixture.run(&["log"]).with(0);
    assert_eq!(fixture.effects("destroyed"), 0);
}

#[test]
fn a_node_that_is_not_drained_or_has_labels_is_in_conflict() {
    let fixture = deployed("pods: [{name: web, ends_after: 5}]");
    let service = Service::start(&fixture, &[]);
    let path = on("compute11", "remove-from-cluster");
    ends(&service, &path, 409, "Conflict");
    ends(&service, &on("compute11", "drain"), 200, "Success");
    ends(&service, &path, 409, "Conflict");
    ends(&service, &on("compute11", "clear-labels"), 200, "Success");
    ends(&service, &path, 200, "Success");
    ends(&service, &path, 404, "NotFound");
}

#[test]
fn steps_that_fail_have_the_reasons_of_their_operations() {
    let faults = [
        "drain",
        "clear-labels",
        "remove-etcd",
        "shutdown-kubelet",
        "remove-from-cluster",
    ]
    .map(|step| {
        format!("{{nodes: [control01, compute11], step: {step}, outcome: fail, message: broken}}")
    });
    let fixture = deployed(&format!("faults: [{}]", faults.join(", ")));
    let service = Service::start(&fixture, &[]);
    for (operation, reason) in [
        ("drain", "DrainNodeError"),
        ("clear-labels", "ClearLabelsError"),
        ("remove-etcd", "RemoveEtcdError"),
        ("shutdown-kubelet", "ShutdownKubeletError"),
        ("decommission", "DisassociateStepFailure"),
    ] {
        let answer = service.post(&on("control01", operation));
        assert_eq!(answer.reason(), (500, reason.to_owned()), "{answer:?}");
        assert!(answer.body.contains("broken"), "{answer:?}");
    }
    let service = |faults: &str| {
        let fixture = deployed(faults);
        let service = Service::start(&fixture, &[]);
        (fixture, service)
    };
    let only =
        "faults: [{nodes: [compute11], step: remove-from-cluster, outcome: fail, message: broken}]";
    let (_fixture, deleting) = service(only);
    ends(&deleting, &on("compute11", "drain"), 200, "Success");
    ends(&deleting, &on("compute11", "clear-labels"), 200, "Success");
    ends(
        &deleting,
        &on("compute11", "remove-from-cluster"),
        500,
        "DeleteNodeError",
    );
}

#[test]
fn a_kubelet_that_does_not_stop_holds_no_decommission_up() {
    let faults =
        "faults: [{nodes: [compute11], step: shutdown-kubelet, outcome: fail, message: broken}]";
    let fixture = deployed(faults);
    let service = Service::start(&fixture, &[]);
    let answer = service.post(&on("compute11", "decommission"));
    assert_eq!(answer.reason(), (500, "DisassociateStepFailure".to_owned()));
    for step in ["drain", "clear-labels"] {
        assert!(
            answer.body.contains(&format!("{step}/compute11 succeeded")),
            "{answer:?}"
        );
    }
    // The node can be removed all the same.
    ends(
        &service,
        &on("compute11", "remove-from-cluster"),
        200,
        "Success",
    );
}

#[test]
fn a_drain_has_the_defaults_of_the_specification_and_takes_its_parameters() {
    let pods = "pods: [{name: slow, nodes: [compute11, compute12], ends_after: 7200}, \
                {name: web, nodes: [compute13], count: 2, ends_after: 1}], \
                budgets: [{name: all, pods: [web], min_available: 2}]";
    let fixture = deployed(pods);
    let service = Service::start(&fixture, &[]);
    // Its pods are killed when their grace period is over.
    ends(&service, &on("compute11", "drain"), 200, "Success");
    took(&service, "drain", 1800.0);
    let path = on("compute12", "drain");
    ends(
        &service,
        &format!("{path}?grace-period=60&timeout=90"),
        200,
        "Success",
    );
    took(&service, "drain", 1860.0);
    fixture
        .run(&["apply", "--yes", "uncordon", "compute11", "compute12"])
        .with(0);
    // A budget that allows nothing holds it up until its timeout.
    let path = on("compute13", "drain");
    ends(&service, &path, 500, "DrainNodeError");
    took(&service, "drain", 5460.0);
    ends(
        &service,
        &format!("{path}?timeout=100&grace-period=99"),
        500,
        "DrainNodeError",
    );
    took(&service, "drain", 5560.0);
    for query in [
        "timeout=60&grace-period=60",
        "timeout=60&grace-period=61",
        // The defaults count in the comparison.
        "timeout=1800",
        "grace-period=3600",
        "timeout=",
        "timeout=-1",
        "timeout=1h",
        "timeout=1.5",
        "timeout=60&timeout=60",
        "drain-node-timeout=60",
        "timeout=99999999999",
    ] {
        ends(&service, &format!("{path}?{query}"), 400, "BadRequest");
    }
    took(&service, "drain", 5560.0);
}

#[test]
fn the_other_steps_have_the_defaults_of_the_specification_and_take_their_parameters() {
    let faults = ["clear-labels", "remove-etcd"]
        .map(|step| format!("{{nodes: [control01], step: {step}, outcome: hang}}"));
    let fixture = deployed(&format!("faults: [{}]", faults.join(", ")));
    let service = Service::start(&fixture, &[]);
    for (operation, reason) in [
        ("clear-labels", "ClearLabelsError"),
        ("remove-etcd", "RemoveEtcdError"),
    ] {
        let path = on("control01", operation);
        ends(&service, &path, 500, reason);
        took(&service, operation, 1800.0);
        ends(&service, &format!("{path}?timeout=120"), 500, reason);
        took(&service, operation, 1920.0);
        ends(
            &service,
            &format!("{path}?grace-period=1"),
            400,
            "BadRequest",
        );
    }
    for operation in ["shutdown-kubelet", "remove-from-cluster"] {
        let path = on("control01", operation);
        ends(&service, &format!("{path}?timeout=1"), 400, "BadRequest");
    }
}

#[test]
fn a_decommission_hands_its_timeouts_to_its_steps() {
    let pods = "pods: [{name: slow, nodes: [compute11, compute12], ends_after: 7200}]";
    let fixture = deployed(pods);
    let service = Service::start(&fixture, &[]);
    let path = on("compute11", "decommission");
    // A step's own refusal is a failure of the whole.
    let wrong = format!("{path}?drain-node-timeout=5&drain-node-grace-period=9");
    ends(&service, &wrong, 500, "DisassociateStepFailure");
    ends(
        &service,
        &format!("{path}?drain-node-timeout=x"),
        400,
        "BadRequest",
    );
    let query = "drain-node-timeout=100&drain-node-grace-period=50&clear-labels-timeout=60\
                 &remove-etcd-timeout=60&etcd-ready-timeout=60";
    ends(&service, &format!("{path}?{query}"), 200, "Success");
    took(&service, "drain", 50.0);
    ends(&service, &on("compute12", "decommission"), 200, "Success");
    took(&service, "drain", 1850.0);
}

#[test]
fn a_design_reference_is_a_revision_of_this_repository() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let post = |operation: &str, body: &str| {
        let headers = [("Content-Type", "application/json")];
        let path = on("compute11", operation);
        service.request("POST", &path, &headers, body).reason()
    };
    let body = |href: &str| {
        json!({"rel": "design", "href": href, "type": "application/x-yaml"}).to_string()
    };
    let success = (200, "Success".to_owned());
    let wrong = (400, "BadRequest".to_owned());
    assert_eq!(post("remove-etcd", &body("git:HEAD")), success);
    assert_eq!(post("remove-etcd", &body("committed")), success);
    assert_eq!(
        post("remove-etcd", &body("successful-site-action")),
        success
    );
    for href in [
        "git:nothing",
        "git:HEAD:backends.yaml",
        "worktree",
        "file:///etc/passwd",
        "deckhand+http://127.0.0.1:1/revisions/1/rendered-documents",
        // Another commit, whose Backends and Policy are not those that the operator lets count.
        "git:HEAD~1",
    ] {
        assert_eq!(post("remove-etcd", &body(href)), wrong, "{href}");
    }
    assert_eq!(
        post("decommission", &body("git:nothing")),
        (500, "DisassociateStepFailure".to_owned())
    );
    assert_eq!(post("remove-etcd", "{}"), wrong);
    assert_eq!(post("drain", &body("committed")), wrong);
    let path = on("compute11", "remove-etcd");
    let answer = service.request(
        "POST",
        &path,
        &[("Content-Type", "application/x-yaml")],
        "a: 1",
    );
    assert_eq!(answer.reason(), (415, "UnsupportedMediaType".to_owned()));
}

#[test]
fn the_health_of_etcd_is_told_a_cluster_each() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let path = "/api/v1.0/etcd-cluster-health-statuses";
    let missing = (400, "MissingDesignRef".to_owned());
    assert_eq!(service.get(path).reason(), missing);
    assert_eq!(
        service.get(&format!("{path}?design_ref=")).reason(),
        missing
    );
    let message = || {
        let answer = service.get(&format!("{path}?design_ref=git%3AHEAD"));
        assert_eq!(answer.reason(), (200, "Success".to_owned()));
        answer.json()["details"]["messageList"].clone()
    };
    let health = |text: &str, error: bool| json!([{"message": text, "error": error, "kind": "HealthMessage", "name": "kubernetes"}]);
    assert_eq!(message(), health("Healthy", false));
    fixture
        .run(&["apply", "--yes", "power", "off", "control01"])
        .with(0);
    let all = "- name: kubernetes\n    thresholds: {minimum_healthy: 3}\n";
    fixture.edit("etcd.yaml", "- name: kubernetes\n", all);
    fixture.checkout.commit("All members are needed");
    assert_eq!(message(), health("Unhealthy", false));
    let wrong = service.get(&format!("{path}?design_ref=git%3Anothing"));
    assert_eq!(wrong.reason(), (400, "BadRequest".to_owned()));
    let without = crate::fixture::Fixture::one_rack();
    let service = Service::start(&without, &[]);
    let answer = service.get(&format!("{path}?design_ref=committed"));
    assert_eq!(answer.reason(), (404, "NotFound".to_owned()));
}

#[test]
fn whatever_is_not_there_is_a_status_object_too() {
    let fixture = deployed("");
    let service = Service::start(&fixture, &[]);
    let reason = |method: &str, path: &str| service.request(method, path, &[], "").reason();
    for path in [
        "/runs",
        "/nothing",
        "/api/v1.0/nodes/compute11",
        "/api/v1/actions/x",
        "/etc/passwd",
        "/../../etc/passwd",
    ] {
        assert_eq!(reason("GET", path), (404, "NotFound".to_owned()), "{path}");
    }
    assert_eq!(
        reason("POST", &on("compute11", "explode")),
        (404, "NotFound".to_owned())
    );
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let found = reason(method, &on("compute11", "drain"));
        assert_eq!(found, (405, "MethodNotAllowed".to_owned()), "{method}");
    }
    assert_eq!(service.get("/api/v1.0/health").code, 204);
    assert_eq!(service.get("/versions").json()["v1.0"]["path"], "/api/v1.0");
    assert_eq!(
        (service.get("/healthz").code, service.get("/readyz").code),
        (200, 200)
    );
}
