//! Firmware, settings and parts as controllers show them.

use super::*;
use crate::design::Section;
use crate::observed::PartDrift;

const HARDWARE: &str = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  mode: enforce\n  \
    firmware: {bios: {version: '2.5'}, bmc: {version: '7.0'}, NIC.1: {version: '22.5'}}\n  \
    bios: {ProcVirtualization: Enabled, NumLock: true, Cores: 4}\n  boot: {secure_boot: true}\n  \
    expect: {cpus: 2, memory_gib: 512, drives: 2}\n";

fn resources() -> Vec<(&'static str, Value)> {
    let attributes = json!({"ProcVirtualization": "Disabled", "NumLock": true, "Cores": 4});
    vec![
        ("Systems/1/Bios", json!({ "Attributes": attributes })),
        ("Systems/1/SecureBoot", json!({"SecureBootEnable": false})),
        ("Managers/1", json!({"FirmwareVersion": "7.0"})),
        (
            "UpdateService",
            json!({"FirmwareInventory": {"@odata.id": "/redfish/v1/UpdateService/FirmwareInventory"}}),
        ),
        (
            "UpdateService/FirmwareInventory",
            json!({"Members": [{"@odata.id": "/redfish/v1/UpdateService/FirmwareInventory/NIC.1"}]}),
        ),
        (
            "UpdateService/FirmwareInventory/NIC.1",
            json!({"@odata.id": "/redfish/v1/UpdateService/FirmwareInventory/NIC.1", "Id": "NIC.1", "Version": "21.0"}),
        ),
    ]
}

impl super::bmc::State {
    /// The storage of its drives, which can have volumes.
    pub(super) fn storage(&self) -> Value {
        let link =
            |path: &str| json!({"@odata.id": format!("/redfish/v1/Systems/1/Storage/R0/{path}")});
        let drives = self.drives.iter();
        let drives: Vec<Value> = drives
            .map(|(id, _)| link(&format!("Drives/{id}")))
            .collect();
        json!({"Id": "R0", "Drives": drives, "Volumes": link("Volumes")})
    }
}

fn drift(seen: &ObservedNode) -> Vec<String> {
    seen.drift.iter().map(PartDrift::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn values_that_documents_name_are_compared_with_those_that_a_controller_shows() {
    let bmc = Bmc::start().await;
    bmc.state().values = resources();
    let site = opened(&(text(&[bmc.port()], "", "") + HARDWARE));
    let seen = site.hardware.observe(&site.nodes).await;
    assert_eq!(
        drift(&seen["n0"]),
        [
            "bios.ProcVirtualization: Disabled, designed Enabled",
            "boot.secure_boot: false, designed true",
            "firmware.NIC.1: 21.0, designed 22.5",
            "firmware.bios: 2.4, designed 2.5",
            "expect.memory_gib: 384, designed 512",
        ]
    );
    assert_eq!(*seen["n0"].compared, [Section::Firmware]);
    assert_eq!(
        bmc.changes()
            .iter()
            .filter(|line| !line.contains("Sessions"))
            .count(),
        0
    );

    // What it does not show differs from nothing, and hides nothing else of the machine.
    bmc.state()
        .values
        .retain(|(path, _)| *path == "Systems/1/Bios");
    let seen = site.hardware.observe(&site.nodes).await;
    assert!(drift(&seen["n0"]).contains(&"firmware.bios: 2.4, designed 2.5".to_owned()));
    assert!(seen["n0"].compared.is_empty());
    assert!(matches!(seen["n0"].power, Fact::Known(_)));
}

#[tokio::test(start_paused = true)]
async fn a_site_without_hardware_documents_costs_no_request_more() {
    let requests = |more: &'static str| async move {
        let bmc = Bmc::start().await;
        bmc.state().values = resources();
        let site = opened(&(text(&[bmc.port()], "", "") + more));
        site.hardware.observe(&site.nodes).await;
        let received = bmc.server.received.lock().unwrap();
        let of_values = received.iter().filter(|each| {
            ["Bios", "SecureBoot", "UpdateService", "Managers"]
                .iter()
                .any(|part| each.path.contains(part))
        });
        of_values.count()
    };
    assert_eq!(requests("").await, 0);
    let bios_only = "---\nschema: trueup/Hardware/v1\nmetadata: {name: all}\ndata:\n  firmware: {bios: {version: '2.5'}}\n";
    assert_eq!(requests(bios_only).await, 0, "the system shows it");
    assert_eq!(requests(HARDWARE).await, 6);
}

#[tokio::test(start_paused = true)]
async fn the_boot_order_is_compared_and_learned_by_kinds() {
    let bmc = Bmc::start().await;
    let options = [
        ("Systems/1/BootOptions/Boot0001", json!({"Alias": "Pxe"})),
        (
            "Systems/1/BootOptions/Boot0002",
            json!({"UefiDevicePath": "PciRoot(0x0)/Pci(0x1,0x0)/NVMe(0x1,00-00)"}),
        ),
        (
            "Systems/1/BootOptions/Boot0003",
            json!({"DisplayName": "Shell"}),
        ),
        ("Systems/1/BootOptions/Boot0004", json!({"Alias": "Pxe"})),
        (
            "Systems/1/BootOptions/Boot0005",
            json!({"Alias": "Usb", "BootOptionEnabled": false}),
        ),
    ];
    let links = options
        .iter()
        .map(|(path, _)| json!({"@odata.id": format!("/redfish/v1/{path}")}));
    let all: Vec<Value> = links.collect();
    // The order is another one than that of the list, and names an option that is gone.
    let order = json!([
        "Boot0003", "Boot0005", "Boot0004", "Boot0009", "Boot0001", "Boot0002"
    ]);
    let mut values = resources();
    values.push((
        "Systems/1/BootOptions",
        json!({"Members": all, "order": order}),
    ));
    values.extend(options.map(|(path, mut option)| {
        option["@odata.id"] = json!(format!("/redfish/v1/{path}"));
        option["Id"] = json!(path.rsplit('/').next());
        (path, option)
    }));
    bmc.state().values = values;
    let document = HARDWARE.replace("secure_boot: true", "order: [disk, pxe]");
    let site = opened(&(text(&[bmc.port()], "", "") + &document));
    let learned = site.hardware.learn(&site.nodes[0]).await.unwrap();
    assert_eq!(
        learned.seen.get("boot.order").map(|order| &**order),
        Some("pxe, disk")
    );
    let seen = site.hardware.observe(&site.nodes).await;
    let order = "boot.order: pxe, disk, designed disk, pxe".to_owned();
    assert!(
        drift(&seen["n0"]).contains(&order),
        "{:?}",
        drift(&seen["n0"])
    );
    // It is only shown.
    let fixed = seen["n0"].fixed.iter();
    let fixed = fixed.filter(|each| &*each.name == "boot.order");
    let reasons: Vec<&str> = fixed.map(|each| &*each.reason).collect();
    assert_eq!(reasons, ["trueup does not set it over Redfish"]);
    // An option that is listed and not there hides nothing else.
    let gone = "Systems/1/BootOptions/Boot0002";
    bmc.state().values.retain(|(path, _)| *path != gone);
    let learned = site.hardware.learn(&site.nodes[0]).await.unwrap();
    assert_eq!(learned.seen.get("boot.order"), None);
    assert_eq!(learned.seen["firmware.NIC.1"], Arc::from("21.0"));
    assert!(learned.unread.is_empty(), "{:?}", learned.unread);
    // Nor does a subsystem that cannot be read.
    bmc.state()
        .values
        .retain(|(path, _)| *path != "Systems/1/Bios");
    let learned = site.hardware.learn(&site.nodes[0]).await.unwrap();
    assert_eq!(learned.seen["firmware.NIC.1"], Arc::from("21.0"));
    let [unread] = &learned.unread[..] else {
        panic!("{:?}", learned.unread);
    };
    assert!(unread.starts_with("bios.* could not be read: "), "{unread}");
}
