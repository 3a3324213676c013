//! The shapes of messages for services that do not take the own one.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Moment, Notification};

/// The longest summary that PagerDuty takes.
const LONGEST_SUMMARY: usize = 1024;
/// The longest key by which PagerDuty tells events apart.
const LONGEST_KEY: usize = 255;

/// The shape of the messages of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    /// The own one, by `schemas/notification.json`.
    #[default]
    Json,
    /// An incoming webhook of Slack.
    Slack,
    /// A workflow of Teams that posts a card.
    Teams,
    /// The events of PagerDuty, version 2.
    PagerDuty,
}

impl Shape {
    /// The body of a message; `None`: this service takes none at that moment. `routing_key`: that of PagerDuty.
    pub(super) fn body(self, notification: &Notification, routing_key: &str) -> Option<Value> {
        match self {
            Self::Json => serde_json::to_value(notification).ok(),
            Self::Slack => Some(json!({ "text": slack_text(notification) })),
            Self::Teams => Some(teams(notification)),
            Self::PagerDuty => pager_duty(notification, routing_key),
        }
    }
}

/// The lines below the summary.
fn lines(notification: &Notification) -> Vec<String> {
    let mut lines: Vec<String> = notification
        .unfinished
        .iter()
        .map(|each| {
            let step = each.step.as_ref().map(|step| format!(" at {step}"));
            let why = each.message.as_ref().map(|why| format!(": {why}"));
            let (step, why) = (step.unwrap_or_default(), why.unwrap_or_default());
            format!("{}{step}{why}", each.node)
        })
        .collect();
    if notification.unfinished_more > 0 {
        lines.push(format!("and {} more", notification.unfinished_more));
    }
    lines.extend(notification.next.iter().cloned());
    lines
}

/// The fields beside the summary, as names and values.
fn facts(notification: &Notification) -> Vec<(&'static str, String)> {
    let of = |name, value: &Option<String>| Some((name, value.clone()?));
    let all = [
        Some(("site", notification.site.clone())),
        of("run", &notification.run),
        of("part", &notification.part),
        of("action", &notification.action),
        of("revision", &notification.revision),
        of("ticket", &notification.ticket),
        of("outcome", &notification.outcome),
    ];
    all.into_iter().flatten().collect()
}

/// A text of Slack: what stands between `<` and `>` would be a link or call people.
fn slack_escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn slack_text(notification: &Notification) -> String {
    let mut text = slack_escaped(&notification.summary);
    let facts = facts(notification);
    let facts: Vec<String> = facts
        .iter()
        .map(|(name, value)| format!("{name} {}", slack_escaped(value)))
        .collect();
    text.push('\n');
    text.push_str(&facts.join(", "));
    for line in lines(notification) {
        text.push_str("\n• ");
        text.push_str(&slack_escaped(&line));
    }
    text
}

/// A text of a card, in which Markdown would be a link or an image.
fn card_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(
            letter,
            '\\' | '[' | ']' | '(' | ')' | '*' | '_' | '<' | '>' | '#' | '!'
        ) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

fn teams(notification: &Notification) -> Value {
    let text = |text: &str, weight: &str| json!({"type": "TextBlock", "text": card_escaped(text), "weight": weight, "wrap": true});
    let facts: Vec<Value> = facts(notification)
        .into_iter()
        .map(|(name, value)| json!({"title": name, "value": card_escaped(&value)}))
        .collect();
    let mut body = vec![
        text(&notification.summary, "Bolder"),
        json!({"type": "FactSet", "facts": facts}),
    ];
    body.extend(lines(notification).iter().map(|line| text(line, "Default")));
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
}

/// An incident is opened at a stop, acknowledged if the run is resumed, and resolved at the end. A test resolves one
/// that nothing has opened.
fn pager_duty(notification: &Notification, routing_key: &str) -> Option<Value> {
    let about = notification.run.as_deref();
    let (action, about) = match notification.event {
        Moment::Stop => ("trigger", about.unwrap_or("approvals")),
        Moment::Begin if notification.resumed => ("acknowledge", about?),
        Moment::Begin => return None,
        Moment::End => ("resolve", about?),
        Moment::Test => ("resolve", "doctor"),
    };
    let clipped = |text: &str, longest| text.chars().take(longest).collect::<String>();
    let key = clipped(
        &format!("trueup/{}/{about}", notification.site),
        LONGEST_KEY,
    );
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": action,
        "dedup_key": key,
    });
    if action == "trigger" {
        event["payload"] = json!({
            "summary": clipped(&notification.summary, LONGEST_SUMMARY),
            "source": notification.site,
            "severity": "error",
            "component": "trueup",
            "timestamp": notification.time,
            "custom_details": notification,
        });
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::notify::{FailedNode, StopReason};

    fn stopped() -> Notification {
        let mut stopped =
            Notification::new("edge", Moment::Stop, Arc::from("2027-01-15T12:00:00Z"));
        stopped.reason = Some(StopReason::Failed);
        stopped.run = Some("01M7".to_owned());
        stopped.summary = "run 01M7 of edge stopped: failed".to_owned();
        stopped.unfinished = (0..25)
            .map(|each| FailedNode {
                node: format!("n{each}"),
                step: Some("deploy".to_owned()),
                message: Some("<!channel> [here](http://evil.example) \u{1b}[2J".to_owned()),
            })
            .collect();
        stopped.bounded()
    }

    #[test]
    fn many_nodes_are_counted_and_control_characters_escaped() {
        let stopped = stopped();
        assert_eq!(stopped.unfinished.len(), 20);
        assert_eq!(stopped.unfinished_more, 5);
        let body = Shape::Json.body(&stopped, "").unwrap().to_string();
        assert!(!body.contains("\\u001b"), "{body}");
        assert!(body.len() < 16 << 10, "{} bytes", body.len());
    }

    #[test]
    fn a_text_from_outside_makes_no_link_and_calls_no_person() {
        let slack = Shape::Slack.body(&stopped(), "").unwrap();
        let text = slack["text"].as_str().unwrap();
        assert!(text.contains("&lt;!channel&gt;"), "{text}");
        assert!(!text.contains("<!channel>"), "{text}");
        let teams = Shape::Teams.body(&stopped(), "").unwrap();
        let line = &teams["attachments"][0]["content"]["body"][2]["text"];
        let line = line.as_str().unwrap();
        assert!(line.contains("\\[here\\]\\(http"), "{line}");
    }

    #[test]
    fn pager_duty_opens_an_incident_at_a_stop_and_resolves_it_at_the_end() {
        let event = |moment, resumed| {
            let mut told = stopped();
            (told.event, told.resumed) = (moment, resumed);
            Shape::PagerDuty.body(&told, "key")
        };
        let trigger = event(Moment::Stop, false).unwrap();
        assert_eq!(trigger["event_action"], "trigger");
        assert_eq!(trigger["routing_key"], "key");
        assert_eq!(trigger["payload"]["severity"], "error");
        let resolve = event(Moment::End, false).unwrap();
        assert_eq!(resolve["event_action"], "resolve");
        assert_eq!(resolve["dedup_key"], trigger["dedup_key"]);
        assert_eq!(
            event(Moment::Begin, true).unwrap()["event_action"],
            "acknowledge"
        );
        assert_eq!(event(Moment::Begin, false), None);
        let test = event(Moment::Test, false).unwrap();
        assert_ne!(test["dedup_key"], trigger["dedup_key"]);
    }
}
