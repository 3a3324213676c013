//! The story of many workers, played to its end.

use std::process::Command;

use super::fixture::Ended;

use crate::folder::folder;

#[test]
fn the_story_of_many_workers_kills_one_of_them_and_does_nothing_twice() {
    let (home, folder) = (folder(), folder());
    let ended: Ended = Command::new(env!("CARGO_BIN_EXE_trueup"))
        .args(["demo", "--story", "airflow"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path())
        .env("TMPDIR", folder.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
        .into();
    let text = ended.with(0).stdout;
    // Which worker has which part may differ; when, and how it ends, may not.
    let tasks = text.lines().filter_map(|line| {
        let (minutes, rest) = line.trim().split_once(" min  worker-")?;
        let (_, rest) = rest.split_once("  ")?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        Some(format!("{minutes} {}", words.join(" ")))
    });
    let mut tasks: Vec<String> = tasks.collect();
    tasks.sort();
    let parts = |group: &str, numbers: std::ops::RangeInclusive<usize>, ends: [u64; 2]| {
        let [prepared, deployed] = ends;
        let numbered = numbers.flat_map(move |number| {
            let part = format!("{group}.deploy-{number}");
            let resumed = if part == "control-plane.deploy-2" {
                ", resumed"
            } else {
                ""
            };
            [
                format!("{prepared} {group}.prepare-{number} 1 succeeded"),
                // The deploy, and the wait until its machine has joined.
                format!("{deployed} {part} 2 succeeded{resumed}"),
            ]
        });
        let gates = [("prepared", prepared), ("deployed", deployed)];
        let gates = gates.map(|(gate, at)| format!("{at} {group}.gate-{gate} 1 succeeded"));
        numbered.chain(gates).collect::<Vec<_>>()
    };
    let mut expected = vec![
        "0 site 2 succeeded".to_owned(),
        "0 control-plane.start 1 succeeded".to_owned(),
        "2 control-plane.deploy-2 killed".to_owned(),
        "17 workers.start 1 succeeded".to_owned(),
    ];
    expected.extend(parts("control-plane", 1..=3, [2, 17]));
    expected.extend(parts("workers", 1..=2, [19, 34]));
    expected.sort();
    assert_eq!(tasks, expected, "{text}");
    for said in [
        ": begun\n",
        ": under way already\n",
        "10 operations on machines were begun, each of them once.",
        "No changes: the site is as designed, 5 unchanged.",
    ] {
        assert!(text.contains(said), "`{said}` is missing in\n{text}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
