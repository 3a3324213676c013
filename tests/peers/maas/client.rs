//! MAAS's own client for Python, which shares nothing with the stand-in, does with it what it does with MAAS.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{shared, skip, turn};

use super::region::{KEY, PLAIN_KEY, Region, Times, Version};

const SCRIPT: &str = r##"
import sys
from maas.client import connect
from maas.client.bones import CallError
from maas.client.enum import InterfaceType, LinkMode, NodeStatus, PowerState

url, key, plain, wrong = sys.argv[1:5]

def refused(status, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except CallError as error:
        assert error.status == status, (error.status, error)
    else:
        raise AssertionError(f"{call} is not refused")

refused(401, connect(url, apikey=wrong).machines.list)
client = connect(url, apikey=key)
assert client.users.whoami().username == "admin"
assert client.version.get().version.startswith("3."), client.version.get().version
assert [each.hostname for each in client.machines.list()] == ["n1", "n2"]
assert sorted(each.cidr for each in client.subnets.list())[0] == "10.20.0.0/24"

machine = client.machines.get("abc001")
assert machine.status == NodeStatus.NEW, machine.status
refused(409, machine.deploy)
machine.commission(wait=True, wait_interval=0.1)
assert machine.status == NodeStatus.READY, machine.status

cards = {each.name: each for each in machine.interfaces}
bond = machine.interfaces.create(InterfaceType.BOND, name="bond0", parents=[cards["eth1"], cards["eth2"]], bond_mode="802.3ad")
assert bond.name == "bond0" and bond.type == InterfaceType.BOND, bond
machine = client.machines.get("abc001")
assert sorted(each.name for each in machine.interfaces) == ["bond0", "eth0", "eth1", "eth2"]
bond = next(each for each in machine.interfaces if each.name == "bond0")
assert sorted(each.name for each in bond.parents) == ["eth1", "eth2"]
first = next(each for each in machine.interfaces if each.name == "eth0")
subnet = next(each for each in client.subnets.list() if each.cidr == "10.20.0.0/24")
link = first.links.create(LinkMode.STATIC, subnet=subnet, ip_address="10.20.0.78")
assert link.ip_address == "10.20.0.78", link

disk = next(each for each in machine.block_devices if each.name == "sdb")
part = disk.partitions.create(10 * 2**30)
assert part.size == 10 * 2**30, part
part.format("xfs")
part.mount("/data")
disk = next(each for each in machine.block_devices if each.name == "sdc")
group = machine.volume_groups.create("vg0", devices=[disk])
volume = group.logical_volumes.create("lv0", 2**30)
assert volume.size == 2**30, volume
machine = client.machines.get("abc001")
disk = next(each for each in machine.block_devices if each.name == "sdb")
assert [each.filesystem.mount_point for each in disk.partitions] == ["/data"]

other = connect(url, apikey=plain)
refused(403, other.machines.get("abc001").commission)
taken = client.machines.allocate(hostname="n1")
assert taken.system_id == "abc001" and taken.status == NodeStatus.ALLOCATED, taken
assert taken.owner.username == "admin"
refused(403, other.machines.get("abc001").deploy)
taken.deploy(distro_series="jammy", hwe_kernel="ga-22.04", user_data=b"#cloud-config\n{}", wait=True, wait_interval=0.1)
assert taken.status == NodeStatus.DEPLOYED and taken.distro_series == "jammy", taken
assert taken.query_power_state() == PowerState.ON
taken.lock()
refused(403, taken.release)
taken.unlock()
taken.power_off(wait=True, wait_interval=0.1)
assert taken.query_power_state() == PowerState.OFF
taken.release(erase=True, quick_erase=True, wait=True, wait_interval=0.1)
assert taken.status == NodeStatus.READY, taken.status
taken.delete()
assert [each.hostname for each in client.machines.list()] == ["n2"]
print("done")
"##;

/// The Python of an environment that holds the client; `None`, said loudly, if it cannot be had.
fn python() -> Option<PathBuf> {
    let script = shared("peers/python-env.sh")?;
    let _turn = turn("python-maas");
    let packages = ["maas", "python-libmaas==0.6.8", "setuptools<81"];
    let ended = Command::new(script).args(packages).output();
    match ended {
        Ok(ended) if ended.status.success() => {
            let folder = String::from_utf8(ended.stdout).unwrap();
            Some(Path::new(folder.trim()).join("bin/python"))
        }
        _ => {
            skip("python-libmaas cannot be got from PyPI");
            None
        }
    }
}

#[tokio::test]
async fn the_client_of_maas_goes_through_a_machine_s_life_with_the_stand_in() {
    let Some(python) = python() else {
        return;
    };
    for version in [Version::V34, Version::V35] {
        let region = Region::new(version)
            .with("abc001", "n1", 0)
            .with("abc002", "n2", 4);
        region.state().times = Times::all(Duration::from_millis(300));
        let server = region.serve().await;
        let key =
            |(consumer, token, secret): (&str, &str, &str)| format!("{consumer}:{token}:{secret}");
        let arguments = [
            "-c".to_owned(),
            SCRIPT.to_owned(),
            format!("{}/", server.url),
            key(KEY),
            key(PLAIN_KEY),
            key((KEY.0, KEY.1, "wrong")),
        ];
        let python = python.clone();
        let asked = tokio::task::spawn_blocking(move || {
            Command::new(python).args(arguments).env_clear().output()
        });
        let ended = asked.await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{version:?}: {said}");
        assert_eq!(ended.stdout, b"done\n", "{said}");
        let effects = region.state().effects.clone();
        for effect in ["commission", "allocate", "deploy", "erase", "delete"] {
            let of = format!("{effect} abc001");
            assert_eq!(
                effects.iter().filter(|each| **each == of).count(),
                1,
                "{effects:?}"
            );
        }
    }
}
