//! Models of controllers as data: each row of `models.json` is one quirk of a model, with its public source. Each row by itself,
//! all rows of a model together, and rows of any models together are deployed, serviced
//! if they can be, and torn down, or refused before anything is changed.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::bmc::State;
use super::quirks::Quirk;
use super::*;

/// Combinations of rows of any models that are driven by default; `TRUEUP_TEST_QUIRKS` sets another number.
const COMBINATIONS: u64 = 60;
/// Models that have to be deployed.
const MOST_MODELS: usize = 15;

/// Values for which a machine is serviced.
const DOCUMENT: &str = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  mode: enforce\n  \
    firmware: {NIC.1: {version: '22.5', image: {url: 'http://images/NIC.1_22.5.bin'}}}\n  bios: {Turbo: Enabled}\n";

/// A row of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    model: String,
    what: String,
    source: String,
    quirks: Vec<Quirk>,
    /// Words of the reason for which it is refused.
    #[serde(default)]
    refused: Option<String>,
}

/// The rows of the table.
fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("models.json")).unwrap()
}

/// A fault that any model can have.
type Fault = fn(&mut State);

const FAULTS: [(&str, Fault); 4] = [
    ("none", |_| {}),
    ("busy at times", |state| state.busy = 1),
    ("shows the file alone", |state| state.shows_file = true),
    ("an image is left", |state| {
        state.image = Some("http://images/other.iso".to_owned());
    }),
];

/// How a machine ended.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Deployed {
        /// The refusal of the service.
        unserviced: Option<String>,
    },
    /// Refused before anything was changed.
    Refused(String),
    Failed(String),
}

/// A controller with quirks, and a fault.
struct Case {
    name: String,
    quirks: Vec<Quirk>,
    fault: Fault,
}

impl Case {
    fn new(name: impl Into<String>, rows: &[Row]) -> Self {
        let quirks = rows.iter().flat_map(|row| row.quirks.iter().cloned());
        Self {
            name: name.into(),
            quirks: quirks.collect(),
            fault: |_| {},
        }
    }

    /// A virtual drive that is listed first, and was not asked to take the image.
    fn unasked(&self, bmc: &Bmc) -> Option<&str> {
        let changes = bmc.changes();
        self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::MediaBefore(name)
                if !changes
                    .iter()
                    .any(|line| line.contains(&format!("VirtualMedia/{name}"))) =>
            {
                Some(&**name)
            }
            _ => None,
        })
    }

    /// Prepares the machine, deploys it, services it, and tears it down.
    async fn is_driven(&self, settings: &str) -> Ending {
        let bmc = Bmc::start().await;
        bmc.state().behaves(&self.quirks);
        (self.fault)(&mut bmc.state());
        let mode = bmc.state().mode.clone();
        let is_one = bmc.state().others.is_empty();
        bmc.state().hardware();
        let own = if is_one { "" } else { "system: '1'" };
        let site = opened(&(text(&[bmc.port()], settings, own) + DOCUMENT));
        if let Err(error) = run(&site, StepKind::Prepare).await {
            let changes = bmc.changes();
            let is_tried =
                |line: &String| line.contains("/Sessions") || line.starts_with("PATCH ~");
            return match changes.iter().all(is_tried) && !bmc.state().is_on {
                true => Ending::Refused(error.to_string()),
                false => Ending::Failed(format!("refused after a change: {error}: {changes:?}")),
            };
        }
        if let Err(error) = run(&site, StepKind::Deploy).await {
            return Ending::Failed(format!("deploy: {error}: {:?}", bmc.changes()));
        }
        if let Some(wrong) = wrong_after_deploy(&bmc.state(), mode.as_deref()) {
            return Ending::Failed(wrong);
        }
        if let Some(drive) = self.unasked(&bmc) {
            return Ending::Failed(format!("{drive} was not asked: {:?}", bmc.changes()));
        }
        let unserviced = match after_service(&site, &bmc).await {
            Ok(unserviced) => unserviced,
            Err(wrong) => return Ending::Failed(wrong),
        };
        if let Err(error) = run(&site, StepKind::Destroy).await {
            return Ending::Failed(format!("destroy: {error}: {:?}", bmc.changes()));
        }
        if bmc.sessions() > 0 {
            return Ending::Failed("a session is left".to_owned());
        }
        let state = bmc.state();
        match (state.is_on, state.erased.len()) {
            (false, 2) => Ending::Deployed { unserviced },
            _ => Ending::Failed(format!("torn down: {state:?}")),
        }
    }
}

/// Carries a step out as a run of it alone.
async fn run(site: &Site, kind: StepKind) -> Result<(), ActError> {
    let ended = site.carried_out(kind, None, Vec::new()).await;
    site.hardware.leave().await;
    ended
}

/// The state of a controller, if it is not as it should be after a deploy.
fn wrong_after_deploy(state: &State, mode: Option<&str>) -> Option<String> {
    let (enabled, target) = &state.boot;
    let is_usual = enabled == "Disabled" || target == "Hdd";
    let is_kept = mode.is_none() || state.mode.as_deref() == mode;
    let is_right = state.is_on && is_usual && is_kept && state.image.is_none();
    (!is_right).then(|| format!("deployed: {state:?}"))
}

/// Services a machine: why it was refused before anything was changed, where it was; or what is wrong after it.
async fn after_service(site: &Site, bmc: &Bmc) -> Result<Option<String>, String> {
    let parameters = of_settings(&[("bios.Turbo", "Enabled"), ("firmware.NIC.1", "22.5")]);
    let ended = site
        .carried_out(StepKind::Service, Some(parameters), Vec::new())
        .await;
    site.hardware.leave().await;
    let mut state = bmc.state();
    let is_on = state.is_on;
    let hardware = state.hardware();
    let is_untouched = hardware.asked.is_empty() && hardware.patched.is_empty();
    let is_done = hardware.attributes["Turbo"] == "Enabled" && hardware.versions["NIC.1"] == "22.5";
    match ended {
        Ok(()) if is_done && is_on => Ok(None),
        Err(error @ (ActError::Permanent(_) | ActError::Refused(_))) if is_untouched && is_on => {
            Ok(Some(error.to_string()))
        }
        ended => Err(format!(
            "service: {ended:?}: on {is_on}, done {is_done}: {:?}",
            bmc.server.lines()
        )),
    }
}

/// Drives all cases: how each ended.
async fn driven(cases: Vec<Case>) -> Vec<(String, Ending)> {
    let system = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = system.local_addr().unwrap().port();
    let settings =
        format!("image: 'http://images/{{node}}.iso', deploy: {{port: {port}, boot_time: 2}}");
    let settings = &*settings;
    let all = cases
        .into_iter()
        .map(|case| async move { (case.name.clone(), case.is_driven(settings).await) });
    let all: Vec<_> = all.collect();
    stream::iter(all).buffer_unordered(24).collect().await
}

/// Asserts that each case was deployed and serviced, or refused for its reason.
fn are_as_told(ended: &[(String, Ending)], refused: &BTreeMap<String, String>) {
    let is_wrong = |(name, ending): &&(String, Ending)| match (ending, refused.get(name)) {
        (Ending::Deployed { unserviced: None }, None) => false,
        (Ending::Refused(why), Some(expected)) => !why.contains(expected),
        _ => true,
    };
    let wrong: Vec<_> = ended.iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn each_quirk_of_the_table_is_deployed_and_torn_down_or_refused_for_its_reason() {
    let rows = rows();
    let (mut cases, mut refused) = (Vec::new(), BTreeMap::new());
    for row in &rows {
        assert!(row.source.starts_with("https://"), "{row:?}");
        let name = format!("{}: {}", row.model, row.what);
        if let Some(why) = &row.refused {
            refused.insert(name.clone(), why.clone());
        }
        cases.push(Case::new(name, std::slice::from_ref(row)));
    }
    are_as_told(&driven(cases).await, &refused);
}

/// Each quirk that is written stands in a row: what no row has is driven by nothing.
#[test]
fn each_quirk_is_one_of_a_model() {
    // The refusal of a name that is none lists all.
    let error = serde_json::from_str::<Quirk>("\"\"")
        .unwrap_err()
        .to_string();
    let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(names.contains(&"media-before"), "{error}");
    let table = include_str!("models.json");
    let is_missing = |name: &&&str| !table.contains(&format!("\"{name}\""));
    let missing: Vec<_> = names.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn each_model_with_all_its_quirks_and_each_fault_is_deployed_and_torn_down() {
    let mut models: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut refused = BTreeMap::new();
    for row in rows() {
        models.entry(row.model.clone()).or_default().push(row);
    }
    let is_refused = |rows: &[Row]| rows.iter().any(|row| row.refused.is_some());
    let deployed = models.values().filter(|rows| !is_refused(rows)).count();
    assert!(deployed >= MOST_MODELS, "{deployed}");
    let mut cases = Vec::new();
    for (model, rows) in &models {
        for (name, fault) in FAULTS {
            let name = format!("{model}, {name}");
            if let Some(why) = rows.iter().find_map(|row| row.refused.clone()) {
                refused.insert(name.clone(), why);
            }
            let case = Case::new(name, rows);
            cases.push(Case { fault, ..case });
        }
    }
    are_as_told(&driven(cases).await, &refused);
}

/// Numbers by a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }
}

#[tokio::test(start_paused = true)]
async fn quirks_of_several_models_together_are_deployed_or_refused_before_anything_is_changed() {
    let rows = rows();
    let count = std::env::var("TRUEUP_TEST_QUIRKS")
        .ok()
        .and_then(|text| text.parse().ok());
    let cases = (0..count.unwrap_or(COMBINATIONS)).map(|seed| {
        let mut dice = Dice(seed);
        let count = 2 + dice.below(4);
        let chosen: Vec<Row> = (0..count)
            .map(|_| rows[dice.below(rows.len())].clone())
            .collect();
        let told: Vec<&str> = chosen.iter().map(|row| &*row.what).collect();
        Case::new(format!("{seed}: {}", told.join("; ")), &chosen)
    });
    let ended = driven(cases.collect()).await;
    let failed: Vec<_> = ended
        .iter()
        .filter(|(_, ending)| matches!(ending, Ending::Failed(_)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let deployed = ended
        .iter()
        .filter(|(_, ending)| matches!(ending, Ending::Deployed { .. }))
        .count();
    assert!(
        deployed * 2 > ended.len(),
        "{deployed} of {}: {ended:#?}",
        ended.len()
    );
}

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn an_override_that_never_shows_as_used_is_taken_back_when_the_time_to_boot_is_over() {
    let bmc = Bmc::start().await;
    bmc.state().is_sticky = true;
    let site = site(&[bmc.port()], "deploy: {boot_time: 1}", "");
    assert_eq!(site.act(StepKind::Deploy).await, Ok(()));
    assert_eq!(bmc.state().boot.0, "Disabled");
}
