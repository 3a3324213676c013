//! Deployment groups and timeouts.
//!
//! The strategy is the document that DeploymentConfiguration names, or the one of the default name.
//! Without either, it is one critical group of all nodes that
//! wants 100 %. Timeouts have Shipyard's defaults; a 0 that is written stays 0.

use super::catalog::{Catalog, Input};
use super::read::{Findings, items, number, text, text_of, texts};
use super::{DeploymentConfiguration, Group, GroupName, Guards, Selector, SuccessCriteria, kind};
use crate::diagnostic::{Diagnostic, Mark, SourceId};
use crate::document::Node;

/// The strategy document that is looked for if none is named.
pub const DEFAULT_STRATEGY: &str = "deployment-strategy";

/// The name of the group that stands for a site without a strategy.
const DEFAULT_GROUP: &str = "default";

/// Reads timeouts and groups.
pub(super) fn add_strategy(catalog: &Catalog<'_>, guards: &mut Guards, findings: &mut Findings) {
    let configuration = configuration_of(catalog, findings);
    if let Some((_, data)) = configuration {
        guards.configuration = read_configuration(data);
    }
    guards.groups = match strategy_of(catalog, configuration, findings) {
        Some((_, data)) => items(data, "groups")
            .iter()
            .filter_map(read_group)
            .collect(),
        None => vec![all_nodes(configuration)],
    };
}

/// The DeploymentConfiguration that counts: Shipyard's own name for it, or the only one.
pub(super) fn configuration_of<'a>(
    catalog: &Catalog<'a>,
    findings: &mut Findings,
) -> Option<Input<'a>> {
    let all: Vec<_> = catalog.of(kind::CONFIGURATION).collect();
    if let [first, second, ..] = all[..] {
        let chosen = catalog.get(kind::CONFIGURATION, "deployment-configuration");
        let (document, _) = chosen.unwrap_or(first);
        let other = if document.id == first.0.id {
            second.0
        } else {
            first.0
        };
        let message = format!(
            "there is more than one deployment configuration; `{}` counts",
            document.id.name
        );
        findings.push(
            Diagnostic::warning("reference-configuration", other.name_mark, message)
                .related(document.name_mark, "this one counts"),
        );
        return Some(chosen.unwrap_or(first));
    }
    all.first().copied()
}

/// The DeploymentStrategy that counts, if there is one.
pub(super) fn strategy_of<'a>(
    catalog: &Catalog<'a>,
    configuration: Option<Input<'a>>,
    findings: &mut Findings,
) -> Option<Input<'a>> {
    let named = configuration
        .and_then(|(_, data)| data.at(&["physical_provisioner", "deployment_strategy"]))
        .and_then(|node| Some((node, text_of(node)?)));
    let Some((field, name)) = named else {
        let others = catalog.of(kind::STRATEGY);
        for (document, _) in others.filter(|(document, _)| &*document.id.name != DEFAULT_STRATEGY) {
            let message = format!(
                "deployment strategy `{}` does not count: it is not called `{DEFAULT_STRATEGY}`, and no DeploymentConfiguration \
                 names one",
                document.id.name
            );
            findings.push(Diagnostic::warning(
                "reference-strategy",
                document.name_mark,
                message,
            ));
        }
        return catalog.get(kind::STRATEGY, DEFAULT_STRATEGY);
    };
    let found = catalog.get(kind::STRATEGY, &name);
    if found.is_none() {
        let message = format!("there is no deployment strategy `{name}`");
        findings.push(
            Diagnostic::error("reference-strategy", field.mark, message)
                .did_you_mean(&name, catalog.names(kind::STRATEGY)),
        );
    }
    found
}

fn all_nodes(configuration: Option<Input<'_>>) -> Group {
    Group {
        name: GroupName::from(DEFAULT_GROUP),
        critical: true,
        depends_on: Vec::new(),
        selectors: Vec::new(),
        success_criteria: SuccessCriteria {
            percent_successful_nodes: Some(100),
            ..SuccessCriteria::default()
        },
        mark: configuration.map_or(Mark::new(SourceId(u32::MAX), 0), |(document, _)| {
            document.mark
        }),
    }
}

fn read_group(node: &Node) -> Option<Group> {
    let criteria = node.get("success_criteria");
    let criterion = |key| criteria.and_then(|criteria| number(criteria, key));
    Some(Group {
        name: GroupName::from(text(node, "name")?),
        critical: node
            .get("critical")
            .and_then(Node::as_bool)
            .unwrap_or_default(),
        depends_on: texts(node, "depends_on").map(GroupName::from).collect(),
        selectors: Selector::read_all(node, "selectors"),
        success_criteria: SuccessCriteria {
            percent_successful_nodes: criterion("percent_successful_nodes")
                .and_then(|percent| u32::try_from(percent).ok()),
            minimum_successful_nodes: criterion("minimum_successful_nodes"),
            maximum_failed_nodes: criterion("maximum_failed_nodes"),
        },
        mark: node.mark,
    })
}

fn read_configuration(data: &Node) -> DeploymentConfiguration {
    let default = DeploymentConfiguration::default();
    let seconds = |part: &str, key: &str, default: u64| {
        data.get(part)
            .and_then(|part| number(part, key))
            .unwrap_or(default)
    };
    let machine = |key, default| seconds("physical_provisioner", key, default);
    let cluster = |key, default| seconds("kubernetes_provisioner", key, default);
    DeploymentConfiguration {
        deployment_strategy: data
            .at(&["physical_provisioner", "deployment_strategy"])
            .and_then(text_of),
        verify_timeout: machine("verify_timeout", default.verify_timeout),
        prepare_site_timeout: machine("prepare_site_timeout", default.prepare_site_timeout),
        prepare_node_timeout: machine("prepare_node_timeout", default.prepare_node_timeout),
        deploy_timeout: machine("deploy_timeout", default.deploy_timeout),
        destroy_timeout: machine("destroy_timeout", default.destroy_timeout),
        relabel_nodes_timeout: machine("relabel_nodes_timeout", default.relabel_nodes_timeout),
        join_wait: machine("join_wait", default.join_wait),
        node_status_timeout: seconds(
            "kubernetes",
            "node_status_timeout",
            default.node_status_timeout,
        ),
        drain_timeout: cluster("drain_timeout", default.drain_timeout),
        drain_grace_period: cluster("drain_grace_period", default.drain_grace_period),
        clear_labels_timeout: cluster("clear_labels_timeout", default.clear_labels_timeout),
        remove_etcd_timeout: cluster("remove_etcd_timeout", default.remove_etcd_timeout),
        etcd_ready_timeout: cluster("etcd_ready_timeout", default.etcd_ready_timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::fixture::{document, site};

    fn configuration(data: &str) -> String {
        let data = format!("armada: {{manifest: full-site}}\n{data}");
        document(kind::CONFIGURATION, "deployment-configuration", &data)
    }

    const GROUP: &str = "groups: [{name: g, critical: false, depends_on: [], selectors: []}]";

    #[test]
    fn the_strategy_is_the_one_named_the_default_one_or_one_group_of_all_nodes() {
        let named = configuration("physical_provisioner: {deployment_strategy: mine}");
        let unnamed = configuration("");
        let mine = document(kind::STRATEGY, "mine", GROUP);
        let default = document(kind::STRATEGY, DEFAULT_STRATEGY, GROUP);
        let missing = "reference-strategy 6:47 there is no deployment strategy `mine`";
        let table: &[(&str, String, &[&str], &str)] = &[
            ("named", format!("{named}{mine}"), &[], "g"),
            ("not named", format!("{unnamed}{default}"), &[], "g"),
            ("no configuration", default.clone(), &[], "g"),
            (
                "another one that is not referenced",
                format!("{unnamed}{mine}"),
                &[
                    "reference-strategy 8:18 deployment strategy `mine` does not count: it is not called `deployment-strategy`, and no DeploymentConfiguration names one",
                ],
                "default",
            ),
            ("none at all", unnamed.clone(), &[], "default"),
            (
                "named and not there",
                format!("{named}{default}"),
                &[missing],
                "default",
            ),
        ];
        for (what, text, problems, group) in table {
            let found = site(text);
            assert_eq!(found.problems, *problems, "{what}");
            assert_eq!(found.guards.groups[0].name.as_str(), *group, "{what}");
        }
        let all = &site("").guards.groups[0];
        assert!(all.critical && all.selectors.is_empty());
        assert_eq!(all.success_criteria.percent_successful_nodes, Some(100));
    }

    #[test]
    fn a_zero_that_is_written_stays_zero() {
        let text = configuration("physical_provisioner: {join_wait: 0, deploy_timeout: 60}");
        let expected = DeploymentConfiguration {
            join_wait: 0,
            deploy_timeout: 60,
            ..DeploymentConfiguration::default()
        };
        assert_eq!(site(&text).guards.configuration, expected);
    }
}
