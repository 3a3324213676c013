//! The description of its API that MAAS gives to clients, which make their requests from it.

use serde_json::{Value, json};

use super::serve::Received;

/// Handler, path, parameters of the path, and operations: name, method, whether it is called by a query.
type Handler = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str, bool)],
);

const READ: (&str, &str, bool) = ("read", "GET", false);
const CREATE: (&str, &str, bool) = ("create", "POST", false);
const UPDATE: (&str, &str, bool) = ("update", "PUT", false);
const DELETE: (&str, &str, bool) = ("delete", "DELETE", false);

const HANDLERS: &[Handler] = &[
    ("VersionHandler", "version/", &[], &[READ]),
    (
        "UsersHandler",
        "users/",
        &[],
        &[READ, ("whoami", "GET", true)],
    ),
    (
        "MaasHandler",
        "maas/",
        &[],
        &[("get_config", "GET", true), ("set_config", "POST", true)],
    ),
    ("EventsHandler", "events/", &[], &[("query", "GET", true)]),
    (
        "MachinesHandler",
        "machines/",
        &[],
        &[
            READ,
            CREATE,
            ("allocate", "POST", true),
            ("release", "POST", true),
        ],
    ),
    (
        "MachineHandler",
        "machines/{system_id}/",
        &["system_id"],
        &[
            READ,
            UPDATE,
            DELETE,
            ("commission", "POST", true),
            ("test", "POST", true),
            ("deploy", "POST", true),
            ("release", "POST", true),
            ("abort", "POST", true),
            ("lock", "POST", true),
            ("unlock", "POST", true),
            ("mark_broken", "POST", true),
            ("mark_fixed", "POST", true),
            ("rescue_mode", "POST", true),
            ("exit_rescue_mode", "POST", true),
            ("power_on", "POST", true),
            ("power_off", "POST", true),
            ("query_power_state", "GET", true),
            ("set_owner_data", "POST", true),
            ("set_storage_layout", "POST", true),
        ],
    ),
    ("TagsHandler", "tags/", &[], &[READ, CREATE]),
    (
        "TagHandler",
        "tags/{name}/",
        &["name"],
        &[
            READ,
            DELETE,
            ("update_nodes", "POST", true),
            ("machines", "GET", true),
        ],
    ),
    ("SubnetsHandler", "subnets/", &[], &[READ]),
    ("FabricsHandler", "fabrics/", &[], &[READ]),
    (
        "InterfacesHandler",
        "nodes/{system_id}/interfaces/",
        &["system_id"],
        &[
            READ,
            ("create_bond", "POST", true),
            ("create_vlan", "POST", true),
        ],
    ),
    (
        "InterfaceHandler",
        "nodes/{system_id}/interfaces/{id}/",
        &["system_id", "id"],
        &[
            READ,
            UPDATE,
            DELETE,
            ("link_subnet", "POST", true),
            ("unlink_subnet", "POST", true),
        ],
    ),
    (
        "BlockDevicesHandler",
        "nodes/{system_id}/blockdevices/",
        &["system_id"],
        &[READ],
    ),
    (
        "BlockDeviceHandler",
        "nodes/{system_id}/blockdevices/{id}/",
        &["system_id", "id"],
        &[
            READ,
            ("format", "POST", true),
            ("mount", "POST", true),
            ("set_boot_disk", "POST", true),
        ],
    ),
    (
        "PartitionsHandler",
        "nodes/{system_id}/blockdevices/{device_id}/partitions/",
        &["system_id", "device_id"],
        &[CREATE],
    ),
    (
        "PartitionHandler",
        "nodes/{system_id}/blockdevices/{device_id}/partition/{id}",
        &["system_id", "device_id", "id"],
        &[("format", "POST", true), ("mount", "POST", true)],
    ),
    (
        "VolumeGroupsHandler",
        "nodes/{system_id}/volume-groups/",
        &["system_id"],
        &[READ, CREATE],
    ),
    (
        "VolumeGroupHandler",
        "nodes/{system_id}/volume-group/{id}/",
        &["system_id", "id"],
        &[("create_logical_volume", "POST", true)],
    ),
];

/// The description, with the address at which the stand-in was asked.
pub(super) fn description(received: &Received) -> Value {
    let host = received.headers.get("host").cloned().unwrap_or_default();
    let resource = |(name, path, params, actions): &Handler| {
        let path = format!("/MAAS/api/2.0/{path}");
        let action = |(name, method, is_operation): &(&str, &str, bool)| {
            json!({"name": name, "method": method, "op": is_operation.then_some(*name),
                "restful": !is_operation, "doc": ""})
        };
        let actions: Vec<Value> = actions.iter().map(action).collect();
        json!({"name": name, "anon": null, "auth": {"name": name, "doc": "", "uri": format!("http://{host}{path}"),
            "path": path, "params": params, "actions": actions}})
    };
    let resources: Vec<Value> = HANDLERS.iter().map(resource).collect();
    json!({"doc": "MAAS API", "hash": "0", "resources": resources})
}
