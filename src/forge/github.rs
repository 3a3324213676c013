//! GitHub: pull requests and issues by GraphQL, which tells whether the token's own account wrote a comment.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{MOST_PAGES, Place, class_of, wait_of, words_of};
use super::{Account, Entries, Entry, Error, Forge};
use crate::backend::Pending;
use crate::backend::http::{Answer, Class, Dialect, plain};

const COMMENTS: &str = "query($owner:String!,$name:String!,$number:Int!,$after:String){\
    repository(owner:$owner,name:$name){pullRequest(number:$number){id headRefOid \
    list:comments(first:100,after:$after){nodes{id url body viewerDidAuthor isMinimized author{login}} \
    pageInfo{hasNextPage endCursor}}}}}";
const ISSUES: &str = "query($owner:String!,$name:String!,$after:String){\
    repository(owner:$owner,name:$name){id \
    list:issues(first:100,after:$after,states:[OPEN],orderBy:{field:CREATED_AT,direction:ASC}){\
    nodes{id url body viewerDidAuthor author{login}} pageInfo{hasNextPage endCursor}}}}";
const ADD_COMMENT: &str = "mutation($id:ID!,$body:String!){\
    done:addComment(input:{subjectId:$id,body:$body}){commentEdge{node{id url}}}}";
const UPDATE_COMMENT: &str = "mutation($id:ID!,$body:String!){\
    done:updateIssueComment(input:{id:$id,body:$body}){issueComment{id url}}}";
const HIDE_COMMENT: &str = "mutation($id:ID!){\
    done:minimizeComment(input:{subjectId:$id,classifier:OUTDATED}){minimizedComment{isMinimized}}}";
const CREATE_ISSUE: &str = "mutation($id:ID!,$title:String!,$body:String!){\
    done:createIssue(input:{repositoryId:$id,title:$title,body:$body}){issue{id url}}}";
const UPDATE_ISSUE: &str = "mutation($id:ID!,$body:String!){\
    done:updateIssue(input:{id:$id,body:$body}){issue{id url}}}";
const CLOSE_ISSUE: &str = "mutation($id:ID!){\
    done:closeIssue(input:{issueId:$id,stateReason:COMPLETED}){issue{id url}}}";

/// A place in a repository on GitHub.
#[derive(Debug)]
pub struct GitHub {
    account: Account,
    owner: String,
    name: String,
    place: Place,
    /// The place in messages.
    subject: String,
}

/// Refusals of GraphQL, which come with the status of a success, too.
#[derive(Debug)]
struct GraphQl;

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    errors: Vec<RefusalError>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct RefusalError {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
}

fn refusal(answer: &Answer) -> Option<Refusal> {
    serde_json::from_slice(answer.body()).ok()
}

impl Dialect for GraphQl {
    fn refuses(&self, answer: &Answer) -> bool {
        refusal(answer).is_some_and(|refusal| !refusal.errors.is_empty())
    }

    fn words(&self, answer: &Answer) -> Option<String> {
        let refusal = refusal(answer);
        let own = refusal.and_then(|refusal| {
            let all = refusal.errors.into_iter().filter_map(|error| error.message);
            let all: Vec<String> = refusal.message.into_iter().chain(all).collect();
            (!all.is_empty()).then(|| all.join("; "))
        });
        words_of(answer, own)
    }

    fn class(&self, answer: &Answer, is_safe: bool) -> Class {
        let is_limited = refusal(answer).is_some_and(|refusal| {
            let mut kinds = refusal.errors.iter().map(|error| error.kind.as_deref());
            let secondary = |words: &str| words.contains("secondary rate limit");
            kinds.any(|kind| kind == Some("RATE_LIMITED"))
                || refusal.message.as_deref().is_some_and(secondary)
        });
        class_of(answer, is_limited, is_safe)
    }

    fn retry_after(&self, answer: &Answer) -> Option<Duration> {
        wait_of(answer)
    }
}

#[derive(Deserialize)]
struct Data<T> {
    data: T,
}

#[derive(Deserialize)]
struct InRepository {
    repository: Option<Repository>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Repository {
    id: Option<String>,
    list: Option<List>,
    pull_request: Option<PullRequest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullRequest {
    id: String,
    head_ref_oid: String,
    list: List,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    nodes: Vec<Option<Node>>,
    page_info: PageInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: String,
    url: String,
    body: String,
    viewer_did_author: bool,
    #[serde(default)]
    is_minimized: bool,
    author: Option<Author>,
}

#[derive(Deserialize)]
struct Author {
    login: String,
}

/// A part of a new entry that is read.
#[derive(Deserialize)]
struct Made {
    id: String,
    url: String,
}

impl Node {
    fn entry(self) -> Option<Entry> {
        let author = self
            .author
            .map_or("ghost".to_owned(), |author| author.login);
        (!self.is_minimized).then(|| Entry {
            id: self.id,
            shown: plain(&self.url, 200),
            author: plain(&author, 64),
            is_own: self.viewer_did_author,
            body: self.body,
        })
    }
}

impl GitHub {
    /// A place in `OWNER/NAME`.
    ///
    /// # Errors
    ///
    /// It is no name of a repository.
    pub fn new(account: Account, repository: &str, place: Place) -> Result<Self, Error> {
        let is_plain = |part: &str| {
            let letters = part.chars();
            !part.is_empty() && { letters }.all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        };
        let parts = repository.split_once('/');
        let Some((owner, name)) = parts.filter(|(owner, name)| is_plain(owner) && is_plain(name))
        else {
            return Err(Error::NotFound(format!("repository `{repository}`")));
        };
        let subject = match &place {
            Place::Change { number, .. } => format!("pull request {repository}#{number}"),
            Place::Issue { .. } => format!("issues of {repository}"),
        };
        Ok(Self {
            account,
            owner: owner.to_owned(),
            name: name.to_owned(),
            place,
            subject,
        })
    }

    async fn ask(
        &self,
        query: &str,
        variables: Value,
        is_repeatable: bool,
    ) -> Result<Answer, Error> {
        let mut url = self.account.endpoint.resolve("")?;
        // The address of GraphQL itself has no path below it.
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        let body = json!({ "query": query, "variables": variables });
        let request = self
            .account
            .request(&self.subject, Method::POST, url, &GraphQl)
            .json(&body);
        let request = match is_repeatable {
            true => request.repeatable(),
            false => request,
        };
        Ok(self.account.send(&request).await?)
    }

    /// One page: the place's own name, and its entries.
    async fn page(&self, after: Option<&str>) -> Result<(String, List), Error> {
        let mut variables = json!({ "owner": self.owner, "name": self.name, "after": after });
        let query = match &self.place {
            Place::Change { number, .. } => {
                variables["number"] = json!(number);
                COMMENTS
            }
            Place::Issue { .. } => ISSUES,
        };
        let answer = self.ask(query, variables, true).await?;
        let read: Data<InRepository> = answer.json()?;
        let lost = || Error::NotFound(self.subject.clone());
        let repository = read.data.repository.ok_or_else(lost)?;
        match &self.place {
            Place::Change { .. } => {
                let change = repository.pull_request.ok_or_else(lost)?;
                self.place.check_head(&self.subject, &change.head_ref_oid)?;
                Ok((change.id, change.list))
            }
            Place::Issue { .. } => {
                let id = repository.id.ok_or_else(lost)?;
                Ok((id, repository.list.ok_or_else(lost)?))
            }
        }
    }

    async fn all(&self) -> Result<Entries, Error> {
        let mut entries = Entries::default();
        let mut after: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let (subject, list) = self.page(after.as_deref()).await?;
            let nodes = list.nodes.into_iter().flatten();
            entries.all.extend(nodes.filter_map(Node::entry));
            entries.subject = subject;
            match list.page_info.end_cursor {
                Some(cursor) if list.page_info.has_next_page => after = Some(cursor),
                _ => return Ok(entries),
            }
        }
        Err(Error::TooMany {
            place: self.subject.clone(),
            most: MOST_PAGES,
        })
    }

    async fn create_comment(&self, subject: &str, body: &str) -> Result<Entry, Error> {
        let mut variables = json!({ "id": subject, "body": body });
        let (query, path) = match &self.place {
            Place::Change { .. } => (ADD_COMMENT, "/data/done/commentEdge/node"),
            Place::Issue { title } => {
                variables["title"] = json!(title);
                (CREATE_ISSUE, "/data/done/issue")
            }
        };
        let answer = self.ask(query, variables, false).await?;
        let unreadable = || {
            let text = "an answer without the new entry, which may have been created";
            answer.failure(Class::Ambiguous, text)
        };
        let read: Value = answer.json().map_err(|_| unreadable())?;
        let made = read.pointer(path).ok_or_else(unreadable)?;
        let made = Made::deserialize(made).map_err(|_| unreadable())?;
        Ok(Entry {
            id: made.id,
            shown: plain(&made.url, 200),
            author: String::new(),
            is_own: true,
            body: body.to_owned(),
        })
    }

    /// One of two mutations, by the place.
    async fn change(&self, of: [&str; 2], variables: Value) -> Result<(), Error> {
        let query = match &self.place {
            Place::Change { .. } => of[0],
            Place::Issue { .. } => of[1],
        };
        self.ask(query, variables, true).await?;
        Ok(())
    }
}

impl Forge for GitHub {
    fn entries(&self) -> Pending<'_, Result<Entries, Error>> {
        Box::pin(self.all())
    }

    fn create<'a>(&'a self, subject: &'a str, body: &'a str) -> Pending<'a, Result<Entry, Error>> {
        Box::pin(self.create_comment(subject, body))
    }

    fn update<'a>(&'a self, entry: &'a Entry, body: &'a str) -> Pending<'a, Result<(), Error>> {
        let variables = json!({ "id": entry.id, "body": body });
        Box::pin(self.change([UPDATE_COMMENT, UPDATE_ISSUE], variables))
    }

    fn hide<'a>(&'a self, entry: &'a Entry) -> Pending<'a, Result<(), Error>> {
        let variables = json!({ "id": entry.id });
        Box::pin(self.change([HIDE_COMMENT, CLOSE_ISSUE], variables))
    }
}
