//! Machines that a former site has as deployed.

use super::*;

#[test]
fn a_machine_of_a_former_site_is_built_on_purpose_only_and_never_past_its_approvals() {
    type Edit = fn(&mut PlanFixture);
    let table: &[(&str, Edit, &str)] = &[
        (
            "no record, and a former site has it as deployed",
            |w| {
                w.bare("n");
                w.built_by_former("n", false);
            },
            "create; --allow-redeploy n; ",
        ),
        (
            "no record, not seen, and a former site has it as deployed",
            |w| {
                w.bare("n");
                w.seen("n").provision = Fact::Unknown(Arc::from("the controller is dead"));
                w.built_by_former("n", false);
            },
            "unknown; --allow-redeploy n; ",
        ),
        (
            "no record, a former site has it as deployed, and redeploys are allowed",
            |w| {
                w.bare("n");
                w.built_by_former("n", false);
                w.options.allow_redeploy = all();
            },
            "create; ; prepare/all/n deploy/all/n",
        ),
        (
            "no record, a former site that asks for approvals has it as deployed, and redeploys are allowed",
            |w| {
                w.bare("n");
                w.built_by_former("n", true);
                w.options.allow_redeploy = all();
            },
            "create; never; ",
        ),
        (
            "no record, active, and a former site that asks for approvals has it as deployed",
            |w| {
                w.records.clear();
                w.built_by_former("n", true);
                w.options.adopt = all();
            },
            "adopt; never; ",
        ),
    ];
    for (what, edit, expected) in table {
        let mut fixture = PlanFixture::settled(&["n"]);
        edit(&mut fixture);
        assert_eq!(told(&fixture), *expected, "{what}");
    }
}
