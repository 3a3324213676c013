//! The words that options select machines by.

use super::*;

#[test]
fn words_name_nodes_and_with_a_prefix_groups_racks_and_tags_and_those_that_name_nothing_are_errors()
{
    let mut fixture = PlanFixture::settled(&["a1", "a2", "b1", "b2"]);
    for name in ["a1", "a2", "b1", "b2"] {
        fixture.edit(name, Section::Labels);
    }
    fixture.designed("b1").rack = Some(Arc::from("rack1"));
    fixture.designed("b2").tags = Arc::new([Arc::from("gpu")].into());
    fixture.guards.groups = vec![group("g", &[], Vec::new()), group("h", &[], named(&["a2"]))];
    let table: &[(&[&str], &[&str], &str)] = &[
        (&["a1"], &[], "a1"),
        (&["a*"], &[], "a1 a2"),
        (&["rack:rack1", "tag:gpu"], &[], "b1 b2"),
        (&["group:h"], &[], "a2"),
        (&["group:g"], &["b?"], "a1 a2"),
        (&[], &["a1", "a*"], "b1 b2"),
    ];
    for (targets, excludes, expected) in table {
        fixture.options.targets = these(targets);
        fixture.options.excludes = these(excludes);
        let plan = fixture.plan();
        let carried = plan.changes.iter().filter(|change| !change.excluded);
        let carried: Vec<_> = carried.map(|change| change.node.as_str()).collect();
        assert_eq!(carried.join(" "), *expected, "{targets:?} {excludes:?}");
        assert!(plan.is_partial());
    }
    let wrong: &[(&[&str], &str)] = &[
        (
            &["rack:rack2"],
            "`--target`: unknown rack `rack2`; did you mean `rack1`?",
        ),
        (
            &["gpu"],
            "`--target`: unknown node `gpu`; for more than a node, pass `tag:gpu`",
        ),
        (&["z*"], "`--target`: no node matches `z*`"),
    ];
    fixture.options.excludes.clear();
    for (targets, expected) in wrong {
        fixture.options.targets = these(targets);
        assert_eq!(fixture.try_plan().unwrap_err().to_string(), *expected);
    }
    fixture.options.targets.clear();
    fixture.options.adopt.nodes = these(&["gqu"]);
    let error = fixture.try_plan().unwrap_err().to_string();
    assert_eq!(error, "`--adopt`: unknown node `gqu`");
    // A saved plan names the machines that a tag stood for.
    fixture.options.adopt.nodes = these(&["tag:gpu", "a*"]);
    let plan = fixture.plan();
    assert_eq!(plan.options.adopt.nodes, these(&["a*", "b2"]));
}

#[test]
fn a_glob_of_any_form_allows_the_machines_that_it_names() {
    for word in ["n1", "n*", "n?", "n[12]", "n{1,2}"] {
        let mut site = PlanFixture::settled(&["n1", "n2"]);
        site.edit("n1", Section::OperatingSystem);
        site.options.allow_redeploy = Allowance {
            all: false,
            nodes: [Arc::from(word)].into(),
        };
        assert!(
            ids(&site.plan()).contains(&"destroy/all/n1".to_owned()),
            "{word}"
        );
    }
}
