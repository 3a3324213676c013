//! RAID volumes that a deploy makes: never a success that the storage does not show, and no system on other ones.

use std::collections::BTreeSet;

use super::bmc::{link, refusal};
use super::*;
use crate::backend::http::tests::server::Received;
use crate::design::{HOT_SPARES, VOLUMES};
use crate::observed::PartDrift;

/// How a storage deals with a volume that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Makes {
    #[default]
    Well,
    /// As a task that ends well; or is gone at once.
    Task,
    Vanishes,
    /// At the next restart only; as it lists.
    OnReset,
    /// A task reports success, or failure, and nothing changes.
    Nothing,
    Fails,
    /// It makes another level.
    Other,
    /// It leaves out the drives that are to stand by.
    NoSpares,
    /// It refuses the request.
    Refuses,
}

/// The volumes of the storage.
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub(super) volumes: Vec<(usize, Value)>,
    pub(super) makes: Makes,
    /// The drives that stand by; `None`: drives do not show that.
    pub(super) spares: Option<BTreeSet<String>>,
    pending: Vec<Pending>,
    /// The requests for volumes.
    pub(super) asked: Vec<Value>,
    next: usize,
}

#[derive(Debug)]
enum Pending {
    Made(Value),
    Deleted(usize),
}

const COLLECTION: &str = "/redfish/v1/Systems/1/Storage/R0/Volumes";

impl Storage {
    /// One that has a volume of this level.
    fn has(&mut self, level: &str) {
        let volume = json!({"RAIDType": level, "CapacityBytes": 480_103_981_056_u64,
            "Links": {"Drives": [link("/d/D1"), link("/d/D2")]}});
        self.make(volume);
    }

    /// Has a drive show whether it stands by, if drives do.
    pub(super) fn show_spare(&self, drive: &mut Value, id: &str) {
        if let Some(spares) = &self.spares {
            let kind = match spares.contains(id) {
                true => "Dedicated",
                false => "None",
            };
            drive["HotspareType"] = json!(kind);
        }
    }

    fn make(&mut self, volume: Value) {
        self.next += 1;
        self.volumes.push((self.next, volume));
    }

    fn takes(&mut self, pending: Pending) {
        match pending {
            Pending::Made(mut volume) => {
                if self.makes == Makes::Other {
                    volume["RAIDType"] = json!("RAID0");
                }
                if self.makes != Makes::NoSpares
                    && let Some(spares) = &mut self.spares
                {
                    let links = volume["Links"]["DedicatedSpareDrives"].as_array();
                    let paths = links.into_iter().flatten();
                    let paths = paths.filter_map(|link| link["@odata.id"].as_str());
                    spares
                        .extend(paths.filter_map(|path| Some(path.rsplit_once('/')?.1.to_owned())));
                }
                self.make(volume);
            }
            Pending::Deleted(id) => self.volumes.retain(|(known, _)| *known != id),
        }
    }

    /// The machine was restarted.
    pub(super) fn is_restarted(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            self.takes(pending);
        }
    }

    fn change(&mut self, pending: Pending) -> Reply {
        let task = || {
            let location = "/redfish/v1/TaskService/Tasks/raid".to_owned();
            Reply::Json(202, vec![("location", location)], Value::Null)
        };
        let is_made = matches!(pending, Pending::Made(_));
        match self.makes {
            Makes::Refuses if is_made => refusal(400, "The storage takes no such volume."),
            Makes::Nothing | Makes::Fails if is_made => task(),
            Makes::OnReset => {
                self.pending.push(pending);
                task()
            }
            Makes::Task | Makes::Vanishes => {
                self.takes(pending);
                task()
            }
            _ => {
                self.takes(pending);
                Reply::json(200, json!({}))
            }
        }
    }

    /// Answers what is about it; `None`: something else.
    pub(super) fn answer(&mut self, received: &Received, parts: &[&str]) -> Option<Reply> {
        let number = |id: &str| id.parse::<usize>().ok();
        Some(match (received.method.as_str(), parts) {
            ("GET", ["Systems", "1", "Storage", "R0", "Volumes"]) => {
                let members = self.volumes.iter();
                let members = members.map(|(id, _)| link(format!("{COLLECTION}/{id}")));
                let members: Vec<Value> = members.collect();
                let mut collection = json!({"@odata.id": COLLECTION, "Members": members});
                if self.makes == Makes::OnReset {
                    collection["@Redfish.OperationApplyTimeSupport"] =
                        json!({"SupportedValues": ["OnReset"]});
                }
                Reply::json(200, collection)
            }
            ("GET", ["Systems", "1", "Storage", "R0", "Volumes", id]) => {
                let found = self
                    .volumes
                    .iter()
                    .find(|(known, _)| number(id) == Some(*known));
                match found {
                    Some((id, volume)) => {
                        let mut volume = volume.clone();
                        volume["@odata.id"] = json!(format!("{COLLECTION}/{id}"));
                        volume["Id"] = json!(id.to_string());
                        Reply::json(200, volume)
                    }
                    None => refusal(404, "There is no such volume."),
                }
            }
            ("DELETE", ["Systems", "1", "Storage", "R0", "Volumes", id]) => {
                self.change(Pending::Deleted(number(id)?))
            }
            ("POST", ["Systems", "1", "Storage", "R0", "Volumes"]) => {
                self.asked.push(received.body.clone());
                self.change(Pending::Made(received.body.clone()))
            }
            ("GET", ["TaskService", "Tasks", "raid"]) => match self.makes {
                Makes::Vanishes => refusal(404, "There is no such task."),
                Makes::Fails => Reply::json(
                    200,
                    json!({"TaskState": "Exception", "Messages": [{"Message": "bad drive"}]}),
                ),
                Makes::OnReset => Reply::json(200, json!({"TaskState": "Pending"})),
                _ => Reply::json(200, json!({"TaskState": "Completed", "TaskStatus": "OK"})),
            },
            _ => return None,
        })
    }
}

const DESIGNED: &str = "RAID1 of 2 drives, 447 GiB";

fn document(mode: &str, raid: &str) -> String {
    let raid = match raid.contains("volumes:") {
        true => raid.to_owned(),
        false => format!("volumes: [{raid}]"),
    };
    format!(
        "---\nschema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata:\n  mode: {mode}\n  raid: {{{raid}}}\n"
    )
}

const VOLUME: &str = "{name: root, level: RAID1, drives: 2, size_gib: 447}";

async fn machine(volume: &str, change: impl FnOnce(&mut Storage)) -> (Bmc, Site) {
    let bmc = Bmc::start().await;
    bmc.state().drives.push(("D3", Erase::Yes));
    {
        let mut state = bmc.state();
        state.is_on = true;
        state.delay = Duration::from_millis(20);
        change(&mut state.hardware().storage);
    }
    let text = text(&[bmc.port()], "", "").replace(
        "settling_time: 0.3, request_timeout: 1, shutdown_time: 2",
        "settling_time: 0.05, request_timeout: 1, shutdown_time: 1, deploy: {boot_time: 0.5}",
    );
    let site = opened(&(text + &document("enforce", volume)));
    (bmc, site)
}

/// The changes that were asked for, without sessions.
fn asked(bmc: &Bmc) -> Vec<String> {
    let changes = bmc.changes().into_iter();
    changes.filter(|line| !line.contains("Session")).collect()
}

async fn deploy(site: &Site) -> Result<(), ActError> {
    let parameters = of_settings(&[(VOLUMES, DESIGNED)]);
    site.carried_out(StepKind::Deploy, Some(parameters), Vec::new())
        .await
}

#[tokio::test(start_paused = true)]
async fn volumes_that_are_shown_are_compared_where_documents_name_them() {
    let (bmc, site) = machine(VOLUME, |storage| storage.has("RAID0")).await;
    let seen = &site.see().await[0];
    let drift: Vec<String> = seen.drift.iter().map(PartDrift::to_string).collect();
    assert_eq!(
        drift,
        ["raid.volumes: RAID0 of D1 + D2, 447 GiB, on R0, designed RAID1 of 2 drives, 447 GiB"]
    );
    assert!(seen.capabilities.contains(Capability::Raid));
    assert!(seen.fixed.is_empty(), "{:?}", seen.fixed);
    bmc.state().hardware().storage.volumes[0].1["RAIDType"] = json!("RAID1");
    let seen = &site.see().await[0];
    assert!(seen.drift.is_empty());
    assert_eq!(*seen.compared, [crate::design::Section::Raid]);
    assert!(asked(&bmc).is_empty());

    // Without a document that names volumes they are not read.
    let before = bmc.server.received.lock().unwrap().len();
    self::site(&[bmc.port()], "", "").see().await;
    let received = bmc.server.received.lock().unwrap();
    let mut of_plain = received[before..].iter();
    assert!(!of_plain.any(|each| each.path.contains("Volumes")));
}

#[tokio::test(start_paused = true)]
async fn a_deploy_makes_volumes_before_it_writes_the_system_whatever_their_task_tells() {
    for makes in [Makes::Well, Makes::Task, Makes::Vanishes, Makes::OnReset] {
        let (bmc, site) = machine(VOLUME, |storage| {
            storage.has("RAID0");
            storage.makes = makes;
        })
        .await;
        deploy(&site).await.unwrap();
        let asked = asked(&bmc);
        let at = |what: &str| asked.iter().position(|line| line.contains(what));
        let (deleted, made, boots) = (at("DELETE"), at("POST ~/Storage/R0/Volumes"), at("PATCH ~"));
        assert!(deleted < made && made < boots, "{makes:?}: {asked:?}");
        assert!(deleted.is_some(), "{makes:?}: {asked:?}");
        let mut state = bmc.state();
        let storage = &state.hardware().storage;
        assert_eq!(storage.asked.len(), 1);
        let mut body = storage.asked[0].clone();
        assert_eq!(
            body["@Redfish.OperationApplyTime"] == "OnReset",
            makes == Makes::OnReset
        );
        body.as_object_mut()
            .unwrap()
            .remove("@Redfish.OperationApplyTime");
        let drives = ["D1", "D2"].map(|id| link(format!("{SYSTEM}/Storage/R0/Drives/{id}")));
        let expected = json!({"Name": "root", "RAIDType": "RAID1", "CapacityBytes": 447_u64 << 30,
            "Links": {"Drives": drives}});
        assert_eq!(body, expected);
        assert_eq!(storage.volumes.len(), 1);
    }

    // What it has already is not made again.
    let (bmc, site) = machine(VOLUME, |storage| storage.has("RAID1")).await;
    deploy(&site).await.unwrap();
    assert!(!asked(&bmc).iter().any(|line| line.contains("Volumes")));
}

/// A volume, and a drive that stands by for it.
const SPARE: &str =
    "volumes: [{name: root, level: RAID1, drives: 2, size_gib: 447}], hot_spares: 1";

#[tokio::test(start_paused = true)]
async fn a_hot_spare_is_made_with_the_first_volume_and_read_again() {
    let settings = [(HOT_SPARES, "1"), (VOLUMES, DESIGNED)];
    let deploy = async |site: &Site| {
        site.carried_out(StepKind::Deploy, Some(of_settings(&settings)), Vec::new())
            .await
    };
    let shows = |storage: &mut Storage| storage.spares = Some(BTreeSet::new());
    let (bmc, site) = machine(SPARE, shows).await;
    deploy(&site).await.unwrap();
    {
        let mut state = bmc.state();
        let storage = &state.hardware().storage;
        assert_eq!(
            storage.asked[0]["Links"]["DedicatedSpareDrives"],
            json!([link(format!("{SYSTEM}/Storage/R0/Drives/D3"))])
        );
    }
    assert!(site.see().await[0].drift.is_empty());
    // What it has already is not made again.
    deploy(&site).await.unwrap();
    assert_eq!(bmc.state().hardware().storage.asked.len(), 1);

    let (bmc, site) = machine(SPARE, |storage| {
        shows(storage);
        storage.makes = Makes::NoSpares;
    })
    .await;
    let error = deploy(&site).await.unwrap_err().to_string();
    assert!(
        error.contains("447 GiB, on R0, and 0 hot spares"),
        "{error}"
    );
    assert!(!asked(&bmc).iter().any(|line| line.starts_with("PATCH")));

    // Drives that do not show it could never prove it: nothing is deleted for that.
    let (bmc, site) = machine(SPARE, |storage| storage.has("RAID1")).await;
    let seen = &site.see().await[0];
    let why = "no drive of storage `R0` shows whether it stands by as a hot spare";
    assert_eq!(&*seen.fixed[0].reason, why);
    let error = deploy(&site).await.unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
    assert!(asked(&bmc).is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_system_is_written_on_other_volumes_than_designed() {
    let table = [
        (Makes::Nothing, "its storage shows no RAID volume"),
        (Makes::Fails, "bad drive"),
        (Makes::Other, "its storage shows RAID0 of D1 + D2, 447 GiB"),
        (Makes::Refuses, "The storage takes no such volume."),
    ];
    for (makes, failure) in table {
        let (bmc, site) = machine(VOLUME, |storage| storage.makes = makes).await;
        let error = deploy(&site).await.unwrap_err().to_string();
        assert!(error.contains(failure), "{makes:?}: {error}");
        let asked = asked(&bmc);
        assert!(
            !asked.iter().any(|line| line.starts_with("PATCH")),
            "{makes:?}: {asked:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_made_is_told_in_the_plan_and_refused_before_anything_is_changed() {
    let table = [
        (
            "{name: root, level: RAID5, drives: 4}",
            "no storage has 4 free drives of one kind for volume `root`",
        ),
        (
            "{name: root, level: RAID1, drives: 2, controller: R9}",
            "it has no storage `R9`, and has R0",
        ),
    ];
    for (volume, why) in table {
        let (bmc, site) = machine(volume, |storage| storage.has("RAID0")).await;
        let seen = &site.see().await[0];
        let fixed: Vec<&str> = seen.fixed.iter().map(|each| &*each.reason).collect();
        assert_eq!(fixed, [why]);
        let node = &site.nodes[0];
        let designed = node.hardware(crate::design::Section::Raid)[0].value.clone();
        let parameters = of_settings(&[(VOLUMES, &designed)]);
        let ended = site
            .carried_out(StepKind::Deploy, Some(parameters), Vec::new())
            .await;
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(asked(&bmc).is_empty());
    }
    // A plan that is not about these volumes makes none.
    let (bmc, site) = machine(VOLUME, |storage| storage.has("RAID0")).await;
    let parameters = of_settings(&[(VOLUMES, "RAID6 of 4 drives")]);
    let ended = site
        .carried_out(StepKind::Deploy, Some(parameters), Vec::new())
        .await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the plan makes other volumes"), "{error}");
    assert!(asked(&bmc).is_empty());
}
