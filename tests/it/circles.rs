//! No files of a module import each other in a circle: what two of them share stands below both.
//!
//! Read from the `use` lines and the paths in the code. A `mod.rs` hands names on and holds what its files share: a
//! name that it hands on counts as taken from where it stands, and what it uses itself counts for no circle.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::architecture::{code, files};

/// Modules of which circles are still to be cut.
const NOT_YET: &[&str] = &[];

/// A path of names, from the root of the crate.
type Names = Vec<String>;

/// The crate as its files refer to each other.
#[derive(Default)]
struct Crate {
    /// By module, its file.
    files: BTreeMap<Names, String>,
    /// By module, what it hands on, and where that stands.
    handed_on: BTreeMap<Names, BTreeMap<String, Names>>,
    /// By module, what it imports.
    imports: BTreeMap<Names, BTreeMap<String, Names>>,
}

/// The names of a `use` tree, each with the name by which it is known.
fn expand(tree: &str) -> Vec<(Names, String)> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path: Names = path
            .split("::")
            .map(|name| name.trim().to_owned())
            .collect();
        if path.last().is_some_and(|name| name == "self") && path.len() > 1 {
            path.pop();
        }
        let last = path.last().cloned().unwrap_or_default();
        let known = match alias.trim() {
            "" => last,
            alias => alias.to_owned(),
        };
        return vec![(path, known)];
    };
    let inside = inside.trim_end().trim_end_matches('}');
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    let ends = inside.char_indices().chain([(inside.len(), ',')]);
    for (at, letter) in ends {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[from..at].trim();
                from = (at + 1).min(inside.len());
                if !part.is_empty() {
                    found.extend(expand(&format!("{before}{part}")));
                }
            }
            _ => {}
        }
    }
    found
}

impl Crate {
    fn of(sources: &[(String, String)]) -> Self {
        let module = |path: &str| -> Names {
            let mut names: Names = path
                .trim_end_matches(".rs")
                .split('/')
                .map(str::to_owned)
                .collect();
            if matches!(
                names.last().map(String::as_str),
                Some("mod" | "lib" | "main")
            ) {
                names.pop();
            }
            names
        };
        let mut found = Self::default();
        for (path, _) in sources {
            found.files.insert(module(path), path.clone());
        }
        let uses = Regex::new(r"(?m)^[ \t]*(pub(?:\([^)]*\))?[ \t]+)?use\s+([^;]+);").unwrap();
        for (path, text) in sources {
            let own = module(path);
            for found_use in uses.captures_iter(text) {
                for (names, known) in expand(&found_use[2]) {
                    let Some(names) = found.absolute(&own, &names) else {
                        continue;
                    };
                    let table = match found_use.get(1) {
                        Some(_) => &mut found.handed_on,
                        None => &mut found.imports,
                    };
                    table.entry(own.clone()).or_default().insert(known, names);
                }
            }
        }
        found
    }

    /// A path from the root of the crate; `None` if it leads to another crate.
    fn absolute(&self, module: &Names, path: &[String]) -> Option<Names> {
        let up = path.iter().take_while(|name| *name == "super").count();
        let first = path.first()?.as_str();
        let base = match first {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([module, &path[1..]].concat()),
            "super" => &module[..module.len().checked_sub(up)?],
            _ => {
                let child = [module.as_slice(), &[first.to_owned()]].concat();
                return self
                    .files
                    .contains_key(&child)
                    .then(|| [module, path].concat());
            }
        };
        Some([base, &path[up..]].concat())
    }

    /// The file in which what a path names stands; `None` if that is a module itself.
    fn place(&self, path: &[String], hops: usize) -> Option<&String> {
        if self.files.contains_key(path) || hops > 20 {
            return None;
        }
        let module = (0..path.len())
            .rev()
            .find(|end| self.files.contains_key(&path[..*end]))?;
        let handed_on = self.handed_on.get(&path[..module]);
        match handed_on.and_then(|names| names.get(&path[module])) {
            Some(names) => self.place(&[names, &path[module + 1..]].concat(), hops + 1),
            None => self.files.get(&path[..module]),
        }
    }

    /// The files that a file takes anything from.
    fn used(&self, module: &Names, text: &str, paths: &Regex) -> BTreeSet<String> {
        let none = BTreeMap::new();
        let imports = self.imports.get(module).unwrap_or(&none);
        let mut used: BTreeSet<String> = imports
            .values()
            .filter_map(|names| self.place(names, 0).cloned())
            .collect();
        for found in paths.find_iter(text) {
            let names: Names = found.as_str().split("::").map(str::to_owned).collect();
            let names = match imports.get(&names[0]) {
                Some(import) => Some([import, &names[1..]].concat()),
                None => self.absolute(module, &names),
            };
            used.extend(names.and_then(|names| self.place(&names, 0).cloned()));
        }
        used
    }
}

/// The circles among files, each sorted. `sources`: path below `src`, and text.
fn circles(sources: &[(String, String)]) -> Vec<Vec<String>> {
    let all = Crate::of(sources);
    let paths = Regex::new(r"\b(?:[a-z_][a-z0-9_]*::)+\w+").unwrap();
    let texts: BTreeMap<&str, &str> = sources
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let mut graph = petgraph::Graph::<&str, ()>::new();
    let nodes: BTreeMap<&str, _> = texts
        .keys()
        .map(|path| (*path, graph.add_node(*path)))
        .collect();
    for (module, path) in &all.files {
        if path.ends_with("mod.rs") {
            continue;
        }
        for used in all.used(module, texts[path.as_str()], &paths) {
            if used != *path {
                graph.add_edge(nodes[path.as_str()], nodes[used.as_str()], ());
            }
        }
    }
    let mut circles: Vec<Vec<String>> = petgraph::algo::tarjan_scc(&graph)
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .map(|circle| circle.iter().map(|node| graph[*node].to_owned()).collect())
        .collect();
    circles.iter_mut().for_each(|circle| circle.sort());
    circles.sort();
    circles
}

#[test]
fn circles_are_found_through_imports_paths_and_names_that_are_handed_on() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let mut sources = vec![
        source(
            "a/mod.rs",
            "mod one;\nmod two;\nmod three;\npub use three::Three;\nuse one::One;\n",
        ),
        source("a/one.rs", "use super::{\n    two::{Two, self},\n};\n"),
        source("a/two.rs", "use crate::b;\nfn two() -> super::Three {}\n"),
        source("a/three.rs", "use super::Error;\nstruct Three;\n"),
        source("b.rs", "use crate::a::Error;\n"),
    ];
    assert!(circles(&sources).is_empty(), "{:?}", circles(&sources));
    sources[3]
        .1
        .push_str("use super::one;\nfn three() { one::one() }\n");
    assert_eq!(circles(&sources), [["a/one.rs", "a/three.rs", "a/two.rs"]]);
    sources[4].1.push_str("fn b() { crate::a::two::two() }\n");
    sources[2].1.push_str("fn c() { b::b() }\n");
    assert_eq!(
        circles(&sources),
        [["a/one.rs", "a/three.rs", "a/two.rs", "b.rs"]]
    );
}

#[test]
fn files_of_a_module_do_not_import_each_other_in_a_circle() {
    let sources: Vec<(String, String)> = files()
        .iter()
        .map(|file| (file.below.clone(), code(&file.text)))
        .collect();
    let is_left = |path: &String| NOT_YET.iter().any(|module| path.starts_with(module));
    let mut found = circles(&sources);
    found.retain(|circle| !circle.iter().all(is_left));
    assert!(found.is_empty(), "files that import each other: {found:#?}");
}
