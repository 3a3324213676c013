//! The messages for mistakes in a document, and that the schemas are fit for people.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::own::{DOCUMENT, OWN};
use super::*;
use crate::design::fixture::{document, documents, lines};

/// The problems of documents in the short form.
fn problems(text: &str) -> Vec<String> {
    let (sources, documents) = documents(text);
    let inputs: Vec<Input<'_>> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    lines(validate(&inputs, 1), &sources)
}

fn data(schema: &str, data: &str) -> Vec<String> {
    problems(&document(schema, "x", data))
}

#[test]
fn an_integer_that_no_reader_has_is_refused() {
    for value in [
        "18446744073709551617",
        "-18446744073709551617",
        "9007199254740992",
    ] {
        let text = format!(
            "groups:\n- {{name: a, critical: true, depends_on: [], selectors: [], success_criteria: {{minimum_successful_nodes: {value}}}}}"
        );
        let found = data(kind::STRATEGY, &text);
        assert_eq!(found.len(), 1, "{value}: {found:?}");
        assert!(found[0].starts_with("schema-value 6:107 "), "{found:?}");
    }
}

#[test]
fn every_mistake_is_named_at_its_place() {
    let strategy = kind::STRATEGY;
    let table: &[(&str, &str, &[&str])] = &[
        (strategy, "groups: []", &[]),
        (
            strategy,
            "groups:\n- name: a\n  critcal: true\n  depends_on: []\n  selectors: []",
            &[
                "schema-missing-field 6:5 `data.groups[0]` has no field `critical` (`critical`: Whether the site action fails when this group does.)",
                "schema-unknown-field 7:5 `data.groups[0]` has an unknown field `critcal` (did you mean `critical`?)",
            ],
        ),
        (
            strategy,
            "groups:\n- {name: 7, critical: 'yes', depends_on: null, selectors: [{node_label: []}], success_criteria: {percent_successful_nodes: 101}}",
            &[
                "schema-type 6:12 `data.groups[0].name` must be a string, not an integer (YAML reads this as an integer; put it in quotes)",
                "schema-type 6:25 `data.groups[0].critical` must be a boolean, not a string",
                "schema-type 6:44 `data.groups[0].depends_on` must be a list, not null (write `[]` for an empty list)",
                "schema-unknown-field 6:63 `data.groups[0].selectors[0]` has an unknown field `node_label` (did you mean `node_labels`?)",
                "schema-value 6:126 `data.groups[0].success_criteria.percent_successful_nodes` must be at most 100",
            ],
        ),
        (
            strategy,
            "groups:\n- {name: '', critical: true, depends_on: [], selectors: [{node_labels: [{a: b, c: d}, 'x', 'k: v', {k: v}, 7]}], success_criteria: {}}",
            &[
                "schema-value 6:12 `data.groups[0].name` must not be empty",
                "schema-value 6:75 `data.groups[0].selectors[0].node_labels[0]` must have one field only",
                "schema-value 6:89 `data.groups[0].selectors[0].node_labels[1]` has not the form that is wanted here (for example `ucp_control_plane: enabled`)",
                "schema-value 6:110 `data.groups[0].selectors[0].node_labels[4]` has none of the forms that are allowed here",
                "schema-value 6:134 `data.groups[0].success_criteria` must not be empty",
            ],
        ),
        (
            kind::NODE,
            "host_profle: a\nmetadata: {tags: masters}\nplatform: {kernel_params: {'!quiet': null, x: true}}\nstorage: {physical_devices: {'!sda': {}, sdb: {partitions: [{name: '!a'}, {size: 1g}]}}}",
            &[
                "schema-unknown-field 5:3 `data` has an unknown field `host_profle` (did you mean `host_profile`?)",
                "schema-type 6:20 `data.metadata.tags` must be a list, not a string (a list of one is `[masters]`)",
                "schema-missing-field 8:77 `data.storage.physical_devices.sdb.partitions[1]` has no field `name` (`name`: Its name, by which it meets the one of the profile above; `!name` removes that one.)",
            ],
        ),
        (
            kind::HARDWARE_PROFILE,
            "boot_mode: ueif",
            &["schema-value 5:14 `data.boot_mode` must be `bios` or `uefi` (did you mean `uefi`?)"],
        ),
        (
            kind::RETIREMENT,
            "retirements:\n- {reason: old}\n- {reason: x, node_names: [n1], from: 1.3.2026}\n- {reason: y, rack_names: [r1], from: 2026-03-01}",
            &[
                "schema-missing-field 6:5 `data.retirements[0]` needs `node_names`, `node_tags`, `node_labels` or `rack_names`",
                "schema-value 7:41 `data.retirements[1].from` has not the form that is wanted here (for example `2026-03-01`)",
            ],
        ),
        (
            kind::POLICY,
            "maintenance_windows: [{from: 22:00, to: '04:00'}]\nwipe: maybe\nmax_unavailable: 0\nblast_radius: {wipe: 3}",
            &[
                "schema-type 5:32 `data.maintenance_windows[0].from` must be a string, not an integer (YAML reads this as an integer; put it in quotes)",
                "schema-value 6:9 `data.wipe` must be `require` or `skip`",
                "schema-type 7:20 `data.max_unavailable` must be a map, not an integer (for example `{\"per_rack\":1,\"total\":3}`)",
                "schema-type 8:24 `data.blast_radius.wipe` must be a map, not an integer (for example `{\"machines\":20}`)",
            ],
        ),
        (
            kind::ETCD_CLUSTERS,
            "clusters: [{name: a, members: [], credentials: {key: '-----BEGIN', ca: {fil: x}, cert: {env: A, file: b}}}]",
            &[
                "schema-value 5:33 `data.clusters[0].members` must not be empty",
                "schema-type 5:56 `data.clusters[0].credentials.key` must be a map, not a string (for example `{\"env\":\"BMC_PASSWORD\"}`)",
                "schema-unknown-field 5:75 `data.clusters[0].credentials.ca` has an unknown field `fil` (did you mean `file`?)",
                "schema-value 5:90 `data.clusters[0].credentials.cert` must have one field only",
            ],
        ),
        (
            kind::BACKENDS,
            "hardware: {kind: sim, sim: {clock: virtual, faults: [{nodes: ['n*'], step: deploy, outcome: explode}]}}",
            &[
                "schema-value 5:95 `data.hardware.sim.faults[0].outcome` must be `fail`, `hang`, `late`, `lost-answer`, `fail-once`, `unobservable`, `not-ready` or `no-etcd`",
            ],
        ),
        ("deckhand/Passphrase/v1", "text", &[]),
        (
            "deckhand/Passphrase/v1",
            "{a: b}",
            &["schema-type 5:3 `data` must be a string, not a map"],
        ),
        ("pegleg/Whatever/v1", "{a: b}", &[]),
    ];
    let wrong: Vec<_> = table
        .iter()
        .map(|(schema, text, expected)| (data(schema, text), *expected, text))
        .filter(|(found, expected, _)| found != expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_secret_shows_neither_its_value_nor_its_fields() {
    let text = document(kind::HARDWARE_PROFILE, "x", "{hunter2: 1, boot_mode: hunter3}").replace(
        "{name: x}",
        "{schema: metadata/Document/v1, name: x, storagePolicy: encrypted, layeringDefinition: {layer: site}}",
    );
    let found = problems(&text);
    assert_eq!(
        found,
        [
            "schema-unknown-field 5:3 `data` has a field that is not known",
            "schema-value 5:27 `data.…` must be `bios` or `uefi`",
        ]
    );
}

#[test]
fn the_schemas_of_a_site_apply_beside_trueups_own() {
    let own = "schema: deckhand/DataSchema/v1\nmetadata: {schema: metadata/Control/v1, name: NAME}\ndata: ";
    let table: &[(&str, &str, &str, &[&str])] = &[
        (
            "our/Thing/v1",
            "{$schema: 'http://json-schema.org/schema#', type: object, required: [a], properties: {a: {type: string, pattern: '^x', format: ipv4}}}",
            "a: yx",
            &["schema-value 9:6 `data.a` does not match `^x`"],
        ),
        (
            "our/Thing/v1",
            "{properties: {a: {pattern: '^(?!b)x'}}}",
            "a: yx",
            &["schema-value 9:6 `data.a` does not match `^(?!b)x`"],
        ),
        (
            "our/Thing/v1",
            "{type: object, additionalProperties: true}",
            "a: 1",
            &[],
        ),
        (
            "our/Thing/v1",
            "{type: object}",
            "[a]",
            &["schema-type 9:3 `data` must be a map, not a list"],
        ),
        (
            "our/Thing/v1",
            "{properties: {a: {type: strng}}}",
            "a: 1",
            &[
                "schema-invalid 4:31 this is no JSON Schema: `data.properties.a.type` has none of the forms that are allowed here",
            ],
        ),
        (
            "our/Thing/v1",
            "{$ref: 'http://127.0.0.1:9/schema.json'}",
            "a: 1",
            &[
                "schema-reference 4:14 `http://127.0.0.1:9/schema.json` is outside this schema (references to other files and to the network are not followed)",
            ],
        ),
        (
            "our/Thing/v1",
            "{$ref: 'file:///etc/passwd'}",
            "a: 1",
            &[
                "schema-reference 4:14 `file:///etc/passwd` is outside this schema (references to other files and to the network are not followed)",
            ],
        ),
        (
            "our/Thing/v1",
            "{properties: {a: {$ref: '#/definitions/none'}, b: {type: string}}}",
            "{a: 1, b: 1}",
            &[
                "schema-reference 4:31 `#/definitions/none` is not in this schema (values behind this reference are not checked)",
                "schema-type 9:13 `data.b` must be a string, not an integer (YAML reads this as an integer; put it in quotes)",
            ],
        ),
        (
            "our/Thing/v1",
            "{definitions: {d: {type: integer}}, properties: {a: {$ref: '#/definitions/d'}}}",
            "a: 1.0",
            &["schema-type 9:6 `data.a` must be an integer, not a number"],
        ),
        (
            kind::RACK,
            "{required: [labels]}",
            "{locaton: {}}",
            &[
                "schema-missing-field 9:3 `data` has no field `labels`",
                "schema-unknown-field 9:4 `data` has an unknown field `locaton` (did you mean `location`?)",
            ],
        ),
    ];
    for (schema, definition, text, expected) in table {
        let own = own.replace("NAME", schema) + definition + "\n";
        let text = format!("---\n{own}{}", document(schema, "x", text));
        assert_eq!(problems(&text), *expected, "{definition}");
    }
}

/// A DataSchema of a kind, and a document of it.
fn of_site(definition: &str, text: &str) -> String {
    format!(
        "---\nschema: deckhand/DataSchema/v1\nmetadata: {{schema: metadata/Control/v1, name: our/Thing/v1}}\ndata: {definition}\n{}",
        document("our/Thing/v1", "x", text)
    )
}

/// A chain of definitions, each of which is the next one twice.
fn doubling(length: usize) -> String {
    let chain: String = (1..=length)
        .map(|at| {
            format!(
                "d{at}: {{anyOf: [{{$ref: '#/definitions/d{0}'}}, {{$ref: '#/definitions/d{0}'}}]}}, ",
                at - 1
            )
        })
        .collect();
    format!("{{$ref: '#/definitions/d{length}', definitions: {{{chain}d0: {{type: string}}}}}}")
}

#[test]
fn a_schema_that_doubles_with_each_definition_is_refused_before_it_is_compiled() {
    assert_eq!(problems(&of_site(&doubling(8), "{a: 1}")).len(), 1);
    let found = problems(&of_site(&doubling(22), "{a: 1}"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("schema-too-large 4:")
            && found[0].contains("stands for more than 20000 parts"),
        "{found:?}"
    );
    // The same behind names that a part gives itself, which are places in the schema and nothing else.
    let named = doubling(22).replace("d0: {", "d0: {id: '#d0', ");
    assert!(problems(&of_site(&named, "{a: 1}"))[0].starts_with("schema-too-large"));
    let endless = problems(&of_site("{anyOf: [{$ref: '#'}, {$ref: '#'}]}", "{a: 1}"));
    assert!(
        endless[0].contains("`#` leads back to itself"),
        "{endless:?}"
    );
    let chain: String = (1..=5_000)
        .map(|at| format!("d{at}: {{$ref: '#/definitions/d{}'}}, ", at - 1))
        .collect();
    let deep = format!("{{$ref: '#/definitions/d5000', definitions: {{{chain}d0: {{}}}}}}");
    assert!(problems(&of_site(&deep, "{}"))[0].contains("lead too deep"));
}

#[test]
fn a_document_that_a_schema_looks_at_again_and_again_is_refused_when_the_budget_is_spent() {
    let twice = "{anyOf: [{properties: {a: {$ref: '#'}}, required: [b]}, {properties: {a: {$ref: '#'}}, required: [c]}]}";
    let nested = |depth: usize| format!("{}1{}", "{a: ".repeat(depth), "}".repeat(depth));
    assert!(
        problems(&of_site(twice, &nested(4)))
            .iter()
            .all(|line| !line.contains("too-costly"))
    );
    let found = problems(&of_site(twice, &nested(80)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("schema-too-costly 9:3"), "{found:?}");
    // As deep as documents may be, and as many references in the place of each value.
    let chain: String = (1..=25)
        .map(|at| {
            format!(
                "d{at}: {{allOf: [{{$ref: '#/definitions/d{}'}}]}}, ",
                at - 1
            )
        })
        .collect();
    let deep = format!(
        "{{$ref: '#/definitions/d25', definitions: {{{chain}d0: {{properties: {{a: {{$ref: '#/definitions/d25'}}}}}}}}}}"
    );
    assert_eq!(problems(&of_site(&deep, &nested(95))), Vec::<String>::new());
}

#[test]
fn a_pattern_is_compiled_within_limits_and_so_are_all_schemas_together() {
    let found = problems(&of_site(
        "{properties: {a: {pattern: '^\\pL{2000}$'}}}",
        "{a: x}",
    ));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("schema-invalid"), "{found:?}");
    let large = format!("{{enum: [{}]}}", "a, ".repeat(15_000));
    let many: String = (0..40)
        .map(|at| of_site(&large, "a").replace("our/Thing/v1", &format!("our/Thing/v{at}")))
        .collect();
    let found = problems(&many);
    assert!(
        found
            .iter()
            .all(|line| line.contains("the DataSchemas of the site have more than 500000 parts")),
        "{found:?}"
    );
    assert_eq!(found.len(), 7);
}

#[test]
fn no_more_problems_are_listed_than_a_person_reads() {
    let many: String = (0..80).map(|at| format!("- {{name: {at}}}\n")).collect();
    let found = data(kind::STRATEGY, &format!("groups:\n{many}"));
    assert_eq!(found.len(), MOST_PROBLEMS + 1);
    assert!(
        found
            .iter()
            .any(|line| line.ends_with("more problems are not listed"))
    );
}

#[test]
fn threads_change_nothing() {
    let text: String = (0..200)
        .map(|at| document(kind::RACK, &format!("r{at}"), "{locaton: 1}"))
        .collect();
    let (_, documents) = documents(&text);
    let inputs: Vec<Input<'_>> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let one = validate(&inputs, 1);
    assert_eq!(one.iter().len(), 200);
    for threads in [0, 2, 3, 500] {
        assert_eq!(validate(&inputs, threads), one, "{threads}");
    }
}

#[test]
fn a_pattern_costs_its_size_for_each_character_of_a_text_or_key() {
    let text = "ab".repeat(20_000);
    let with = |pattern: &str, text: &str| {
        problems(&of_site(
            &format!("{{properties: {{a: {{pattern: '{pattern}'}}}}}}"),
            &format!("{{a: {text}}}"),
        ))
    };
    assert_eq!(with("^[ab]*a[ab]{59}$", &text), Vec::<String>::new());
    let found = with("^[ab]*a[ab]{6000}c", &text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("schema-too-costly"), "{found:?}");
    let keys = |pattern: &str, count: usize| {
        let keys: String = (0..count)
            .map(|at| format!("{}b{at}: 1, ", "a".repeat(60)))
            .collect();
        problems(&of_site(
            &format!("{{patternProperties: {{'{pattern}': {{type: integer}}}}}}"),
            &format!("{{{keys}}}"),
        ))
    };
    assert_eq!(keys("^(?!x)[ab0-9]+$", 100), Vec::<String>::new());
    for (pattern, count) in [("^(a|aa)+\\1$", 6_000), ("^[ab]*a[ab]{6000}c", 6_000)] {
        let found = keys(pattern, count);
        assert_eq!(found.len(), 1, "{pattern} {found:?}");
        assert!(found[0].starts_with("schema-too-costly"), "{found:?}");
    }
}

#[test]
fn patterns_that_do_not_end_where_the_budget_is_spent_are_an_error_and_no_panic() {
    let each = |make: fn(usize) -> String| (0..100).map(make).collect::<String>();
    let fields = each(|at| format!("a{at}: {{pattern: '^(a|aa)+\\1$'}}, "));
    let values = each(|at| format!("a{at}: {}b, ", "a".repeat(60)));
    let found = problems(&of_site(
        &format!("{{properties: {{{fields}}}}}"),
        &format!("{{{values}}}"),
    ));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("schema-too-costly"), "{found:?}");
}

#[test]
fn documents_that_are_each_within_their_budget_are_not_all_checked_where_together_they_are_not() {
    let alternatives: String = (0..100)
        .map(|at| format!("{{properties: {{a: {{type: integer}}}}, required: [z{at}]}}, "))
        .collect();
    let dear = format!("{{anyOf: [{alternatives}{{required: [y]}}]}}");
    let site = |count: usize| {
        let more = |at: usize| document("our/Thing/v1", &format!("more{at:05}"), "{a: 1, y: 1}");
        let cheap = of_site("{required: [a]}", "{a: 1}").replace("our/Thing", "our/Cheap");
        let all: String = (0..count).map(more).collect();
        format!("{}{cheap}{all}", of_site(&dear, "{a: 1, y: 1}"))
    };
    assert_eq!(problems(&site(100)), Vec::<String>::new());
    let (sources, documents) = documents(&site(1_000));
    let inputs: Vec<Input<'_>> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let small = Purse {
        any: 20_000,
        per_value: 10,
        most: 60_000,
    };
    let one = validate_within(&inputs, 1, small, None);
    let found = lines(one.clone(), &sources);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("schema-too-costly 4:")
            && found[0].contains("most of them for `our/Thing/v1`")
            && found[0].contains("and what follows it is not checked"),
        "{found:?}"
    );
    for threads in [2, 7] {
        assert_eq!(
            validate_within(&inputs, threads, small, None),
            one,
            "{threads}"
        );
    }
    assert!(validate(&inputs, 2).is_empty());
}

#[test]
fn the_machines_of_a_large_site_are_within_the_budget_of_a_site() {
    let pattern = "^(([0-9]{1,3}\\.){3}[0-9]{1,3}|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)$";
    let fields: String = (0..40)
        .map(|at| format!("f{at}: {{type: string, pattern: '{pattern}'}}, "))
        .collect();
    let values: String = (0..40)
        .map(|at| format!("f{at}: 10.20.30.{at}, "))
        .collect();
    let text = of_site(
        &format!("{{properties: {{{fields}}}, additionalProperties: false}}"),
        &format!("{{{values}}}"),
    );
    let (_, documents) = documents(&text);
    let inputs: Vec<Input<'_>> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let (schemas, _) = compile(&inputs, 1, None);
    let taken = schemas["our/Thing/v1"][0].check(inputs[1].1, &mut Vec::new());
    assert!(purse::is_enough_for(taken, 100_000), "{taken:?}");
}

/// Calls `visit` for every schema inside a schema.
fn every(schema: &Json, path: &str, visit: &mut impl FnMut(&str, &Json)) {
    visit(path, schema);
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "properties" | "$defs" | "patternProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    every(inner, &format!("{path}/{key}/{name}"), visit);
                }
            }
            "items" | "additionalProperties" => every(value, &format!("{path}/{key}"), visit),
            _ => {}
        }
    }
}

/// Calls `visit` for every schema with a pattern, whatever it is in.
fn patterns(schema: &Json, path: &str, visit: &mut impl FnMut(&str, &Json)) {
    if schema["pattern"].is_string() {
        visit(path, schema);
    }
    let fields = schema.as_object().into_iter().flatten();
    let items = schema.as_array().into_iter().flatten().enumerate();
    // What must not match needs no example.
    for (key, value) in fields.filter(|(key, _)| *key != "not") {
        patterns(value, &format!("{path}/{key}"), visit);
    }
    for (index, value) in items {
        patterns(value, &format!("{path}/{index}"), visit);
    }
}

#[test]
fn a_text_that_has_not_the_wanted_form_is_told_with_one_that_has() {
    for (schema, text) in OWN {
        let json: Json = serde_json::from_str(text).unwrap();
        patterns(&json, "", &mut |path, inner| {
            let form = serde_json::json!({"pattern": inner["pattern"]});
            let example = &inner["examples"][0];
            assert!(
                jsonschema::is_valid(&form, example) && example.is_string(),
                "{schema} {path}: {example}"
            );
        });
    }
    let policy = "{failure_domains: [rak], soak: {time: 0s}}";
    let found = data(kind::POLICY, policy);
    let hints = ["(for example `label:feed`)", "(for example `30m`)"];
    for (problem, hint) in found.iter().zip(hints) {
        assert!(problem.ends_with(hint), "{problem}");
    }
    assert_eq!(found.len(), hints.len(), "{found:?}");
}

#[test]
fn every_field_of_our_schemas_is_described_and_every_example_is_valid() {
    for (schema, text) in OWN {
        let json: Json = serde_json::from_str(text).unwrap();
        assert!(own_schema(schema).is_some(), "{schema} cannot be used");
        for key in ["title", "description"] {
            assert!(json[key].is_string(), "{schema} has no {key}");
        }
        every(&json, "", &mut |path, inner| {
            let is_field = path.rsplit('/').nth(1) == Some("properties");
            let is_bare = inner.get("$ref").is_some();
            assert!(
                !is_field || is_bare || inner["description"].is_string(),
                "{schema} {path} has no description"
            );
        });
        let examples = json["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{schema} has no example");
        for example in examples {
            let found = data(schema, &example.to_string());
            assert_eq!(found, Vec::<String>::new(), "{schema}: {example}");
        }
    }
}

#[test]
fn the_schema_of_a_whole_document_leads_to_each_kind() {
    struct OtherDocuments(BTreeMap<String, &'static str>);
    impl jsonschema::Retrieve for OtherDocuments {
        fn retrieve(
            &self,
            uri: &jsonschema::Uri<String>,
        ) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
            let name = uri.as_str().rsplit('/').next().unwrap_or_default();
            Ok(serde_json::from_str(
                self.0.get(name).ok_or("not beside it")?,
            )?)
        }
    }
    let files = OWN
        .iter()
        .map(|(schema, text)| (schema.replace('/', ".") + ".json", *text))
        .collect();
    let json: Json = serde_json::from_str(DOCUMENT).unwrap();
    let validator = jsonschema::options()
        .with_base_uri("json-schema:///schemas/document.json")
        .with_retriever(OtherDocuments(files))
        .build(&json)
        .unwrap();
    for example in json["examples"].as_array().unwrap() {
        assert!(validator.is_valid(example));
    }
    for (schema, text) in OWN {
        let own: Json = serde_json::from_str(text).unwrap();
        let with = |data: &Json| serde_json::json!({"schema": schema, "metadata": {"name": "x"}, "data": data});
        assert!(validator.is_valid(&with(&own["examples"][0])), "{schema}");
        assert!(
            !validator.is_valid(&with(&Json::from(7))),
            "{schema} is not reached"
        );
    }
}

#[test]
fn what_sites_share_is_checked_once_and_takes_as_many_visits_of_each() {
    let schema = "{required: [a], properties: {a: {type: string, pattern: '^x*$'}}}";
    let (_, documents) = documents(&of_site(schema, "{a: xxx}"));
    let inputs: Vec<Input<'_>> = documents
        .iter()
        .map(|document| (&**document, &document.data))
        .collect();
    let mut cache = SchemaCache::default();
    cache.share(documents[0].mark.source);
    let compiled = || {
        let (schemas, problems) = compile(&inputs, 1, Some(&cache));
        assert!(problems.is_empty(), "{problems:?}");
        schemas["our/Thing/v1"].clone()
    };
    let (one, other) = (compiled(), compiled());
    assert!(one.len() == 1 && Arc::ptr_eq(&one[0], &other[0]));
    let (document, data) = inputs
        .iter()
        .find(|(each, _)| *each.id.schema == *"our/Thing/v1")
        .unwrap();
    assert!(cache.taken(document, data, &one).is_none());
    assert!(validate_with(&inputs, 1, Some(&cache)).is_empty());
    let mut found = Vec::new();
    let taken = one[0].check(data, &mut found);
    let known = cache.taken(document, data, &one).unwrap();
    assert_eq!((known.visits, known.values), (taken.visits, taken.values));
    assert!(taken.visits > 0 && found.is_empty());
    // Other schemas of the kind are another check.
    assert!(cache.taken(document, data, &[]).is_none());
}
