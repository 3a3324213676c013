//! `trueup comment`: publishes the Markdown of a plan as a comment of a change, or as an issue.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::context::Context;
use super::value::number;
use super::{Failure, FailureKind};
use crate::forge::{self, Account, Act, Forge, GitHub, GitLab, MOST_BYTES, Place, Published};
use crate::report::counted;
use crate::repository::{Links, read_file};
use crate::site::{Outside, Sandbox};

/// The time for all requests and waits of one publication.
const DEADLINE: Duration = Duration::from_secs(300);

#[derive(Debug, Args)]
pub(super) struct CommentCommand {
    /// The Markdown that `trueup plan --format markdown` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The forge; its token is GITHUB_TOKEN or GITLAB_TOKEN in the environment
    #[arg(long, value_enum, value_name = "FORGE")]
    on: ForgeKind,
    /// Number of the pull request or merge request [default: the pipeline's]
    #[arg(long, value_name = "N", conflicts_with = "issue", value_parser = number)]
    change: Option<u64>,
    /// Publish only if the head of the change is still this commit; exit code 5 otherwise
    #[arg(long, value_name = "COMMIT", conflicts_with = "issue")]
    head: Option<String>,
    /// Open an issue with this title, or update the open one, in the place of a comment
    #[arg(long, value_name = "TITLE")]
    issue: Option<String>,
    /// With --issue: update and close the open one; open none
    #[arg(long, requires = "issue")]
    close: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ForgeKind {
    /// GitHub: GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_GRAPHQL_URL or GITHUB_API_URL, GITHUB_REF.
    Github,
    /// GitLab: GITLAB_TOKEN, CI_PROJECT_ID, CI_API_V4_URL, CI_MERGE_REQUEST_IID.
    Gitlab,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// A variable that is set, and not to an empty text.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn needed(name: &str, what: &str) -> Result<String, Failure> {
    variable(name).ok_or_else(|| usage(format!("{name} is not set: it holds {what}")))
}

/// The text to publish, with its marker.
fn text(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let refused = |why: &dyn std::fmt::Display| {
        Failure::error(format!("the comment `{name}` cannot be published: {why}"))
    };
    let bytes = read_file(path, 16 * MOST_BYTES as u64, Links::Followed);
    let bytes = bytes.map_err(|error| refused(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| refused(&"it is not UTF-8"))?;
    if forge::first_line(&text).is_none() {
        let hint = "`trueup plan --format markdown > FILE` writes one";
        return Err(refused(&"it does not begin with trueup's marker").hint(hint));
    }
    if text.len() > MOST_BYTES {
        let why = format!("it has {} bytes, and forges take {MOST_BYTES}", text.len());
        let hint = format!("`trueup plan --format markdown --max-bytes {MOST_BYTES}` cuts it");
        return Err(refused(&why).hint(hint));
    }
    Ok(text)
}

fn place(command: &CommentCommand, of_pipeline: Option<u64>) -> Result<Place, Failure> {
    if let Some(title) = &command.issue {
        let title = title.clone();
        return Ok(Place::Issue { title });
    }
    let is_commit = |head: &String| {
        matches!(head.len(), 40 | 64) && head.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if command.head.as_ref().is_some_and(|head| !is_commit(head)) {
        return Err(usage("`--head` wants the whole id of a commit"));
    }
    let number = command.change.or(of_pipeline);
    let missing = || usage("the pipeline is not one of a change: pass `--change N`, or `--issue`");
    Ok(Place::Change {
        number: number.ok_or_else(missing)?,
        head: command.head.clone(),
    })
}

/// The number in `refs/pull/N/merge`.
fn of_reference(reference: &str) -> Option<u64> {
    let rest = reference.strip_prefix("refs/pull/")?;
    rest.split('/').next()?.parse().ok()
}

/// The address of GraphQL if the REST API has this one.
fn graphql(api: &str) -> String {
    let api = api.trim_end_matches('/');
    // An own server has `/api/v3` and `/api/graphql`.
    format!("{}/graphql", api.strip_suffix("/v3").unwrap_or(api))
}

fn on_github(command: &CommentCommand) -> Result<Box<dyn Forge>, Failure> {
    let number = variable("GITHUB_REF").and_then(|reference| of_reference(&reference));
    let place = place(command, number)?;
    let repository = needed("GITHUB_REPOSITORY", "the repository as `OWNER/NAME`")?;
    let token = needed("GITHUB_TOKEN", "the token of the account that comments")?;
    let address = variable("GITHUB_GRAPHQL_URL")
        .or_else(|| variable("GITHUB_API_URL").map(|api| graphql(&api)))
        .unwrap_or_else(|| "https://api.github.com/graphql".to_owned());
    let account = Account::new(&address, token, "authorization", "Bearer ");
    let account = account.map_err(|error| failure(&error))?;
    let github = GitHub::new(account, &repository, place);
    Ok(Box::new(github.map_err(|error| failure(&error))?))
}

fn on_gitlab(command: &CommentCommand) -> Result<Box<dyn Forge>, Failure> {
    let number = variable("CI_MERGE_REQUEST_IID").and_then(|number| number.parse().ok());
    let place = place(command, number)?;
    let project = needed("CI_PROJECT_ID", "the number of the project")?;
    let address = needed("CI_API_V4_URL", "the address of the API")?;
    // The token of a job has no right to write notes.
    let token = needed("GITLAB_TOKEN", "a project access token with scope `api`")?;
    let account = Account::new(&address, token, "private-token", "");
    let account = account.map_err(|error| failure(&error))?;
    Ok(Box::new(GitLab::new(account, &project, place)))
}

fn failure(error: &forge::Error) -> Failure {
    let kind = match error {
        forge::Error::Moved { .. } => FailureKind::Stale,
        forge::Error::Address(_) | forge::Error::Plain { .. } => FailureKind::Usage,
        _ => FailureKind::Error,
    };
    let hint = match error {
        forge::Error::Moved { .. } => Some("the pipeline of the new head publishes its own plan"),
        forge::Error::Plain { .. } => Some("use an address that begins with `https://`"),
        error if error.is_of_rights() => {
            Some("the token has to be one that may read the repository and comment there")
        }
        _ => None,
    };
    Failure::from_error(kind, error, hint.map(str::to_owned))
}

/// Publishes within the time allowed.
fn published(
    command: &CommentCommand,
    forge: &dyn Forge,
    text: &str,
) -> Result<Published, Failure> {
    let marker = forge::first_line(text).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let seconds = DEADLINE.as_secs();
    let ended = runtime.block_on(async {
        let publication = async {
            match command.close {
                true => forge::close(forge, marker, text).await,
                false => forge::publish(forge, marker, text).await,
            }
        };
        let ended = tokio::time::timeout(DEADLINE, publication).await;
        ended.unwrap_or(Err(forge::Error::Timeout { seconds }))
    });
    ended.map_err(|error| failure(&error))
}

pub(super) fn run(context: &mut Context, command: &CommentCommand) -> Result<u8, Failure> {
    // A pipeline may publish if there is no clone.
    if let Ok(repository) = context.repository() {
        Sandbox::refuse(&repository, Outside::Forge)?;
    }
    let text = text(&context.directory().join(&command.file))?;
    let forge = match command.on {
        ForgeKind::Github => on_github(command)?,
        ForgeKind::Gitlab => on_gitlab(command)?,
    };
    let published = published(command, &*forge, &text)?;
    for author in &published.others {
        context.printer.tell(&format!(
            "warning: an entry of `{}` begins with the same marker; it was not changed",
            crate::report::Visible(author)
        ));
    }
    if published.hidden > 0 {
        let hidden = counted(published.hidden, "outdated entry", "outdated entries");
        context.printer.tell(&format!("hid {hidden}"));
    }
    let act = match published.act {
        Act::Created => "created",
        Act::Updated => "updated",
        Act::Unchanged => "unchanged",
        Act::Closed => "closed",
        Act::Nothing => "nothing to close",
    };
    let line = format!("{act} {}", crate::report::Visible(&published.shown));
    context.printer.print(&format!("{}\n", line.trim_end()))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_graphql_follows_that_of_rest() {
        for (api, expected) in [
            ("https://api.github.com", "https://api.github.com/graphql"),
            (
                "https://git.example/api/v3/",
                "https://git.example/api/graphql",
            ),
        ] {
            assert_eq!(graphql(api), expected);
        }
    }

    #[test]
    fn the_number_of_a_change_is_read_from_the_reference_of_its_merge() {
        assert_eq!(of_reference("refs/pull/17/merge"), Some(17));
        assert_eq!(of_reference("refs/heads/17"), None);
        assert_eq!(of_reference("refs/pull/x/merge"), None);
    }
}
