//! Models of controllers as data (`models.json`, each row with its public source), and faults that each of them can have:
//! every combination is deployed and torn down.

use serde::Deserialize;

use super::bmc::{Between, Opening, State, Versions};
use super::*;

/// A row of the table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Model {
    model: String,
    source: String,
    refuses: Vec<String>,
    demands: Vec<String>,
    mode: Option<String>,
    forgets_mode: bool,
    versions: Option<String>,
    /// With which status sessions are refused; 0: opened, and not told where.
    opening: Option<u16>,
    between: Option<String>,
}

/// A fault that any model can have.
type Fault = fn(&mut State);

const FAULTS: [(&str, Fault); 4] = [
    ("none", |_| {}),
    ("busy at times", |state| state.busy = 2),
    ("shows the file alone", |state| state.shows_file = true),
    ("an image is left", |state| {
        state.image = Some("http://images/other.iso".to_owned());
    }),
];

fn leaked(texts: &[String]) -> Vec<&'static str> {
    let own = |text: &String| -> &'static str { text.clone().leak() };
    texts.iter().map(own).collect()
}

impl Model {
    fn is_put_into(&self, state: &mut State) {
        state.refuses = leaked(&self.refuses);
        state.demands = leaked(&self.demands);
        state.mode.clone_from(&self.mode);
        state.forgets_mode = self.forgets_mode;
        if let Some(versions) = &self.versions {
            state.versions = match &**versions {
                "strong" => Versions::Strong,
                "weak" => Versions::Weak,
                "any" => Versions::Any,
                other => panic!("{other}"),
            };
        }
        state.opening = match self.opening {
            None => Opening::Full,
            Some(0) => Opening::WithoutLocation,
            Some(status) => Opening::Refused(status),
        };
        state.between = self.between.as_deref().map(|between| match between {
            "word" => Between::Word,
            "page" => Between::Page,
            other => panic!("{other}"),
        });
    }

    /// Deploys it and tears it down.
    async fn is_driven(&self, fault: (&str, Fault), more: &str) {
        let case = format!("{}, {}", self.model, fault.0);
        let bmc = Bmc::start().await;
        self.is_put_into(&mut bmc.state());
        fault.1(&mut bmc.state());
        let site = site(&[bmc.port()], more, "");
        for kind in [StepKind::Prepare, StepKind::Deploy] {
            assert_eq!(site.act(kind).await, Ok(()), "{case}: {kind:?}");
        }
        {
            let state = bmc.state();
            let (enabled, target) = &state.boot;
            assert!(
                state.is_on && (enabled == "Disabled" || target == "Hdd"),
                "{case}: {state:?}"
            );
            assert_eq!(state.image, None, "{case}");
            let mode = state.mode.as_deref();
            assert!(
                self.mode.is_none() || mode == self.mode.as_deref(),
                "{case}: {mode:?}"
            );
        }
        assert_eq!(site.act(StepKind::Destroy).await, Ok(()), "{case}");
        let state = bmc.state();
        assert_eq!((state.is_on, state.erased.len()), (false, 2), "{case}");
        drop(state);
        assert_eq!(bmc.sessions(), 0, "{case}");
    }
}

#[tokio::test]
async fn each_model_with_each_fault_is_deployed_and_torn_down() {
    let models: Vec<Model> = serde_json::from_str(include_str!("models.json")).unwrap();
    let system = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = system.local_addr().unwrap().port();
    let more = format!("image: 'http://images/{{node}}.iso', deploy: {{port: {port}}}");
    assert!(models.len() >= 10);
    let cases = models.iter().flat_map(|model| {
        assert!(model.source.starts_with("https://"), "{model:?}");
        FAULTS.map(|fault| model.is_driven(fault, &more))
    });
    let cases: Vec<_> = cases.collect();
    stream::iter(cases)
        .buffer_unordered(16)
        .for_each(|()| async {})
        .await;
}

#[tokio::test]
async fn the_boot_mode_of_the_hardware_profile_is_set_before_a_deploy_and_a_setting_goes_before_it()
{
    for (own, expected) in [("", "UEFI"), ("deploy: {mode: legacy}", "Legacy")] {
        let bmc = Bmc::start().await;
        bmc.state().mode = Some("Legacy".to_owned());
        let text = text(&[bmc.port()], own, "");
        let text = text.replace("vendor: Example", "boot_mode: uefi, vendor: Example");
        let site = opened(&text);
        assert_eq!(site.act(StepKind::Deploy).await, Ok(()));
        assert_eq!(bmc.state().mode.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn an_override_that_never_shows_as_used_is_taken_back_when_the_time_to_boot_is_over() {
    let bmc = Bmc::start().await;
    bmc.state().is_sticky = true;
    let site = site(&[bmc.port()], "deploy: {boot_time: 1}", "");
    assert_eq!(site.act(StepKind::Deploy).await, Ok(()));
    assert_eq!(bmc.state().boot.0, "Disabled");
}
