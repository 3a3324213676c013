//! Writes a site of any size into a folder, for measuring and for trying things out.
//!
//! `cargo run --release --example generate_site -- DIR [NODES [NODES_PER_FILE [RACKS [PROFILES [GROUPS]]]]]`

use std::path::Path;

#[path = "../benches/generator.rs"]
mod generator;

use generator::{Size, files};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, numbers)) = arguments.split_first() else {
        return Err("DIR [NODES [NODES_PER_FILE [RACKS [PROFILES [GROUPS]]]]]".into());
    };
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|number| number.parse())
        .collect::<Result<_, _>>()?;
    let usual = Size::of(numbers.first().copied().unwrap_or(1_000));
    let given = |at: usize, usual: usize| numbers.get(at).copied().unwrap_or(usual);
    let size = Size {
        nodes: usual.nodes,
        nodes_per_file: given(1, usual.nodes_per_file),
        racks: given(2, usual.racks),
        profiles: given(3, usual.profiles),
        groups: given(4, usual.groups),
    };
    for (path, text) in files(&size) {
        let path = Path::new(folder).join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
