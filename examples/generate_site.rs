//! Writes a site of any size into a folder, for measuring and for trying things out.
//!
//! `cargo run --release --example generate_site -- DIR [NODES [NODES_PER_FILE [RACKS [PROFILES [GROUPS]]]]] [WORD ...]`
//!
//! `generate_site DIR opnfv|akraino [NODES]` writes one that is shaped like those of these projects.
//!
//! The words: `independent` (no group depends on another), `by-label` or `by-tag` (how groups select nodes),
//! `into-one=N` (substitutions into one document), `from-one=N` (documents that take a value from one), `sites=N` (so many sites
//! that share all but their definition and machines).

use std::path::Path;

#[path = "../benches/generator.rs"]
mod generator;

#[path = "../benches/pods.rs"]
mod pods;

use generator::{Size, files};
use pods::{Shape, pod};

const USAGE: &str = "DIR [opnfv|akraino] [NODES [NODES_PER_FILE [RACKS [PROFILES [GROUPS]]]]] \
                     [independent] [by-label|by-tag] [into-one=N] [from-one=N] [sites=N]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, given)) = arguments.split_first() else {
        return Err(USAGE.into());
    };
    let shape = match given.first().map(String::as_str) {
        Some("opnfv") => Some(Shape::Opnfv),
        Some("akraino") => Some(Shape::Akraino),
        _ => None,
    };
    let all = match shape {
        Some(shape) => pod(shape, given.get(1).map_or(Ok(6), |number| number.parse())?),
        None => files(&size(given)?),
    };
    for (path, text) in all {
        let path = Path::new(folder).join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// What numbers in their order, and words anywhere, ask for.
fn size(given: &[String]) -> Result<Size, Box<dyn std::error::Error>> {
    let mut numbers = Vec::new();
    let mut words = Vec::new();
    for each in given {
        match each.parse::<usize>() {
            Ok(number) => numbers.push(number),
            Err(_) => words.push(each.as_str()),
        }
    }
    let usual = Size::of(numbers.first().copied().unwrap_or(1_000));
    let number = |at: usize, usual: usize| numbers.get(at).copied().unwrap_or(usual);
    let mut size = Size {
        nodes_per_file: number(1, usual.nodes_per_file),
        racks: number(2, usual.racks),
        profiles: number(3, usual.profiles),
        groups: number(4, usual.groups),
        ..usual
    };
    for word in words {
        match word.split_once('=') {
            None if word == "independent" => size.independent = true,
            None if word == "by-label" => size.by_label = true,
            None if word == "by-tag" => size.by_tag = true,
            Some(("into-one", number)) => size.into_one = number.parse()?,
            Some(("from-one", number)) => size.from_one = number.parse()?,
            Some(("sites", number)) => size.sites = number.parse()?,
            _ => return Err(format!("`{word}` is not known; {USAGE}").into()),
        }
    }
    Ok(size)
}
