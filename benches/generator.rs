//! Sites of any size, for measuring: the same numbers always give the same files.
//!
//! A site is in Pegleg's layout: layered host profiles, substituted versions and a secret, racks, networks, boot
//! actions, a strategy whose groups are racks, and one document a node. It passes every check. Of several sites, which share
//! their layers, each has its definition and machines alone.

use std::fmt::Write as _;

/// How large a site is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Machines; at most 4,000,000.
    pub(crate) nodes: usize,
    /// Racks; nodes are spread over them in turn.
    pub(crate) racks: usize,
    /// Host profiles; nodes use them in turn.
    pub(crate) profiles: usize,
    /// Deployment groups, over which the nodes are spread.
    pub(crate) groups: usize,
    /// Node documents in one file.
    pub(crate) nodes_per_file: usize,
    /// Whether no group depends on another; else each depends on the one before.
    pub(crate) independent: bool,
    /// Whether groups select by a label that their nodes carry; else by racks, of which some groups have none if
    /// there are less racks than groups.
    pub(crate) by_label: bool,
    /// Whether they select by a tag that their nodes carry.
    pub(crate) by_tag: bool,
    /// Substitutions into one document, each from a field of its own.
    pub(crate) into_one: usize,
    /// Documents that take a value from one, a hundred in a file.
    pub(crate) from_one: usize,
    /// Sites that share all but their definition and these machines; none: one site, named `large`.
    pub(crate) sites: usize,
}

impl Size {
    /// A site of so many nodes with what is usual around them, one file a node.
    #[must_use]
    pub(crate) fn of(nodes: usize) -> Self {
        Self {
            nodes,
            racks: nodes.div_ceil(40).max(1),
            profiles: 10,
            groups: nodes.div_ceil(100).max(1),
            nodes_per_file: 1,
            independent: false,
            by_label: false,
            by_tag: false,
            into_one: 0,
            from_one: 0,
            sites: 0,
        }
    }
}

/// Files of nodes that lie in one folder.
const FILES_IN_A_FOLDER: usize = 100;

/// Documents other than nodes that lie in one file.
const DOCUMENTS_IN_A_FILE: usize = 100;

/// One file: its path below the top of the repository, and its text.
pub(crate) type File = (String, String);

/// The files of a site named `large`, or of several sites.
#[must_use]
pub(crate) fn files(size: &Size) -> Vec<File> {
    match size.sites {
        0 => one_site(size),
        sites => several(one_site(size), sites),
    }
}

/// Sites of the type `edge`: what one site has becomes the layer of the type, but for its machines.
fn several(one: Vec<File>, sites: usize) -> Vec<File> {
    let (mut files, mut own) = (Vec::new(), Vec::new());
    for (path, text) in one {
        match path.strip_prefix("site/large/") {
            None => files.push((path, text)),
            Some("site-definition.yaml") => {}
            Some(path) if path.starts_with("baremetal/") => own.push((path.to_owned(), text)),
            Some(path) => {
                let text = text.replace("    layer: site\n", "    layer: type\n");
                files.push((format!("type/edge/{path}"), text));
            }
        }
    }
    for number in 0..sites {
        let name = site_name(number);
        let data = "revision: v1.0\nsite_type: edge";
        let definition = document("pegleg/SiteDefinition/v1", &name, "site", "", data);
        files.push((format!("site/{name}/site-definition.yaml"), definition));
        let machines = own.iter();
        files.extend(machines.map(|(path, text)| (format!("site/{name}/{path}"), text.clone())));
    }
    files
}

/// The name of one of several sites.
#[must_use]
pub(crate) fn site_name(number: usize) -> String {
    format!("site-{number:04}")
}

fn one_site(size: &Size) -> Vec<File> {
    let mut files = vec![
        file("site/large/site-definition.yaml", &definition()),
        file("global/layering-policy.yaml", &layering_policy()),
        file("global/versions.yaml", &versions()),
        file("global/profiles/hardware/generic.yaml", &hardware()),
        file("global/profiles/host/base.yaml", &base_profile()),
        file("site/large/secrets/bmc.yaml", &secret()),
        file("site/large/networks.yaml", &networks()),
        file("site/large/boot-actions.yaml", &boot_action()),
        file("site/large/backends.yaml", &backends()),
        file("site/large/strategy.yaml", &strategy(size)),
    ];
    if size.into_one > 0 {
        files.push(file("site/large/charts/all.yaml", &into_one(size.into_one)));
    }
    let charts: Vec<usize> = (0..size.from_one).collect();
    for (at, chunk) in charts.chunks(DOCUMENTS_IN_A_FILE).enumerate() {
        let text: String = chunk.iter().map(|number| from_one(*number)).collect();
        files.push(file(&format!("site/large/charts/part-{at:04}.yaml"), &text));
    }
    for at in 0..size.profiles.max(1) {
        let path = format!("site/large/profiles/host/profile-{at}.yaml");
        files.push(file(&path, &host_profile(at)));
    }
    let numbers: Vec<usize> = (0..size.nodes).collect();
    for (at, chunk) in numbers.chunks(size.nodes_per_file.max(1)).enumerate() {
        let text: String = chunk.iter().map(|number| node(size, *number)).collect();
        let folder = at / FILES_IN_A_FOLDER;
        let path = format!("site/large/baremetal/{folder:04}/nodes-{at:06}.yaml");
        files.push(file(&path, &text));
    }
    files
}

fn file(path: &str, text: &str) -> File {
    (path.to_owned(), text.to_owned())
}

fn document(schema: &str, name: &str, layer: &str, more: &str, data: &str) -> String {
    let data = data.trim_end().replace('\n', "\n  ");
    format!(
        "---\nschema: {schema}\nmetadata:\n  schema: metadata/Document/v1\n  name: {name}\n  storagePolicy: cleartext\n  \
         layeringDefinition:\n    abstract: false\n    layer: {layer}\n{more}data:\n  {data}\n"
    )
}

fn definition() -> String {
    let data = "revision: v1.0";
    document("pegleg/SiteDefinition/v1", "large", "site", "", data)
}

fn layering_policy() -> String {
    "---\nschema: deckhand/LayeringPolicy/v1\nmetadata:\n  schema: metadata/Control/v1\n  name: layering-policy\n\
     data:\n  layerOrder:\n    - global\n    - type\n    - site\n"
        .to_owned()
}

fn versions() -> String {
    let data = "images:\n  default: xenial\nkernels:\n  default: ga-16.04";
    document(
        "pegleg/SoftwareVersions/v1",
        "software-versions",
        "global",
        "",
        data,
    )
}

fn hardware() -> String {
    let data = "vendor: Dell\ngeneration: '14'\nhw_version: '3'\nbios_version: 2.1.7\nboot_mode: bios\n\
                bootstrap_protocol: pxe\npxe_interface: 0\ndevice_aliases:\n  bootdisk:\n    bus_type: scsi\n    \
                dev_type: PERC\n    address: '0:2.0.0'";
    document("drydock/HardwareProfile/v1", "generic", "global", "", data)
}

fn base_profile() -> String {
    let text = document(
        "drydock/HostProfile/v1",
        "base",
        "global",
        "  labels:\n    hosttype: base\n  substitutions:\n    - src:\n        schema: pegleg/SoftwareVersions/v1\n        \
         name: software-versions\n        path: .images.default\n      dest:\n        path: .platform.image\n",
        "hardware_profile: generic\nplatform:\n  kernel: ga-16.04\n  kernel_params:\n    console: ttyS1,115200n8\n    \
         intel_iommu: 'on'\nstorage:\n  physical_devices:\n    bootdisk:\n      labels:\n        bootdrive: 'true'\n      \
         partitions:\n        - name: root\n          size: 30g\n          bootable: true\n          filesystem:\n            \
         mountpoint: /\n            fstype: ext4\n            mount_options: defaults\n        - name: var\n          \
         size: '>300g'\n          filesystem:\n            mountpoint: /var\n            fstype: ext4",
    );
    text.replacen("abstract: false", "abstract: true", 1)
}

fn secret() -> String {
    let text = document("deckhand/Passphrase/v1", "bmc_password", "site", "", "x");
    text.replace("cleartext", "encrypted")
        .replace("data:\n  x", "data: not-a-password")
}

/// The second parts of the addresses at which the networks begin, each of 2^22 addresses.
const OUT_OF_BAND: usize = 0;
const OAM: usize = 64;
const STORAGE: usize = 128;

fn networks() -> String {
    let link = "bonding:\n  mode: 802.3ad\n  hash: layer3+4\nmtu: 9100\nlinkspeed: auto\ntrunking:\n  mode: 802.1q\n\
                allowed_networks:\n  - oam\n  - storage";
    let vlan = |number: usize, second: usize| {
        format!("vlan: '{number}'\nmtu: 9100\ncidr: 10.{second}.0.0/10\nroutes: []\nranges: []")
    };
    document("drydock/NetworkLink/v1", "data", "site", "", link)
        + &document(
            "drydock/NetworkLink/v1",
            "oob",
            "site",
            "",
            "bonding:\n  mode: disabled\nmtu: 1500\nlinkspeed: auto\ntrunking:\n  mode: disabled\n  \
             default_network: oob\nallowed_networks:\n  - oob",
        )
        + &document("drydock/Network/v1", "oam", "site", "", &vlan(41, OAM))
        + &document(
            "drydock/Network/v1",
            "storage",
            "site",
            "",
            &vlan(42, STORAGE),
        )
        + &document(
            "drydock/Network/v1",
            "oob",
            "site",
            "",
            &format!("mtu: 1500\ncidr: 10.{OUT_OF_BAND}.0.0/10\nroutes: []"),
        )
}

fn boot_action() -> String {
    let data = "signaling: false\nassets:\n  - path: /etc/motd\n    type: file\n    permissions: '644'\n    \
                data: welcome\n    data_pipeline:\n      - utf8_decode\nnode_filter:\n  filter_set_type: union\n  \
                filter_set:\n    - filter_type: union\n      node_tags:\n        - profile-0";
    document("drydock/BootAction/v1", "motd", "site", "", data)
}

fn backends() -> String {
    document(
        "trueup/Backends/v1",
        "backends",
        "site",
        "",
        "hardware:\n  kind: sim",
    )
}

fn strategy(size: &Size) -> String {
    let groups = size.groups.max(1);
    let mut data = String::from("groups:\n");
    for group in 0..groups {
        let before = match group {
            0 => String::new(),
            _ if size.independent => String::new(),
            _ => format!("group-{}", group - 1),
        };
        let (mut label, mut tag, mut racks) = (String::new(), String::new(), String::new());
        if size.by_label {
            label = format!("'batch: {}'", batch(group));
        } else if size.by_tag {
            tag = batch(group);
        } else {
            let names: Vec<String> = (group..size.racks.max(1))
                .step_by(groups)
                .map(|rack| format!("rack-{rack}"))
                .collect();
            racks = match names.is_empty() {
                true => "nothing".to_owned(),
                false => names.join(", "),
            };
        }
        let _ = write!(
            data,
            "  - name: group-{group}\n    critical: {}\n    depends_on: [{before}]\n    selectors:\n      \
             - node_names: []\n        node_labels: [{label}]\n        node_tags: [{tag}]\n        \
             rack_names: [{racks}]\n    success_criteria:\n      percent_successful_nodes: 90\n",
            group == 0,
        );
    }
    document(
        "shipyard/DeploymentStrategy/v1",
        "deployment-strategy",
        "site",
        "",
        &data,
    )
}

/// The label's value, and the tag, of the nodes of a group.
fn batch(group: usize) -> String {
    format!("batch-{group}")
}

/// A catalogue, and a chart that takes every field of it.
fn into_one(fields: usize) -> String {
    let catalogue: String = (0..fields)
        .map(|field| format!("image-{field}: registry.example.org/image:{field}\n"))
        .collect();
    let substitutions: String = (0..fields)
        .map(|field| {
            format!(
                "    - src:\n        schema: pegleg/SoftwareVersions/v1\n        name: catalogue\n        path: \
                 .image-{field}\n      dest:\n        path: .values.images.image-{field}\n"
            )
        })
        .collect();
    let more = format!("  substitutions:\n{substitutions}");
    let chart = "chart_name: all\nvalues:\n  images: {}";
    document(
        "pegleg/SoftwareVersions/v1",
        "catalogue",
        "site",
        "",
        &catalogue,
    ) + &document("armada/Chart/v1", "all", "site", &more, chart)
}

/// A chart that takes one value from the versions of the site.
fn from_one(number: usize) -> String {
    let more = "  substitutions:\n    - src:\n        schema: pegleg/SoftwareVersions/v1\n        \
                name: software-versions\n        path: .images.default\n      dest:\n        \
                path: .values.image\n";
    let name = format!("chart-{number}");
    let data = format!("chart_name: {name}\nvalues:\n  replicas: 3");
    document("armada/Chart/v1", &name, "site", more, &data)
}

fn host_profile(at: usize) -> String {
    let more = "    parentSelector:\n      hosttype: base\n    actions:\n      - method: merge\n        path: .\n  \
                substitutions:\n    - src:\n        schema: deckhand/Passphrase/v1\n        name: bmc_password\n        \
                path: .\n      dest:\n        path: .oob.credential\n";
    let labels: String = (0..20)
        .map(|label| format!("    example.org/role-{label}: enabled\n"))
        .collect();
    let data = format!(
        "oob:\n  type: ipmi\n  network: oob\n  account: root\nprimary_network: oam\ninterfaces:\n  bond0:\n    \
         device_link: data\n    slaves:\n      - p1\n      - p2\n    networks:\n      - oam\n      - storage\n\
         metadata:\n  tags:\n    - profile-{at}\n  owner_data:\n{labels}"
    );
    document(
        "drydock/HostProfile/v1",
        &format!("profile-{at}"),
        "site",
        more,
        &data,
    )
}

fn node(size: &Size, number: usize) -> String {
    let address = |begin: usize| {
        let (rest, fourth) = (number / 250, number % 250 + 1);
        format!("10.{}.{}.{fourth}", begin + rest / 250, rest % 250)
    };
    let group = batch(number % size.groups.max(1));
    let more = match (size.by_label, size.by_tag) {
        (true, _) => format!("\n  owner_data:\n    batch: {group}"),
        (false, true) => format!("\n    - {group}"),
        (false, false) => String::new(),
    };
    let data = format!(
        "host_profile: profile-{}\naddressing:\n  - network: oob\n    address: {}\n  - network: oam\n    \
         address: {}\n  - network: storage\n    address: {}\nmetadata:\n  rack: rack-{}\n  tags:\n    - worker{more}",
        number % size.profiles.max(1),
        address(OUT_OF_BAND),
        address(OAM),
        address(STORAGE),
        number % size.racks.max(1),
    );
    document(
        "drydock/BaremetalNode/v1",
        &format!("node-{number:06}"),
        "site",
        "",
        &data,
    )
}
