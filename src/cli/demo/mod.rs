//! `trueup demo`: the whole story on the simulator, in a throwaway folder.

mod workers;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::report::Role;
use crate::repository::Repository;

use super::Failure;
use super::context::Context;
use super::init::{CONTROL_PLANE, EDGE, Example, commit, write_site};

#[derive(Debug, Args)]
pub(super) struct DemoCommand {
    /// Story to play
    #[arg(long, value_enum, default_value_t = Tale::Site)]
    story: Tale,

    /// Keep the folder
    #[arg(long)]
    keep: bool,
}

/// The stories of the demonstration.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Tale {
    /// A site of three machines: deploy it, change it, see a failure and repair it
    Site,
    /// A control plane with etcd: redeploy its machines, and see what is refused
    Redeploy,
    /// Many workers, as an engine such as Airflow runs them: a plan in parts, a worker that is killed, and its successor
    Airflow,
    /// A machine that has failed: switched off, its node released, brought back; and one that does not come back
    Remediate,
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

const REDEPLOY_FAULT: &str = "      clock: virtual
      faults:
        - {nodes: [control-2], step: deploy, outcome: fail, times: 1, message: the image could not be fetched}
";

/// Kubelets that do not answer: one needs a cold start, the other more of them than the attempts allow.
const SILENCE: &str = "  clusters:
    kubernetes:
      kind: sim
      sim:
        faults:
          - {nodes: [edge-2], outcome: not-ready}
";

const LONGER_SILENCE: &str = "          - {nodes: [edge-3], outcome: not-ready, times: 9}
";

/// The story: a folder, what is told, and a way to run trueup in it.
struct Story<'a> {
    context: &'a Context,
    folder: &'a Path,
    repository: Repository,
}

pub(super) fn run(context: &mut Context, command: &DemoCommand) -> Result<u8, Failure> {
    let folder = new_folder(&std::env::temp_dir())?;
    let told = match command.story {
        Tale::Site => tell_of_site(context, &folder),
        Tale::Redeploy => tell_of_redeploy(context, &folder),
        Tale::Remediate => tell_of_remediation(context, &folder),
        Tale::Airflow => workers::tell(context, &folder),
    };
    if command.keep {
        context
            .printer
            .tell(&format!("The site is in {}", folder.display()));
    } else {
        std::fs::remove_dir_all(&folder)?;
    }
    told?;
    Ok(0)
}

/// Makes a new folder: it is removed at the end with all that is in it.
pub(super) fn new_folder(parent: &Path) -> Result<PathBuf, Failure> {
    let mut number = 0;
    loop {
        let folder = parent.join(format!("trueup-demo-{}-{number}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => {
                return Err(Failure::error(format!(
                    "`{}` could not be made: {error}",
                    folder.display()
                )));
            }
        }
    }
}

fn tell_of_site(context: &Context, folder: &Path) -> Result<(), Failure> {
    print_line(
        context,
        "A site is a folder of YAML documents in git. This one has three machines:",
    )?;
    shown(context, "trueup init edge")?;
    let story = begin(context, folder, &EDGE)?;
    story.trueup(&["validate"], 0)?;
    print_line(context, "What would have to be done:")?;
    story.trueup(&["plan"], 0)?;
    print_line(
        context,
        "Carry it out (the simulator's hours pass at once):",
    )?;
    story.trueup(&["apply", "--yes"], 0)?;

    print_line(context, "Relabel one machine and add another:")?;
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

    print_line(
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
    print_line(
        context,
        "The group keeps the two machines that it wants, but nothing that this run was for succeeded, so it failed. What is left:",
    )?;
    story.trueup(&["plan"], 0)?;
    story.trueup(&["apply", "--yes"], 0)?;
    print_line(
        context,
        "Everything that was done is recorded in the repository:",
    )?;
    story.trueup(&["log"], 0)?;
    story.trueup(&["plan", "--detailed-exitcode"], 0)
}

fn tell_of_redeploy(context: &Context, folder: &Path) -> Result<(), Failure> {
    print_line(
        context,
        "Three machines of this site are its control plane and its etcd cluster, and two are workers:",
    )?;
    let story = begin(context, folder, &CONTROL_PLANE)?;
    story.trueup(&["validate"], 0)?;
    story.trueup(&["apply", "--yes"], 0)?;

    print_line(
        context,
        "Edit the kernel's parameters of the control plane, which cannot be changed in place:",
    )?;
    story.edit("profiles.yaml", |text| {
        text.replacen("{console: ttyS0}", "{console: ttyS1}", 1)
    })?;
    story.commit("Move the console of the control plane")?;
    story.trueup(&["plan"], 0)?;
    print_line(
        context,
        "Nothing of that is implied. One of them is allowed: it is drained, leaves etcd, is wiped and built again, and the \
         run waits until it votes again:",
    )?;
    story.trueup(
        &[
            "apply",
            "--yes",
            "--allow-redeploy",
            "control-1",
            "--skip-blocked",
        ],
        0,
    )?;

    print_line(context, "The next one will not come back at once:")?;
    story.edit("backends.yaml", |text| {
        text.replacen("      clock: virtual\n", REDEPLOY_FAULT, 1)
    })?;
    story.commit("Let control-2 fail once")?;
    story.trueup(
        &[
            "apply",
            "--yes",
            "--allow-redeploy",
            "control-2",
            "--skip-blocked",
            "--allow-intermediate-commits",
        ],
        7,
    )?;
    print_line(
        context,
        "While it is away, etcd can lose no other member, and no flag takes control-3 away:",
    )?;
    story.trueup(&["plan", "--allow-redeploy", "all"], 0)?;
    story.trueup(&["apply", "--yes", "--allow-redeploy", "all"], 4)?;
    print_line(
        context,
        "What was begun is ended first; control-3 is left for another day:",
    )?;
    story.trueup(
        &[
            "apply",
            "--yes",
            "--skip-blocked",
            "--allow-intermediate-commits",
        ],
        0,
    )?;
    story.trueup(&["status"], 0)
}

fn tell_of_remediation(context: &Context, folder: &Path) -> Result<(), Failure> {
    print_line(context, "A site of three machines, deployed:")?;
    let story = begin(context, folder, &EDGE)?;
    story.trueup(&["apply", "--yes"], 0)?;

    print_line(
        context,
        "The kernel of edge-2 hangs. Its node is not Ready, and its pods cannot be started elsewhere while they may still run:",
    )?;
    story.edit("backends.yaml", |text| format!("{text}{SILENCE}"))?;
    story.commit("Let the kubelet of edge-2 be silent")?;
    story.trueup(&["status"], 0)?;
    print_line(
        context,
        "What would be done, and in which row of the truth table the machine is:",
    )?;
    story.trueup(&["plan", "remediate", "edge-2"], 0)?;
    print_line(
        context,
        "Off first and observed off, then the node goes, then it is switched on, and labels, annotations and taints are restored on the new node:",
    )?;
    story.trueup(&["apply", "remediate", "edge-2", "--yes"], 0)?;

    print_line(
        context,
        "edge-3 does not come back however often it is switched on. After the last attempt it is left to people:",
    )?;
    story.edit("backends.yaml", |text| format!("{text}{LONGER_SILENCE}"))?;
    story.commit("Let the kubelet of edge-3 be silent for long")?;
    story.trueup(&["apply", "remediate", "edge-3", "--yes"], 7)?;
    print_line(
        context,
        "Nothing touches it again before an operator names it:",
    )?;
    story.trueup(&["plan", "remediate"], 0)?;
    story.trueup(&["status"], 0)?;
    print_line(
        context,
        "Where more machines are silent than the policy allows, it is not the machines, and none is touched:",
    )?;
    story.edit("backends.yaml", |text| {
        text.replacen("nodes: [edge-3]", "nodes: [edge-1, edge-3]", 1)
    })?;
    story.commit("Let edge-1 be silent, too")?;
    story.trueup(&["apply", "remediate", "edge-1", "--yes"], 4)
}

/// Writes an example to the folder.
fn begin<'a>(
    context: &'a Context,
    folder: &'a Path,
    example: &Example,
) -> Result<Story<'a>, Failure> {
    let repository = write_site(context, folder, example)?;
    Ok(Story {
        context,
        folder,
        repository,
    })
}

fn print_line(context: &Context, text: &str) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_there_before_is_not_taken() {
        let parent = tempfile::tempdir().unwrap();
        let first = new_folder(parent.path()).unwrap();
        std::fs::write(first.join("mine"), "").unwrap();
        // Neither is a link, wherever it leads.
        #[cfg(unix)]
        {
            let name = format!("trueup-demo-{}-1", std::process::id());
            std::os::unix::fs::symlink(&first, parent.path().join(name)).unwrap();
        }
        let second = new_folder(parent.path()).unwrap();
        assert_ne!(
            first.canonicalize().unwrap(),
            second.canonicalize().unwrap()
        );
        assert!(first.join("mine").exists());
    }
}
