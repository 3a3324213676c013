//! Machines that would be built with an address of another one.

use super::leaving::blocked;
use super::*;

type Edit = fn(&mut PlanFixture);

/// A new machine with an address that `holder` was built with, and still has by its design.
fn taken() -> PlanFixture {
    let mut site = PlanFixture::settled(&["heir", "holder"]);
    let own = || vec![(Arc::from("oam"), Arc::from("10.0.0.7/24"))].into();
    site.bare("heir");
    site.designed("heir").addresses = own();
    site.designed("holder").addresses = own();
    Arc::make_mut(site.old.nodes.get_mut("holder").unwrap()).addresses = own();
    site
}

#[test]
fn an_address_is_free_only_once_the_machine_that_has_it_is_torn_down() {
    let keeps = "heir: its address 10.0.0.7 is one of `holder`, which keeps it: \
                 tear that down first, or give this one another [never]";
    let first = "heir: its address 10.0.0.7 is one of `holder` until that is built again, \
                 which has to come first: `--target holder` [never]";
    let table: &[(&str, Edit, &[&str])] = &[
        ("it stays", |_| (), &[keeps]),
        (
            "it is built again without the address",
            |site| {
                site.designed("holder").addresses = Addresses::default();
                site.edit("holder", Section::OperatingSystem);
                site.options.allow_redeploy = all();
            },
            &[first],
        ),
        (
            "it leaves the design, and is torn down",
            |site| {
                site.leave("holder");
                site.options.allow_destroy = all();
            },
            &[],
        ),
        (
            "it was torn down",
            |site| {
                site.leave("holder");
                site.bare("holder");
            },
            &[],
        ),
        (
            "its record tells of no system",
            |site| site.record("holder").phase = Phase::Prepared,
            &[],
        ),
    ];
    for (what, edit, expected) in table {
        let mut site = taken();
        edit(&mut site);
        let found = blocked(&site.plan());
        let of_heir: Vec<_> = found.iter().filter(|it| it.starts_with("heir")).collect();
        assert_eq!(of_heir, expected.iter().collect::<Vec<_>>(), "{what}");
    }
}
