//! A plan of a site that is mostly as it was is the plan that is made when everything is read.

use std::path::PathBuf;

use super::fixture::Fixture;

/// Pseudo-random numbers, the same for a seed (Knuth's constants).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

struct Site {
    fixture: Fixture,
    snapshot: String,
}

impl Site {
    /// A site that was applied, with a file a machine, and what was seen of it.
    fn applied() -> Self {
        let fixture = Fixture::one_rack();
        for file in ["compute", "control", "monitoring", "time"] {
            let text = fixture.read(&format!("nodes/{file}.yaml"));
            for document in text.split("---\n").skip(1) {
                let name = document.split("{name: ").nth(1).unwrap();
                let name = name.split('}').next().unwrap();
                let path = format!("nodes/{name}.yaml");
                fixture.checkout.write(&path, format!("---\n{document}"));
            }
            std::fs::remove_file(fixture.checkout.path().join(format!("nodes/{file}.yaml")))
                .unwrap();
        }
        let allowed = ["--allow-intermediate-commits"];
        fixture
            .commit_and_apply("A file a machine", &allowed)
            .with(0);
        let snapshot = fixture.checkout.outside().join("seen.json");
        let snapshot = snapshot.to_str().unwrap().to_owned();
        fixture.run(&["plan", "--save-observed", &snapshot]).with(0);
        Self { fixture, snapshot }
    }

    fn cache(&self) -> PathBuf {
        self.fixture.checkout.path().join(".git/trueup/.cache")
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.cache()).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    fn plan(&self, more: &[&str]) -> (i32, String, String) {
        let usual = ["plan", "--observed", &self.snapshot, "--format", "json"];
        let ended = self.fixture.run(&[&usual, more].concat());
        (ended.code, ended.stdout, ended.stderr)
    }

    /// Plans with what is kept, and then without.
    #[track_caller]
    fn same_both_ways(&self, what: &str, more: &[&str]) {
        let short = self.plan(more);
        std::fs::remove_dir_all(self.cache()).unwrap();
        let long = self.plan(more);
        assert_eq!(short, long, "{what}");
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.fixture.checkout.path().join("nodes")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.trim_end_matches(".yaml").to_owned())
            .collect();
        names.sort();
        names
    }

    /// Changes something; what.
    fn edit(&self, random: &mut Random) -> String {
        let names = self.names();
        let name = &names[random.below(names.len())];
        let path = format!("nodes/{name}.yaml");
        let text = self.fixture.read(&path);
        let write = |path: &str, text: String| self.fixture.checkout.write(path, text);
        let replace = |path: &str, old: &str, new: &str| {
            let text = self.fixture.read(path);
            write(path, text.replacen(old, new, 1));
        };
        let number = random.below(200) + 30;
        match random.below(14) {
            0 => replace(&path, "tags: [", &format!("tags: [extra-{number}, ")),
            1 => replace(&path, "rack: rack0", "rack: rack9"),
            2 => write(&path, text.replace("data:\n", "data:\n  boot_mac: x\n")),
            3 => write(
                &path,
                text.replace(
                    "metadata: {rack",
                    &format!("metadata: {{owner_data: {{a: b{number}}}, rack"),
                ),
            ),
            // An address that is free, and one that may be another machine's.
            4 => {
                let at = text.find("10.20.2.").unwrap() + "10.20.2.".len();
                let end = at + text[at..].find('}').unwrap();
                write(&path, format!("{}{number}{}", &text[..at], &text[end..]));
            }
            5 => replace(&path, "10.20.2.", "10.20.2.1"),
            6 => std::fs::remove_file(self.fixture.checkout.path().join(&path)).unwrap(),
            7 => {
                let renamed = text.replace(name.as_str(), &format!("{name}x"));
                let moved = renamed.replace("10.20.", &format!("10.20.{}", number % 2));
                write(&format!("nodes/{name}x.yaml"), moved);
            }
            8 => replace("host-profiles.yaml", "console", "consoles"),
            9 => replace("strategy.yaml", "rack01", "rack02"),
            10 => replace(&path, "  host_profile: ", "  host_profile: no-"),
            11 => write(&path, format!("# A comment.\n{text}")),
            12 => {
                write("nodes/more.yaml", text.replace(name.as_str(), "more"));
            }
            _ => {
                let all = ["add", "--all"];
                self.fixture.checkout.git(&all);
                self.fixture
                    .checkout
                    .git(&["commit", "--allow-empty", "-qm", "More"]);
            }
        }
        format!("{name} {number}")
    }
}

#[test]
fn nothing_that_has_changed_gives_the_same_plan_both_ways() {
    let site = Site::applied();
    site.same_both_ways("as it was", &[]);
    site.same_both_ways("again", &["--detailed-exitcode"]);
    site.same_both_ways("narrowed", &["--target", "monitor01"]);
    site.same_both_ways("narrowed to nothing", &["--exclude", "nobody"]);
}

#[test]
fn random_edits_give_the_same_plan_both_ways() {
    let site = Site::applied();
    for seed in 0..4 {
        site.fixture.checkout.git(&["reset", "--hard", "-q"]);
        site.fixture.checkout.git(&["clean", "-fdq"]);
        site.plan(&[]);
        let mut random = Random(seed);
        for step in 0..6 {
            let what = site.edit(&mut random);
            site.same_both_ways(&format!("seed {seed}, step {step}: {what}"), &[]);
        }
    }
}

#[test]
fn a_machine_that_drifted_gives_the_same_plan_both_ways() {
    let site = Site::applied();
    let seen = std::fs::read_to_string(&site.snapshot).unwrap();
    let drifted = seen.replacen(
        "\"power\":{\"known\":\"on\"}",
        "\"power\":{\"known\":\"off\"}",
        1,
    );
    assert_ne!(seen, drifted);
    std::fs::write(&site.snapshot, drifted).unwrap();
    site.same_both_ways("off", &[]);
}

#[test]
fn a_cache_that_is_damaged_or_deleted_changes_nothing() {
    let site = Site::applied();
    let before = site.plan(&[]);
    assert!(!site.segments().is_empty());
    for damage in ["", "x"] {
        for path in site.segments() {
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
            assert_eq!(site.plan(&[]), before, "{path:?} cut");
            let mut damaged = whole.clone();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0x55;
            damaged.extend(damage.as_bytes());
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(site.plan(&[]), before, "{path:?} damaged");
        }
    }
    std::fs::remove_dir_all(site.cache()).unwrap();
    std::fs::write(site.cache(), "no folder").unwrap();
    assert_eq!(site.plan(&[]), before, "no folder");
}
