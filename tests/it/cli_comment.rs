//! `trueup comment` against stand-ins of GitHub and GitLab: one comment, its own, kept up to date.

use std::process::{Child, Command};

use serde_json::json;

use super::fixture::{Ended, Fixture};
use super::forge_server::{ForgeServer, OWN, TOKEN, answer};

const MARKER: &str = "<!-- trueup:plan site=edge -->";

/// A forge, and a file to publish there.
struct World {
    fixture: Fixture,
    server: ForgeServer,
    forge: &'static str,
}

const FORGES: [&str; 2] = ["github", "gitlab"];

impl World {
    fn new(forge: &'static str) -> Self {
        let world = Self {
            fixture: Fixture::empty("edge"),
            server: ForgeServer::start(),
            forge,
        };
        world.write("first");
        world
    }

    fn write(&self, text: &str) {
        self.fixture
            .checkout
            .write("plan.md", format!("{MARKER}\n{text}\n"));
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let words = ["comment", "--on", self.forge, "plan.md"];
        let mut command = self.fixture.command(&[&words[..], arguments].concat());
        let url = self.server.url();
        match self.forge {
            "github" => command
                .env("GITHUB_TOKEN", TOKEN)
                .env("GITHUB_REPOSITORY", "site/edge")
                .env("GITHUB_API_URL", &url),
            _ => command
                .env("GITLAB_TOKEN", TOKEN)
                .env("CI_PROJECT_ID", "3")
                .env("CI_API_V4_URL", format!("{url}/api/v4")),
        };
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        // Even what is logged of each request has no token.
        let output = self.command(&[arguments, &["-vvv"]].concat()).output();
        let ended: Ended = output.unwrap().into();
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!all.contains(TOKEN), "the token is printed: {all}");
        ended
    }

    fn comment(&self) -> Ended {
        self.run(&["--change", "7"])
    }

    /// The texts of the entries that begin with the marker and are not hidden.
    fn shown(&self) -> Vec<String> {
        let items = self.server.items().into_iter();
        let shown = items.filter(|item| !item.is_hidden && item.body.starts_with(MARKER));
        shown
            .map(|item| item.body[MARKER.len()..].trim().to_owned())
            .collect()
    }

    /// How often something was created.
    fn creations(&self) -> usize {
        let acts = self.server.acts();
        let creates = ["addComment", "createIssue", "POST notes", "POST issues"];
        acts.iter()
            .filter(|act| creates.contains(&act.as_str()))
            .count()
    }
}

#[test]
fn a_comment_is_created_once_and_then_updated_in_place() {
    for forge in FORGES {
        let world = World::new(forge);
        let created = world.comment().with(0).stdout;
        assert!(created.starts_with("created "), "{created}");
        assert!(world.comment().with(0).stdout.starts_with("unchanged "));
        world.write("second");
        assert!(world.comment().with(0).stdout.starts_with("updated "));
        assert_eq!(world.shown(), ["second"], "{forge}");
        assert_eq!(world.server.items().len(), 1);
        let items = world.server.items();
        assert_eq!(items[0].author, OWN);
    }
}

#[test]
fn the_number_of_the_change_is_that_of_the_pipeline() {
    for (forge, variable, value) in [
        ("github", "GITHUB_REF", "refs/pull/7/merge"),
        ("gitlab", "CI_MERGE_REQUEST_IID", "7"),
    ] {
        let world = World::new(forge);
        world.run(&[]).with(64).saying("--change N");
        let output = world.command(&[]).env(variable, value).output().unwrap();
        Ended::from(output).with(0);
        assert_eq!(world.shown(), ["first"]);
    }
}

#[test]
fn a_comment_of_another_account_is_left_as_it_is() {
    for forge in FORGES {
        let world = World::new(forge);
        world
            .server
            .has("mallory", &format!("{MARKER}\nNo changes"));
        world
            .comment()
            .with(0)
            .saying("`mallory` begins with the same marker");
        let items = world.server.items();
        assert_eq!(items[0].body, format!("{MARKER}\nNo changes"));
        assert!(!items[0].is_hidden);
        assert_eq!(items.len(), 2);
    }
}

#[test]
fn outdated_comments_are_hidden_and_the_oldest_stays() {
    for forge in FORGES {
        let world = World::new(forge);
        world.server.has(OWN, &format!("{MARKER}\nold"));
        world
            .server
            .has(OWN, "<!-- trueup:plan site=other -->\nother site");
        world.server.has(OWN, &format!("{MARKER}\nolder job"));
        world.comment().with(0).saying("hid 1 outdated entry");
        assert_eq!(world.shown(), ["first"], "{forge}");
        let items = world.server.items();
        assert_eq!(items[0].body.trim(), format!("{MARKER}\nfirst"));
        assert!(!items[1].is_hidden && items[1].body.ends_with("other site"));
        if forge == "gitlab" {
            assert!(
                items[2]
                    .body
                    .starts_with("<!-- trueup:outdated -->\n<details>")
            );
            assert!(items[2].body.contains("older job"));
        }
        let acts = world.server.acts().len();
        world.comment().with(0);
        assert_eq!(world.shown(), ["first"]);
        // Nothing is hidden twice.
        assert!(world.server.acts().len() - acts <= 3);
    }
}

#[test]
fn a_comment_is_found_on_any_page() {
    for forge in FORGES {
        let world = World::new(forge);
        for number in 0..205 {
            world.server.has("ada", &format!("comment {number}"));
        }
        world.server.has(OWN, &format!("{MARKER}\nold"));
        assert!(world.comment().with(0).stdout.starts_with("updated "));
        assert_eq!(world.shown(), ["first"]);
    }
}

#[test]
fn a_service_that_limits_or_fails_for_a_moment_is_asked_again() {
    for forge in FORGES {
        for (status, header) in [(429, "0"), (403, "0"), (503, "0"), (502, "0")] {
            let world = World::new(forge);
            let mut left = 2;
            world.server.script(move |request, _| {
                if request.act().starts_with("addComment")
                    || request.method == "POST" && request.act() != "list"
                {
                    return None;
                }
                left -= 1;
                (left >= 0).then(|| {
                    answer(
                        status,
                        &[("Retry-After", header)],
                        &json!({"message": "You have exceeded a secondary rate limit"}),
                    )
                })
            });
            world.comment().with(0);
            assert_eq!(world.shown(), ["first"], "{forge} {status}");
        }
    }
}

#[test]
fn a_limit_in_an_answer_of_success_is_one() {
    let world = World::new("github");
    let mut left = 1;
    world.server.script(move |_, _| {
        left -= 1;
        let limited =
            json!({"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]});
        (left >= 0).then(|| answer(200, &[("Retry-After", "0")], &limited))
    });
    world.comment().with(0);
    assert_eq!(world.server.acts(), ["list", "list", "addComment", "list"]);
}

#[test]
fn a_limit_that_lasts_longer_than_a_job_waits_ends_it_at_once() {
    for forge in FORGES {
        let world = World::new(forge);
        world.server.script(|_, _| {
            let headers = [
                ("Date", "Mon, 23 Nov 2026 12:00:00 GMT"),
                ("RateLimit-Remaining", "0"),
                ("RateLimit-Reset", "1795438800"),
                ("X-RateLimit-Remaining", "0"),
                ("X-RateLimit-Reset", "1795438800"),
            ];
            Some(answer(
                403,
                &headers,
                &json!({"message": "API rate limit exceeded"}),
            ))
        });
        world
            .comment()
            .with(1)
            .saying("API rate limit exceeded; retry in ");
        assert_eq!(world.server.acts().len(), 1);
    }
}

#[test]
fn a_creation_whose_answer_is_lost_is_not_repeated_blindly() {
    for forge in FORGES {
        for is_done in [true, false] {
            let world = World::new(forge);
            let mut left = 1;
            world.server.script(move |request, state| {
                let body = request.body["variables"]["body"].as_str();
                let body = body.or(request.body["body"].as_str())?;
                left -= 1;
                (left >= 0).then(|| {
                    if is_done {
                        state.add(OWN, body, None);
                    }
                    answer(502, &[], &json!({"message": "Bad gateway"}))
                })
            });
            world.comment().with(0);
            assert_eq!(world.shown(), ["first"], "{forge} {is_done}");
            assert_eq!(world.creations(), if is_done { 1 } else { 2 });
        }
    }
}

#[test]
fn a_dead_service_and_one_that_fails_for_good_end_with_an_error() {
    for forge in FORGES {
        let world = World::new(forge);
        world
            .server
            .script(|_, _| Some(answer(401, &[], &json!({"message": "Bad credentials"}))));
        world.comment().with(1).saying("Bad credentials");
        assert_eq!(world.server.acts().len(), 1);
        world
            .server
            .script(|_, _| Some(answer(404, &[], &json!({"message": "Not Found"}))));
        world.comment().with(1).saying("404 Not Found");
    }
    let world = World::new("github");
    world
        .run(&["--change", "8"])
        .with(1)
        .saying("pull request site/edge#8 was not found");
    let mut command = world.command(&["--change", "7"]);
    // A port that is closed: the one of a stand-in that has ended.
    let closed = ForgeServer::start().url();
    let ended: Ended = command
        .env("GITHUB_API_URL", closed)
        .output()
        .unwrap()
        .into();
    ended.with(1).saying("cannot be connected to");
}

#[test]
fn hostile_answers_are_refused_without_the_token() {
    let leaks = json!({"message": format!("no such token: {TOKEN} \u{1b}[31m::error::x")});
    let redirect = |port: u16| format!("http://127.0.0.1:{port}/graphql");
    for forge in FORGES {
        let other = ForgeServer::start();
        let location = redirect(other.port);
        let large = b"HTTP/1.1 200 OK\r\nContent-Length: 70000000\r\n\r\n[";
        let answers = [
            (answer(400, &[], &leaks), "400"),
            (
                answer(302, &[("Location", &location)], &json!({})),
                "redirect to another host",
            ),
            (
                answer(307, &[("Location", &location)], &json!({})),
                "redirect to another host",
            ),
            (answer(200, &[], &json!([])), "cannot be understood"),
            (
                answer(
                    200,
                    &[],
                    &json!({"data": {"repository": {"pullRequest": 7}}}),
                ),
                "cannot be understood",
            ),
            (large.to_vec(), "an answer of more than"),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<ht".to_vec(),
                "broke off",
            ),
        ];
        for (bytes, says) in answers {
            let world = World::new(forge);
            world.server.script(move |_, _| Some(bytes.clone()));
            let ended = world.comment().with(1);
            // An empty list is no user of GitLab and no data of GitHub.
            assert!(
                ended.stderr.contains(says),
                "{forge}: {says}: {}",
                ended.stderr
            );
            assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
            assert!(other.acts().is_empty(), "a request went to another host");
        }
    }
}

#[test]
fn a_list_without_end_ends() {
    let world = World::new("github");
    world.server.script(|request, _| {
        (request.act() == "list").then(|| {
            let list = json!({"nodes": [], "pageInfo": {"hasNextPage": true, "endCursor": "x"}});
            let change = json!({"id": "P7", "headRefOid": "", "list": list});
            answer(
                200,
                &[],
                &json!({"data": {"repository": {"pullRequest": change}}}),
            )
        })
    });
    world.comment().with(1).saying("more than 200 pages");
    assert_eq!(world.creations(), 0);
}

#[test]
fn two_jobs_at_once_leave_one_comment() {
    for forge in FORGES {
        for _ in 0..4 {
            let world = World::new(forge);
            let jobs: Vec<Child> = (0..3)
                .map(|_| world.command(&["--change", "7"]).spawn().unwrap())
                .collect();
            for job in jobs {
                Ended::from(job.wait_with_output().unwrap()).with(0);
            }
            assert_eq!(
                world.shown(),
                ["first"],
                "{forge}: {:?}",
                world.server.items()
            );
        }
    }
}

#[test]
fn a_comment_about_an_old_head_is_not_published() {
    for forge in FORGES {
        let world = World::new(forge);
        world.server.state.lock().unwrap().head = "b".repeat(40);
        let (old, new) = ("a".repeat(40), "b".repeat(40));
        world
            .run(&["--change", "7", "--head", &old])
            .with(5)
            .saying("the pipeline of the new head publishes its own plan");
        assert_eq!(world.creations(), 0);
        world.run(&["--change", "7", "--head", &new]).with(0);
        assert_eq!(world.shown(), ["first"]);
    }
}

#[test]
fn an_issue_is_opened_once_updated_and_closed() {
    for forge in FORGES {
        let world = World::new(forge);
        let issue = ["--issue", "Drift of edge"];
        let close = [&issue[..], &["--close"]].concat();
        assert_eq!(world.run(&close).with(0).stdout, "nothing to close\n");
        assert!(
            world
                .run(&issue)
                .with(0)
                .stdout
                .starts_with("created https://")
        );
        world.write("second");
        assert!(world.run(&issue).with(0).stdout.starts_with("updated "));
        let items = world.server.items();
        assert_eq!((items.len(), items[0].title.as_str()), (1, "Drift of edge"));
        assert!(items[0].body.contains("second"));
        assert!(world.run(&close).with(0).stdout.starts_with("closed "));
        assert!(world.server.items()[0].is_hidden);
        world.run(&issue).with(0);
        assert_eq!(world.server.items().len(), 2);
    }
}

#[test]
fn a_token_is_not_sent_where_it_can_be_read_and_wrong_use_is_exit_code_64() {
    let world = World::new("github");
    let mut command = world.command(&["--change", "7"]);
    let plain = command.env("GITHUB_API_URL", "http://192.0.2.1/api/v3");
    Ended::from(plain.output().unwrap())
        .with(64)
        .saying("over plain HTTP");
    for missing in ["GITHUB_TOKEN", "GITHUB_REPOSITORY"] {
        let mut command = world.command(&["--change", "7"]);
        let output = command.env_remove(missing).output().unwrap();
        Ended::from(output)
            .with(64)
            .saying(&format!("{missing} is not set"));
    }
    world.run(&["--change", "7", "--issue", "x"]).with(64);
    world.run(&["--close"]).with(64);
    world
        .run(&["--change", "7", "--head", "abcdef1"])
        .with(64)
        .saying("the whole id of a commit");
    for (text, says) in [
        (
            "no marker\n".to_owned(),
            "does not begin with trueup's marker",
        ),
        (format!("{MARKER}\n{}", "x".repeat(65_536)), "--max-bytes"),
    ] {
        world.fixture.checkout.write("plan.md", text);
        world.comment().with(1).saying(says);
    }
    assert!(world.server.acts().is_empty());
}

#[test]
fn the_markdown_of_a_plan_is_a_comment() {
    let fixture = Fixture::one_rack();
    let plan = fixture
        .run(&["plan", "--format", "markdown"])
        .with(0)
        .stdout;
    let world = World::new("gitlab");
    world.fixture.checkout.write("plan.md", &plan);
    world.comment().with(0);
    assert_eq!(world.server.items()[0].body, plan);
}
