//! GitLab: notes of merge requests, and issues, by its REST API.
//!
//! A note cannot be hidden there. An outdated one is edited: its text is folded below a line that tells so, and its
//! marker is another, so that it is never found again.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::{MOST_PAGES, Place, class_of, wait_of, words_of};
use super::{Account, Entries, Entry, Error, Forge};
use crate::backend::Pending;
use crate::backend::http::{Answer, Class, Dialect, percent_encoded, plain};

/// Entries of a page.
const PER_PAGE: usize = 100;

/// A place in a project on GitLab.
#[derive(Debug)]
pub struct GitLab {
    account: Account,
    /// The path of the project below the API.
    project: String,
    place: Place,
    /// The place in messages.
    subject: String,
}

/// GitLab's refusals: `message` is a text or a map of lists, `error` a text.
#[derive(Debug)]
struct Rest;

impl Dialect for Rest {
    fn words(&self, answer: &Answer) -> Option<String> {
        let read: Option<Value> = serde_json::from_slice(answer.body()).ok();
        let own = read.and_then(|read| {
            let found = ["message", "error_description", "error"];
            let found = found.into_iter().find_map(|key| read.get(key));
            found.map(|words| match words {
                Value::String(words) => words.clone(),
                other => other.to_string(),
            })
        });
        words_of(answer, own)
    }

    fn class(&self, answer: &Answer, is_safe: bool) -> Class {
        class_of(answer, false, is_safe)
    }

    fn retry_after(&self, answer: &Answer) -> Option<Duration> {
        wait_of(answer)
    }
}

#[derive(Deserialize)]
struct User {
    id: u64,
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct MergeRequest {
    sha: Option<String>,
}

/// A note or an issue.
#[derive(Deserialize)]
struct Item {
    id: u64,
    iid: Option<u64>,
    #[serde(default)]
    system: bool,
    body: Option<String>,
    description: Option<String>,
    author: Option<User>,
    web_url: Option<String>,
}

impl GitLab {
    /// A place in a project, which is named by its number or its path.
    #[must_use]
    pub fn new(account: Account, project: &str, place: Place) -> Self {
        let subject = match &place {
            Place::Change { number, .. } => format!("merge request !{number} of {project}"),
            Place::Issue { .. } => format!("issues of {project}"),
        };
        Self {
            account,
            project: format!("projects/{}", percent_encoded(project)),
            place,
            subject,
        }
    }

    /// The path of the entries below the API.
    fn list(&self) -> String {
        match &self.place {
            Place::Change { number, .. } => {
                format!("{}/merge_requests/{number}/notes", self.project)
            }
            Place::Issue { .. } => format!("{}/issues", self.project),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Error> {
        let url = self.account.endpoint.resolve(path)?;
        // A PUT sets a text or a state: twice is once.
        let is_repeatable = method != Method::POST;
        let mut request = self.account.request(&self.subject, method, url, &Rest);
        if let Some(body) = body {
            request = request.json(body);
        }
        if is_repeatable {
            request = request.repeatable();
        }
        Ok(self.account.send(&request).await?)
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        Ok(self.send(Method::GET, path, None).await?.json()?)
    }

    async fn all(&self) -> Result<Entries, Error> {
        let own: User = self.read("user").await?;
        if let Place::Change {
            number,
            head: Some(_),
        } = &self.place
        {
            let path = format!("{}/merge_requests/{number}", self.project);
            let change: MergeRequest = self.read(&path).await?;
            let found = change.sha.unwrap_or_default();
            self.place.check_head(&self.subject, &found)?;
        }
        let only = match &self.place {
            Place::Change { .. } => String::new(),
            Place::Issue { .. } => "&state=opened&scope=all".to_owned(),
        };
        let list = self.list();
        let mut entries = Entries::default();
        for page in 1..=MOST_PAGES {
            let order = "sort=asc&order_by=created_at";
            let path = format!("{list}?{order}&per_page={PER_PAGE}&page={page}{only}");
            let items: Vec<Item> = self.read(&path).await?;
            let is_last = items.len() < PER_PAGE;
            let items = items.into_iter().filter(|item| !item.system);
            entries
                .all
                .extend(items.map(|item| self.entry(item, own.id)));
            if is_last {
                return Ok(entries);
            }
        }
        Err(Error::TooMany {
            place: self.subject.clone(),
            most: MOST_PAGES,
        })
    }

    fn entry(&self, item: Item, own: u64) -> Entry {
        // Issues are named by their number in the project, notes by their own.
        let id = match &self.place {
            Place::Change { .. } => item.id,
            Place::Issue { .. } => item.iid.unwrap_or(item.id),
        };
        let shown = match item.web_url {
            Some(url) => plain(&url, 200),
            None => format!("note {id} of {}", self.subject),
        };
        let author = item.author.as_ref();
        Entry {
            id: id.to_string(),
            shown,
            author: author.map_or(String::new(), |author| plain(&author.username, 64)),
            is_own: author.is_some_and(|author| author.id == own),
            body: item.body.or(item.description).unwrap_or_default(),
        }
    }

    async fn create_comment(&self, body: &str) -> Result<Entry, Error> {
        let value = match &self.place {
            Place::Change { .. } => json!({ "body": body }),
            Place::Issue { title } => json!({ "title": title, "description": body }),
        };
        let answer = self.send(Method::POST, &self.list(), Some(&value)).await?;
        let item: Item = answer.json().map_err(|_| {
            let text = "an answer without the new entry, which may have been created";
            answer.failure(Class::Ambiguous, text)
        })?;
        let mut entry = self.entry(item, 0);
        entry.is_own = true;
        Ok(entry)
    }

    async fn put(&self, entry: &Entry, value: Value) -> Result<(), Error> {
        let path = format!("{}/{}", self.list(), entry.id);
        self.send(Method::PUT, &path, Some(&value)).await?;
        Ok(())
    }
}

/// The text of an outdated note: another marker, and the old text in a fold.
fn outdated(body: &str) -> String {
    let body = body.replacen("<!-- trueup:", "<!-- outdated trueup:", 1);
    format!(
        "<!-- trueup:outdated -->\n<details><summary>Outdated; a newer comment replaces it</summary>\n\n{body}\n\n</details>\n"
    )
}

impl Forge for GitLab {
    fn entries(&self) -> Pending<'_, Result<Entries, Error>> {
        Box::pin(self.all())
    }

    fn create<'a>(&'a self, _: &'a str, body: &'a str) -> Pending<'a, Result<Entry, Error>> {
        Box::pin(self.create_comment(body))
    }

    fn update<'a>(&'a self, entry: &'a Entry, body: &'a str) -> Pending<'a, Result<(), Error>> {
        let value = match &self.place {
            Place::Change { .. } => json!({ "body": body }),
            Place::Issue { .. } => json!({ "description": body }),
        };
        Box::pin(self.put(entry, value))
    }

    fn hide<'a>(&'a self, entry: &'a Entry) -> Pending<'a, Result<(), Error>> {
        let value = match &self.place {
            Place::Change { .. } => json!({ "body": outdated(&entry.body) }),
            Place::Issue { .. } => json!({ "state_event": "close" }),
        };
        Box::pin(self.put(entry, value))
    }
}
