//! Approvals of what is applied over HTTP: the caller applies, and so do who asked for the plan and the service itself.

use serde_json::{Value, json};

use super::{REDEPLOY, Team};
use crate::fixture::Ended;
use crate::serve::{Answer, Key, Service, claims, publish, start};

/// The service of a team, and the key of the issuer of its callers' tokens.
struct Http<'t> {
    team: &'t Team,
    service: Service,
    key: Key,
}

impl<'t> Http<'t> {
    fn new(team: &'t Team) -> Self {
        let key = Key::new("one");
        let (jwks, _) = publish(&json!({"keys": [key.published()]}));
        let service = start(&team.site, &jwks);
        Self { team, service, key }
    }

    fn post(&self, caller: &Value, path: &str, body: &Value) -> Answer {
        let mut changed = json!({"groups": ["boss"]});
        let own = changed.as_object_mut().unwrap();
        own.extend(caller.as_object().unwrap().clone());
        let bearer = format!("Bearer {}", self.key.token(&claims(&changed)));
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.service.request("POST", path, &headers, &body)
    }

    fn plan(&self, caller: &Value) -> Value {
        let order = json!({"action": REDEPLOY[0], "nodes": [REDEPLOY[1]]});
        let answer = self.post(caller, "/api/v1/plans", &order);
        assert_eq!(answer.code, 201, "{answer:?}");
        answer.json()
    }

    fn apply(&self, caller: &Value, plan: &Value) -> Answer {
        let path = format!("{}/apply", plan["url"].as_str().unwrap());
        self.post(caller, &path, &json!({"effect": plan["effect"]}))
    }

    /// Signs what the team plans with the command line.
    fn signs(&self, who: &str) -> Ended {
        let plan = self.team.plan(&REDEPLOY);
        self.team.approve(&plan, who, &[]).with(0)
    }
}

fn person(name: &str) -> Value {
    json!({"sub": format!("{name}@example.org")})
}

/// The answer is the refusal of an approval by one who applies.
#[track_caller]
fn refused(answer: &Answer, name: &str) {
    assert_eq!(answer.code, 409, "{answer:?}");
    let why = format!("{name}@example.org does not count: it is of the person who applies");
    assert!(answer.body.contains(&why), "{answer:?}");
}

#[test]
fn neither_the_caller_nor_who_asked_for_the_plan_nor_the_service_approves() {
    let team = Team::new();
    let http = Http::new(&team);
    let plan = http.plan(&person("carol"));
    // The service runs as Ada: her signature is that of the service.
    http.signs("ada");
    refused(&http.apply(&person("bob"), &plan), "ada");
    // Bob's is his own as long as another person calls.
    http.signs("bob");
    for bob in [
        person("bob"),
        person("BOB"),
        json!({"sub": "auth0|17", "email": "bob@example.org"}),
    ] {
        refused(&http.apply(&bob, &plan), "bob");
    }
    // Carol asked for the plan, whoever applies it.
    let of_bob = http.plan(&json!({"sub": "auth0|17", "email": "bob@example.org"}));
    refused(&http.apply(&person("dora"), &of_bob), "bob");
    assert_eq!(team.site.effects("deployed"), 3);
    // Dora applies what Carol asked for and Bob approved.
    let answer = http.apply(&person("dora"), &plan);
    assert_eq!(answer.code, 202, "{answer:?}");
    crate::fixture::wait_until("the machine is deployed", || {
        team.site.effects("deployed") == 4
    });
}

#[test]
fn the_callers_of_actions_on_nodes_do_not_approve_them() {
    let team = Team::new();
    team.demands_an_approval_of_all();
    let http = Http::new(&team);
    let words = ["drain", REDEPLOY[1]];
    let plan = team.plan(&words);
    team.approve(&plan, "bob", &[]).with(0);
    let on_node = format!("/api/v1.0/nodes/{}/drain", REDEPLOY[1]);
    let refusal = http.post(&person("bob"), &on_node, &Value::Null);
    assert!(
        refusal.code >= 400 && refusal.body.contains("it is of the person who applies"),
        "{refusal:?}"
    );
    let plan = team.plan(&["redeploy", REDEPLOY[1]]);
    team.approve(&plan, "bob", &[]).with(0);
    let order = json!({"name": "redeploy_server", "parameters": {"target_nodes": [REDEPLOY[1]]}});
    let begun = http.post(&person("bob"), "/api/v1.0/actions", &order);
    assert_eq!(begun.code, 201, "{begun:?}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(team.site.effects("deployed"), 3, "{}", http.service.log());
    let begun = http.post(&person("dora"), "/api/v1.0/actions", &order);
    assert_eq!(begun.code, 201, "{begun:?}");
    crate::fixture::wait_until("the machine is deployed", || {
        team.site.effects("deployed") == 4
    });
}
