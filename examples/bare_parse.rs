//! Parses all YAML files below a folder and keeps nothing: what reading them costs at least.
//!
//! `cargo run --release --example bare_parse -- DIR`

use std::path::{Path, PathBuf};

use saphyr_parser::Parser;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(folder) = std::env::args_os().nth(1) else {
        return Err("DIR".into());
    };
    let mut folders = vec![PathBuf::from(folder)];
    let (mut files, mut events) = (0_usize, 0_usize);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "yaml") {
                files += 1;
                events += count(&path)?;
            }
        }
    }
    let text = format!("{files} files, {events} events\n");
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn count(path: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let mut events = 0;
    for event in Parser::new_from_str(&text) {
        event?;
        events += 1;
    }
    Ok(events)
}
