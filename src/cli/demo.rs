//! `trueup demo`: the whole story on the simulator, in a throwaway folder.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::report::Role;
use crate::repository::Repository;

use super::Failure;
use super::context::Context;
use super::init::{commit, write_site};

#[derive(Debug, Args)]
pub(super) struct DemoCommand {
    /// Keep the folder, to look around in it
    #[arg(long)]
    keep: bool,
}

const FOURTH_NODE: &str = "---
schema: drydock/BaremetalNode/v1
metadata: {name: edge-4}
data:
  host_profile: worker
  metadata: {rack: closet, tags: [worker]}
  addressing:
    - {network: pxe, address: 10.40.0.14}
    - {network: oam, address: 10.40.1.14}
";

const FIFTH_NODE: &str = "---
schema: drydock/BaremetalNode/v1
metadata: {name: edge-5}
data:
  host_profile: worker
  metadata: {rack: closet, tags: [worker]}
  addressing:
    - {network: pxe, address: 10.40.0.15}
    - {network: oam, address: 10.40.1.15}
";

const FAULT: &str = "      faults:
        - {nodes: [edge-5], step: prepare, outcome: fail, times: 1, message: the controller does not answer}
";

/// The story: a folder, what is told, and a way to run trueup in it.
struct Story<'a> {
    context: &'a Context,
    folder: &'a Path,
    repository: Repository,
}

pub(super) fn run(context: &mut Context, command: &DemoCommand) -> Result<u8, Failure> {
    let folder = std::env::temp_dir().join(format!("trueup-demo-{}", std::process::id()));
    let told = tell(context, &folder);
    if command.keep {
        context
            .printer
            .tell(&format!("The site is in {}", folder.display()));
    } else if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    told?;
    Ok(0)
}

fn tell(context: &Context, folder: &Path) -> Result<(), Failure> {
    say(
        context,
        "A site is a folder of YAML documents in git. This one has three machines:",
    )?;
    shown(context, "trueup init edge")?;
    let repository = write_site(context, folder)?;
    let story = Story {
        context,
        folder,
        repository,
    };
    story.trueup(&["validate"], 0)?;
    say(context, "What would have to be done:")?;
    story.trueup(&["plan"], 0)?;
    say(
        context,
        "Carry it out (the simulator's hours pass at once):",
    )?;
    story.trueup(&["apply", "--yes"], 0)?;

    say(context, "Somebody relabels one machine and adds another:")?;
    story.edit("nodes.yaml", |text| {
        let labelled = text.replacen(
            "  metadata: {rack: closet, tags: [worker]}\n",
            "  metadata:\n    rack: closet\n    tags: [worker]\n    owner_data: {edge.example.org/role: gateway}\n",
            1,
        );
        format!("{labelled}{FOURTH_NODE}")
    })?;
    story.trueup(&["diff"], 0)?;
    story.trueup(&["plan"], 0)?;
    story.commit("Make edge-1 the gateway, add edge-4")?;
    story.trueup(&["apply", "--yes"], 0)?;

    say(
        context,
        "A fifth machine comes, and its controller does not answer:",
    )?;
    story.edit("nodes.yaml", |text| format!("{text}{FIFTH_NODE}"))?;
    story.edit("backends.yaml", |text| {
        let settings: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().starts_with('#'))
            .collect();
        format!("{}\n{FAULT}", settings.join("\n"))
    })?;
    story.commit("Add edge-5")?;
    story.trueup(&["apply", "--yes"], 7)?;
    say(
        context,
        "The group wanted two machines and has four, so the site action succeeded. What is left:",
    )?;
    story.trueup(&["plan"], 0)?;
    story.trueup(&["apply", "--yes"], 0)?;
    say(
        context,
        "Everything that was done is recorded in the repository:",
    )?;
    story.trueup(&["log"], 0)?;
    story.trueup(&["plan", "--detailed-exitcode"], 0)
}

fn say(context: &Context, text: &str) -> Result<(), Failure> {
    context.printer.print(&format!(
        "\n{}\n",
        context.printer.out.paint(Role::Strong, text)
    ))
}

fn shown(context: &Context, line: &str) -> Result<(), Failure> {
    let line = format!("$ {line}");
    context.printer.print(&format!(
        "\n{}\n",
        context.printer.out.paint(Role::Hint, line)
    ))
}

impl Story<'_> {
    fn trueup(&self, arguments: &[&str], expected: i32) -> Result<(), Failure> {
        shown(self.context, &format!("trueup {}", arguments.join(" ")))?;
        let program = std::env::current_exe()?;
        let status = Command::new(program)
            .current_dir(self.folder)
            .args(arguments)
            .status()?;
        if status.code() == Some(expected) {
            return Ok(());
        }
        Err(Failure::error(format!(
            "`trueup {}` ended with {status}, and {expected} was expected",
            arguments.join(" ")
        )))
    }

    fn edit(&self, name: &str, change: impl Fn(&str) -> String) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let text = std::fs::read_to_string(&path)?;
        std::fs::write(&path, change(&text))?;
        Ok(())
    }

    fn commit(&self, message: &str) -> Result<(), Failure> {
        shown(self.context, &format!("git commit -am '{message}'"))?;
        commit(self.context, &self.repository, message)
    }
}
