//! Each format over the same hand-made problems, and over hostile ones.

use insta::assert_snapshot;

use super::*;
use crate::diagnostic::{Diagnostics, Mark};
use crate::report::Palette;

fn problems() -> (Diagnostics, Sources) {
    let mut sources = Sources::new();
    let nodes = sources.add(
        "site/x/nodes.yaml",
        "name: n1\nrack: r1\nhost_profle: cp_r720\nname: \"n2\"\n",
    );
    let secret = sources.add("site/x/secrets.yaml", "metadata:\n  data: hunter2\n");
    sources.hide(secret, 18, 25);
    let mut list = Diagnostics::new();
    list.push(
        Diagnostic::error(
            "schema-unknown-field",
            Mark::new(nodes, 18),
            "there is no field `host_profle`",
        )
        .did_you_mean("host_profle", ["host_profile", "hardware_profile"]),
    );
    list.push(
        Diagnostic::error(
            "yaml-duplicate-key",
            Mark::new(nodes, 39),
            "the key `name` is there twice",
        )
        .related(Mark::new(nodes, 0), "first defined here"),
    );
    list.push(Diagnostic::warning(
        "rule-secret",
        Mark::new(secret, 18),
        "the secret is short",
    ));
    list.push(
        Diagnostic::error_in(
            "reference-missing",
            Some("site/x/none, really.yaml"),
            "no such file",
        )
        .hint("write it, or take it out of the list"),
    );
    (list, sources)
}

type Format = fn(&mut dyn std::fmt::Write, &Diagnostics, &Sources) -> std::fmt::Result;

fn plain(
    out: &mut dyn std::fmt::Write,
    diagnostics: &Diagnostics,
    sources: &Sources,
) -> std::fmt::Result {
    text(out, diagnostics, sources, Palette::Plain, true)
}

const ALL: [Format; 6] = [plain, json, github, sarif, junit, codequality];

fn written(format: Format, (diagnostics, sources): &(Diagnostics, Sources)) -> String {
    let mut out = String::new();
    format(&mut out, diagnostics, sources).unwrap();
    out
}

#[test]
fn text_shows_each_problem_at_its_line_and_ends_with_the_counts() {
    assert_snapshot!(written(plain, &problems()), @r#"
    error[schema-unknown-field]: there is no field `host_profle`
     --> site/x/nodes.yaml:3:1
      |
    2 | rack: r1
    3 | host_profle: cp_r720
      | ^^^^^^^^^^^
    4 | name: "n2"
    hint: did you mean `host_profile`?

    error[yaml-duplicate-key]: the key `name` is there twice
     --> site/x/nodes.yaml:4:1
      |
    3 | host_profle: cp_r720
    4 | name: "n2"
      | ^^^^
     ::: site/x/nodes.yaml:1:1
      |
    1 | name: n1
      | ---- first defined here

    warning[rule-secret]: the secret is short
     --> site/x/secrets.yaml:2:9
      |
    1 | metadata:
    2 | (secret)

    error[reference-missing]: no such file
     --> site/x/none, really.yaml
    hint: write it, or take it out of the list

    3 errors, 1 warning
    "#);
}

#[test]
fn json_is_one_versioned_object() {
    assert_snapshot!(written(json, &problems()), @r#"
    {
      "format_version": 1,
      "valid": false,
      "errors": 3,
      "warnings": 1,
      "diagnostics": [
        {
          "code": "schema-unknown-field",
          "severity": "error",
          "file": "site/x/nodes.yaml",
          "line": 3,
          "column": 1,
          "message": "there is no field `host_profle`",
          "hint": "did you mean `host_profile`?",
          "related": []
        },
        {
          "code": "yaml-duplicate-key",
          "severity": "error",
          "file": "site/x/nodes.yaml",
          "line": 4,
          "column": 1,
          "message": "the key `name` is there twice",
          "hint": null,
          "related": [
            {
              "file": "site/x/nodes.yaml",
              "line": 1,
              "column": 1,
              "message": "first defined here"
            }
          ]
        },
        {
          "code": "rule-secret",
          "severity": "warning",
          "file": "site/x/secrets.yaml",
          "line": 2,
          "column": 9,
          "message": "the secret is short",
          "hint": null,
          "related": []
        },
        {
          "code": "reference-missing",
          "severity": "error",
          "file": "site/x/none, really.yaml",
          "line": null,
          "column": null,
          "message": "no such file",
          "hint": "write it, or take it out of the list",
          "related": []
        }
      ]
    }
    "#);
}

#[test]
fn github_gets_one_escaped_command_a_problem() {
    assert_snapshot!(written(github, &problems()), @r"
    ::error file=site/x/nodes.yaml,line=3,col=1,title=schema-unknown-field::there is no field `host_profle`%0Ahint: did you mean `host_profile`?
    ::error file=site/x/nodes.yaml,line=4,col=1,title=yaml-duplicate-key::the key `name` is there twice%0Asite/x/nodes.yaml:1:1: first defined here
    ::warning file=site/x/secrets.yaml,line=2,col=9,title=rule-secret::the secret is short
    ::error file=site/x/none%2C really.yaml,title=reference-missing::no such file%0Ahint: write it, or take it out of the list
    ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one snapshot")]
fn sarif_has_one_run_with_the_codes_as_rules() {
    let version = concat!('"', env!("CARGO_PKG_VERSION"), '"');
    assert_snapshot!(written(sarif, &problems()).replace(version, "VERSION"), @r#"
    {
      "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
      "runs": [
        {
          "columnKind": "unicodeCodePoints",
          "results": [
            {
              "level": "error",
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "site/x/nodes.yaml",
                      "uriBaseId": "%SRCROOT%"
                    },
                    "region": {
                      "startColumn": 1,
                      "startLine": 3
                    }
                  }
                }
              ],
              "message": {
                "text": "there is no field `host_profle`\nhint: did you mean `host_profile`?"
              },
              "partialFingerprints": {
                "trueup/v1": "6aecc92a930c69b6822a7fcea66c51b83474bae9f73e4841b0c8dc273ac71e00"
              },
              "ruleId": "schema-unknown-field",
              "ruleIndex": 2
            },
            {
              "level": "error",
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "site/x/nodes.yaml",
                      "uriBaseId": "%SRCROOT%"
                    },
                    "region": {
                      "startColumn": 1,
                      "startLine": 4
                    }
                  }
                }
              ],
              "message": {
                "text": "the key `name` is there twice"
              },
              "partialFingerprints": {
                "trueup/v1": "9517df800be8155e5a13103fd3ae1d3f5439bc381d776088b56f2dac01e6e1cc"
              },
              "relatedLocations": [
                {
                  "id": 1,
                  "message": {
                    "text": "first defined here"
                  },
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "site/x/nodes.yaml",
                      "uriBaseId": "%SRCROOT%"
                    },
                    "region": {
                      "startColumn": 1,
                      "startLine": 1
                    }
                  }
                }
              ],
              "ruleId": "yaml-duplicate-key",
              "ruleIndex": 3
            },
            {
              "level": "warning",
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "site/x/secrets.yaml",
                      "uriBaseId": "%SRCROOT%"
                    },
                    "region": {
                      "startColumn": 9,
                      "startLine": 2
                    }
                  }
                }
              ],
              "message": {
                "text": "the secret is short"
              },
              "partialFingerprints": {
                "trueup/v1": "0510f9e1c6bd59dba98bdd253514cef1c24bc7dca11a576a5027526c4588acd2"
              },
              "ruleId": "rule-secret",
              "ruleIndex": 1
            },
            {
              "level": "error",
              "locations": [
                {
                  "physicalLocation": {
                    "artifactLocation": {
                      "uri": "site/x/none%2C%20really.yaml",
                      "uriBaseId": "%SRCROOT%"
                    }
                  }
                }
              ],
              "message": {
                "text": "no such file\nhint: write it, or take it out of the list"
              },
              "partialFingerprints": {
                "trueup/v1": "93521fe809cae881d8e0e619eaeb58c0c66562dee6538a307bba1c46aa572385"
              },
              "ruleId": "reference-missing",
              "ruleIndex": 0
            }
          ],
          "tool": {
            "driver": {
              "name": "trueup",
              "rules": [
                {
                  "id": "reference-missing",
                  "shortDescription": {
                    "text": "reference missing"
                  }
                },
                {
                  "id": "rule-secret",
                  "shortDescription": {
                    "text": "rule secret"
                  }
                },
                {
                  "id": "schema-unknown-field",
                  "shortDescription": {
                    "text": "schema unknown field"
                  }
                },
                {
                  "id": "yaml-duplicate-key",
                  "shortDescription": {
                    "text": "yaml duplicate key"
                  }
                }
              ],
              "version": VERSION
            }
          }
        }
      ],
      "version": "2.1.0"
    }
    "#);
}

#[test]
fn junit_has_a_case_for_each_file() {
    assert_snapshot!(written(junit, &problems()), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites>
      <testsuite name="trueup validate" tests="3" failures="2">
        <testcase classname="validate" name="site/x/nodes.yaml">
          <failure type="schema-unknown-field" message="there is no field `host_profle`">site/x/nodes.yaml:3:1: there is no field `host_profle`
      hint: did you mean `host_profile`?
    site/x/nodes.yaml:4:1: the key `name` is there twice
      site/x/nodes.yaml:1:1: first defined here
    </failure>
        </testcase>
        <testcase classname="validate" name="site/x/none, really.yaml">
          <failure type="reference-missing" message="no such file">no such file
      hint: write it, or take it out of the list
    </failure>
        </testcase>
        <testcase classname="validate" name="site/x/secrets.yaml">
          <system-out>site/x/secrets.yaml:2:9: the secret is short
    </system-out>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
}

#[test]
fn no_problem_is_no_text_and_a_valid_object() {
    let none = (Diagnostics::new(), Sources::new());
    assert_eq!(written(plain, &none), "");
    assert_eq!(summary(&none.0), "no problems");
    assert!(written(json, &none).contains("\"valid\": true"));
    assert_eq!(written(github, &none), "");
    assert!(written(junit, &none).contains("tests=\"1\" failures=\"0\""));
}

#[test]
fn a_secret_or_a_control_character_passes_in_no_format() {
    let mut sources = Sources::new();
    let evil = "a: \u{1b}]0;x\u{7}\u{9b}2J\u{202e}z\npassword: hunter2\n";
    let at = evil.find("hunter2").unwrap() as u32;
    let source = sources.add("e\u{1b}[2Jvil\n::error::.yaml", evil);
    sources.hide(source, at, at + 7);
    let list: Diagnostics = [
        Diagnostic::error("yaml-x", Mark::new(source, 3), "bad \u{1b}[31m\n::error::x")
            .hint("do \u{9b}31m\r\nthis")
            .related(Mark::new(source, at), "there \u{7}"),
        Diagnostic::warning("yaml-y", Mark::new(source, at), "secret here"),
    ]
    .into_iter()
    .collect();
    let problems = (list, sources);
    for format in ALL {
        let text = written(format, &problems);
        assert!(!text.contains("hunter2"), "{text}");
        assert!(
            !text
                .chars()
                .any(|c| c != '\n' && crate::document::is_hidden(c)),
            "{text}"
        );
        assert!(!text.lines().any(|line| line.starts_with("::error::")));
    }
}

#[test]
fn a_line_of_a_megabyte_is_shown_around_its_place_only() {
    let mut sources = Sources::new();
    let long = format!("{}key: x {}\n", " ".repeat(300), "y".repeat(1_000_000));
    let source = sources.add("long.yaml", long);
    let list: Diagnostics = [Diagnostic::error("yaml-x", Mark::new(source, 300), "here")]
        .into_iter()
        .collect();
    let text = written(plain, &(list, sources));
    assert!(text.len() < 1_000, "{}", text.len());
    let lines: Vec<_> = text.lines().collect();
    let at = |line: &str, wanted: &str| {
        line.chars().count() - line.split_once(wanted).unwrap().1.chars().count()
    };
    assert_eq!(at(lines[3], "key"), at(lines[4], "^^^"));
}

#[test]
fn of_many_warnings_with_one_code_the_first_few_are_shown() {
    let (mut list, sources) = (Diagnostics::new(), Sources::new());
    for number in 0..10 {
        let message = format!("the network `n{number}` is unused");
        list.push(Diagnostic::warning_in("rule-unused", None, message));
    }
    list.push(Diagnostic::warning_in("rule-other", None, "other"));
    let shown = |full: bool| {
        let mut out = String::new();
        text(&mut out, &list, &sources, Palette::Plain, full).unwrap();
        out
    };
    let folded = shown(false);
    assert_eq!(folded.matches("is unused").count(), 3, "{folded}");
    let line = "… and 7 more warnings [rule-unused]; `trueup validate --full` shows all";
    assert!(folded.contains(line), "{folded}");
    assert!(folded.ends_with("11 warnings\n"), "{folded}");
    assert_eq!(shown(true).matches("is unused").count(), 10);
}

/// So many errors, and twice as many warnings before them.
fn many(errors: usize) -> (Diagnostics, Sources) {
    let mut list = Diagnostics::new();
    for number in 0..2 * errors {
        let mut warning = Diagnostic::error_in("a-warning", Some("w.yaml"), format!("w{number}"));
        warning.severity = crate::diagnostic::Severity::Warning;
        list.push(warning);
    }
    for number in 0..errors {
        list.push(Diagnostic::error_in(
            "an-error",
            Some("e.yaml"),
            format!("e{number}"),
        ));
    }
    (list, Sources::new())
}

#[test]
fn github_gets_no_more_annotations_than_it_shows_and_the_number_of_the_others() {
    let few = written(github, &many(5));
    assert_eq!(few.lines().count(), 15);
    let text = written(github, &many(30));
    for (severity, rest) in [("error", 21), ("warning", 51)] {
        let own: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with(&format!("::{severity} ")))
            .collect();
        assert_eq!(own.len(), 10);
        assert!(
            own[9].contains(&format!("::{rest} more of severity {severity}; ")),
            "{}",
            own[9]
        );
    }
}

#[test]
fn sarif_keeps_to_the_results_that_github_keeps_errors_before_warnings() {
    let log: serde_json::Value = serde_json::from_str(&written(sarif, &many(3_000))).unwrap();
    let run = &log["runs"][0];
    let results = run["results"].as_array().unwrap();
    let errors = results
        .iter()
        .filter(|result| result["level"] == "error")
        .count();
    assert_eq!((results.len(), errors), (5_000, 3_000));
    let notice = &run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"];
    assert!(
        notice
            .as_str()
            .unwrap()
            .starts_with("4000 more problems are left out")
    );
    let mut prints: Vec<&str> = results
        .iter()
        .map(|result| result["partialFingerprints"]["trueup/v1"].as_str().unwrap())
        .collect();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), 5_000);
}

#[test]
fn code_quality_has_a_complete_entry_for_each_problem() {
    assert_snapshot!(written(codequality, &problems()), @r#"
    [
      {
        "description": "there is no field `host_profle`; did you mean `host_profile`?",
        "check_name": "schema-unknown-field",
        "fingerprint": "6aecc92a930c69b6822a7fcea66c51b83474bae9f73e4841b0c8dc273ac71e00",
        "severity": "major",
        "location": {
          "path": "site/x/nodes.yaml",
          "lines": {
            "begin": 3
          }
        }
      },
      {
        "description": "the key `name` is there twice",
        "check_name": "yaml-duplicate-key",
        "fingerprint": "9517df800be8155e5a13103fd3ae1d3f5439bc381d776088b56f2dac01e6e1cc",
        "severity": "major",
        "location": {
          "path": "site/x/nodes.yaml",
          "lines": {
            "begin": 4
          }
        }
      },
      {
        "description": "the secret is short",
        "check_name": "rule-secret",
        "fingerprint": "0510f9e1c6bd59dba98bdd253514cef1c24bc7dca11a576a5027526c4588acd2",
        "severity": "minor",
        "location": {
          "path": "site/x/secrets.yaml",
          "lines": {
            "begin": 2
          }
        }
      },
      {
        "description": "no such file; write it, or take it out of the list",
        "check_name": "reference-missing",
        "fingerprint": "93521fe809cae881d8e0e619eaeb58c0c66562dee6538a307bba1c46aa572385",
        "severity": "major",
        "location": {
          "path": "site/x/none, really.yaml",
          "lines": {
            "begin": 1
          }
        }
      }
    ]
    "#);
}

#[test]
fn a_fingerprint_stays_when_lines_move_and_differs_between_equal_problems() {
    let at = |texts: &[(&str, u32)]| {
        let mut sources = Sources::new();
        let mut list = Diagnostics::new();
        for (text, offset) in texts {
            let source = sources.add("a.yaml", *text);
            list.push(Diagnostic::error(
                "a-code",
                Mark::new(source, *offset),
                "a message",
            ));
        }
        let text = written(codequality, &(list, sources));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let issues = value.as_array().unwrap().iter();
        let prints = issues.map(|issue| issue["fingerprint"].as_str().unwrap().to_owned());
        prints.collect::<Vec<_>>()
    };
    let one = at(&[("a: 1\n", 0)]);
    assert_eq!(one, at(&[("\n\na: 1\n", 2)]));
    let two = at(&[("a: 1\n", 0), ("a: 1\nb: 2\n", 5)]);
    assert_eq!(two[0], one[0]);
    assert_ne!(two[1], one[0]);
}
