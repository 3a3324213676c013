//! The rules, in their order.

use super::rule::{Family, Rule, Sees};
use super::{
    blast, claims, design, failures, groups, guards, interleaving, node_order, quorum, shape,
    site_order, teardown, world,
};

/// Writes the rules, one a line: its function and code, what it is about, what it has to see, and the sentence that it holds.
macro_rules! rules {
    ($($module:ident::$judge:ident: $code:literal, $family:ident, $sees:ident, $sentence:literal;)+) => {
        /// All rules, in the order in which a plan is held to them.
        pub static RULES: [Rule; [$($code),+].len()] = [$(Rule {
            code: $code,
            sentence: $sentence,
            family: Family::$family,
            sees: Sees::$sees,
            judge: $module::$judge,
        }),+];
    };
}

rules! {
    shape::ids: "check-ids", Shape, Plan, "ids are unique and parse";
    shape::needs: "check-needs", Shape, Plan, "needs exist and are acyclic";
    shape::belongs: "check-belongs", Shape, Plan, "every step belongs to a change, a group or the site";
    shape::once: "check-once", Shape, Plan, "a node has one change, and is in a run once";
    shape::of_change: "check-steps", Shape, Plan, "every change has the steps of its kind and no others";
    shape::carried_out: "check-carried-out", Shape, Plan, "nothing blocked, excluded or only shown has a step";
    shape::effects: "check-effect", Shape, Plan, "a step has the effect of its kind";
    shape::destructive: "check-destructive", Shape, Plan, "what destroys is in a change that is shown as destructive";
    shape::allowed: "check-allowed", Shape, Plan, "what destroys is allowed by flag, approval or Policy";
    shape::disruption: "check-disruption", Shape, Plan, "no change goes further with its machine than flags and Policy allow";
    shape::narrowed: "check-targets", Shape, Plan, "no step is on a node that is not targeted, or excluded";
    node_order::order: "check-node-order", Order, Plan, "the steps of a node wait for each other in the order of airship-node-teardown";
    teardown::complete: "check-teardown", Order, Plan, "no step of a teardown is left out";
    site_order::first: "check-site-order", Order, Plan, "the site is verified and prepared before it is changed";
    groups::in_turn: "check-group-order", Order, Plan, "a group begins after its dependencies have succeeded";
    groups::inside: "check-gates", Order, Plan, "the prepare gate comes before each deploy, and a gate judges all nodes of its group";
    site_order::critical: "check-critical", Order, Plan, "the check of critical groups comes before removals";
    site_order::tag: "check-tag", Order, Plan, "the tag comes last, in a plan of the site only";
    design::grace: "check-grace", Shape, Plan, "the grace period of a drain is less than its timeout";
    design::disks: "check-disks", Shape, Plan, "disks that are erased are shown, and local storage that is preserved is kept";
    failures::behind_a_check: "check-wave-start", Failures, Plan, "each wave stands behind a check at the act";
    claims::summary: "check-summary", Claims, Plan, "the counts of the summary are those of the changes";
    claims::rungs: "check-rung", Claims, Plan, "a change goes no further with its machine than it says";
    claims::longest_path: "check-longest-path", Claims, Plan, "the longest way takes as long as the summary says";
    claims::waves: "check-wave-size", Claims, Plan, "no wave is larger than the plan says";
    quorum::quorum: "check-quorum", Interleaving, Site, "whichever members are away together, each etcd cluster keeps its quorum and its threshold";
    interleaving::control_plane: "check-control-plane", Interleaving, Site, "one machine of the control plane is away at a time";
    interleaving::within_limits: "check-limits", Interleaving, Site, "no more machines of a site, group, rack or tag are away together than the guards allow, and those that do not come back keep their places in the run";
    interleaving::in_one_domain: "check-failure-domains", Interleaving, Site, "machines that are away together are in one failure domain of each kind";
    failures::back_before: "check-back-before", Failures, Site, "no wave starts before what a cluster stands on is back";
    failures::soaks: "check-soak", Failures, Site, "each wave stands behind the soak of the one before it";
    guards::protected: "check-protected", Guards, Site, "no protected machine is taken away";
    world::retired: "check-retired", World, Site, "a retired machine is left alone";
    blast::radius: "check-blast-radius", Guards, Site, "what reaches more than one commit may is shown with it";
    guards::forbidden: "check-forbidden-flags", Guards, Site, "no flag is used that the policy forbids";
    guards::loosened: "check-loosened", Guards, Site, "a flag that loosens a guard is shown with it";
    guards::values: "check-guards", Guards, Site, "the guards of the plan are those that are resolved";
    guards::approvals: "check-approvals", Guards, Site, "approvals counted meet the rules";
    design::change: "check-change", Shape, Site, "only what has left the design is torn down for good by an update";
    design::times: "check-times", Reach, Site, "timeouts and grace periods are those of flags and configuration";
    groups::of_strategy: "check-groups", Reach, Site, "groups have the members that their selectors select";
    design::parameters: "check-parameters", Reach, Site, "image and labels are those of the design";
    design::machine: "check-machine", Reach, Site, "a machine is designed and reached as the documents say";
    design::secrets: "check-secrets", Reach, Site, "no secret stands in the plan";
    claims::counted: "check-counted", Claims, Site, "every designed node is changed, unchanged or retired";
    world::identity: "check-identity", World, World, "the machine of every step was proven to be the one that is meant";
    world::unknown: "check-unknown", World, World, "nothing unknown is acted on";
    world::held: "check-held", World, World, "a machine in maintenance is left alone, and none is deployed over";
    world::reserved: "check-reserved", World, World, "nothing is done on a machine that a person has reserved";
    world::expected: "check-expected", World, World, "no machine is deployed without the parts that the policy demands";
    world::addresses: "check-addresses", World, World, "no machine is built with an address that another one still has";
    teardown::observed: "check-leaves", World, World, "a machine that is in a cluster leaves it before it is destroyed";
    world::relied_on: "check-relies-on", World, World, "what a step relies on is in `relies_on`, with the value observed";
    world::ids: "check-observed-ids", World, World, "node UID, member id and cluster id are those observed";
    failures::owed_soaks: "check-soak-owed", World, World, "what came back in a wave whose soak did not succeed is soaked before the next wave";
    design::renamed: "check-renamed", Reach, World, "a record gets another name from a node that left";
    world::unchanged: "check-unchanged", Claims, World, "nothing is said to be unchanged that differs from its record";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_checker_has_every_rule_with_its_sentence() {
        let page = include_str!("../../docs/checker.md");
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `check-"))
            .collect();
        for rule in &RULES {
            let row = format!("| `{}` | {} | ", rule.code, rule.sentence);
            let found = rows.iter().filter(|line| line.starts_with(&row)).count();
            assert_eq!(found, 1, "{row}");
        }
        assert_eq!(rows.len(), RULES.len());
        let verdict = format!("\"rules\": {}", RULES.len());
        assert!(page.contains(&verdict), "{verdict}");
    }
}
