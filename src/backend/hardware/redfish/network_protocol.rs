//! Settings of a controller in its ManagerNetworkProtocol (DSP2046): its time servers, and the network services that are off.

use serde_json::{Map, Value, json};

use super::machine::Machine;
use super::resource::Resource;
use crate::backend::ActError;
use crate::backend::http::plain;

/// The names of the values.
const NTP: &str = "bmc.ntp";
const SERVICES_OFF: &str = "bmc.services_off";
/// The services, as documents name them, and their properties.
const SERVICES: [(&str, &str); 7] = [
    ("ftp", "FTP"),
    ("http", "HTTP"),
    ("ipmi", "IPMI"),
    ("kvm", "KVMIP"),
    ("snmp", "SNMP"),
    ("ssh", "SSH"),
    ("telnet", "Telnet"),
];
/// Most time servers that count.
const MOST: usize = 16;
/// The values that are shown without a time server, and if time is not synchronised.
const NONE: &str = "none";
const OFF: &str = "off";

/// The network services of a controller, and the one by which trueup reaches it.
#[derive(Debug)]
pub(super) struct Protocols {
    pub(super) resource: Resource,
    way_in: &'static str,
}

impl Protocols {
    /// The values that they show, by name.
    pub(super) fn shown(&self) -> [(&'static str, Option<String>); 2] {
        [
            (NTP, time_servers(&self.resource)),
            (SERVICES_OFF, Some(services_off(&self.resource))),
        ]
    }
}

impl Machine<'_> {
    /// Reads the network services of its controller; `manager`: the resource of that.
    pub(super) async fn protocols(
        &self,
        manager: &Resource,
    ) -> Result<Option<Protocols>, ActError> {
        let Some(link) = manager.link("/NetworkProtocol") else {
            return Ok(None);
        };
        Ok(Some(Protocols {
            resource: self.controller.get(link).await?,
            way_in: self.backend.settings.scheme.as_str(),
        }))
    }
}

/// The time servers of a controller in one line; `None`: it shows none of it.
fn time_servers(protocols: &Resource) -> Option<String> {
    protocols.value.get("NTP")?.as_object()?;
    if protocols.boolean("/NTP/ProtocolEnabled") == Some(false) {
        return Some(OFF.to_owned());
    }
    let servers = protocols.texts("/NTP/NTPServers").into_iter().take(MOST);
    let servers: Vec<String> = servers
        .filter(|server| !server.trim().is_empty())
        .map(|server| plain(server, 253))
        .collect();
    Some(match servers.is_empty() {
        true => NONE.to_owned(),
        false => servers.join(", "),
    })
}

/// The network services that are off, or that a controller does not have.
fn services_off(protocols: &Resource) -> String {
    let is_off = |property: &str| {
        let is_there = protocols.value.get(property).is_some_and(Value::is_object);
        let is_on = protocols.boolean(&format!("/{property}/ProtocolEnabled"));
        !is_there || is_on == Some(false)
    };
    let off = SERVICES.iter().filter(|(_, property)| is_off(property));
    let off: Vec<&str> = off.map(|(name, _)| *name).collect();
    match off.is_empty() {
        true => NONE.to_owned(),
        false => off.join(", "),
    }
}

/// The properties that bring a value true, or why the controller cannot have it.
pub(super) fn change(
    protocols: Option<&Protocols>,
    (name, wanted): (&str, &str),
) -> Result<Map<String, Value>, String> {
    let shown = protocols.ok_or("its controller does not show its network services")?;
    let (protocols, way_in) = (&shown.resource, shown.way_in);
    let mut body = Map::new();
    if name == NTP {
        if protocols.value.get("NTP").is_none_or(Value::is_null) {
            return Err("its controller has no time servers".to_owned());
        }
        let servers: Vec<&str> = wanted.split(", ").collect();
        let ntp = json!({ "ProtocolEnabled": true, "NTPServers": servers });
        body.insert("NTP".to_owned(), ntp);
        return Ok(body);
    }
    if name != SERVICES_OFF {
        return Err("trueup does not set it over Redfish".to_owned());
    }
    for wanted in wanted.split(", ") {
        let known = SERVICES.iter().find(|(name, _)| *name == wanted);
        let Some((_, property)) = known else {
            return Err(format!(
                "trueup does not know the service `{}`",
                plain(wanted, 40)
            ));
        };
        if wanted == way_in {
            return Err(format!(
                "trueup reaches this controller by {way_in}, and would lock itself out"
            ));
        }
        if protocols.value.get(*property).is_some_and(Value::is_object) {
            let off = json!({ "ProtocolEnabled": false });
            body.insert((*property).to_owned(), off);
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(value: &Value) -> Resource {
        Resource {
            path: "/redfish/v1/Managers/1/NetworkProtocol".into(),
            etag: None,
            value: value.clone(),
        }
    }

    #[test]
    fn what_is_shown_is_what_is_on() {
        let table = [
            (json!({}), None, "ftp, http, ipmi, kvm, snmp, ssh, telnet"),
            (
                json!({"NTP": {"ProtocolEnabled": true, "NTPServers": ["10.0.0.1", "", null, "10.0.0.2"]},
                    "HTTP": {"ProtocolEnabled": true}, "IPMI": {"ProtocolEnabled": false}, "SSH": {"Port": 22}}),
                Some("10.0.0.1, 10.0.0.2"),
                "ftp, ipmi, kvm, snmp, telnet",
            ),
            (
                json!({"NTP": {"ProtocolEnabled": false, "NTPServers": ["10.0.0.1"]}}),
                Some("off"),
                "ftp, http, ipmi, kvm, snmp, ssh, telnet",
            ),
            (
                json!({"NTP": {"NTPServers": []}}),
                Some("none"),
                "ftp, http, ipmi, kvm, snmp, ssh, telnet",
            ),
        ];
        for (value, ntp, off) in table {
            let protocols = resource(&value);
            assert_eq!(time_servers(&protocols).as_deref(), ntp, "{value}");
            assert_eq!(services_off(&protocols), off, "{value}");
        }
    }

    #[test]
    fn only_what_it_has_is_switched_off_and_never_its_own_way_in() {
        let resource =
            resource(&json!({"HTTP": {"ProtocolEnabled": true}, "SSH": {"ProtocolEnabled": true}}));
        let of = |name, wanted, way_in| {
            let resource = resource.clone();
            change(Some(&Protocols { resource, way_in }), (name, wanted))
        };
        let off = json!({"SSH": {"ProtocolEnabled": false}});
        assert_eq!(
            Value::Object(of(SERVICES_OFF, "ssh, telnet", "https").unwrap()),
            off
        );
        assert!(of(SERVICES_OFF, "http", "https").is_ok());
        let locked = of(SERVICES_OFF, "http, ssh", "http").unwrap_err();
        assert!(locked.contains("would lock itself out"), "{locked}");
        assert!(of(NTP, "10.0.0.1", "https").is_err(), "it has none");
        assert!(of("bmc.syslog", "10.0.0.1", "https").is_err());
        assert!(change(None, (NTP, "10.0.0.1")).is_err());
    }
}
