//! The frame of all pages.

use super::*;
use crate::document::{is_command_mark, leading_command};

fn framed(title: &str) -> String {
    let mut text = String::new();
    page(&mut text, OFFLINE, title, |out| {
        out.write_str("<p>text</p>\n")
    })
    .unwrap();
    text
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let from = text.find(start).unwrap() + start.len();
    &text[from..from + text[from..].find(end).unwrap()]
}

#[test]
fn the_policy_of_a_page_holds_the_digests_of_its_own_style_and_script_and_allows_nothing_else() {
    let text = framed("a title");
    let policy = between(&text, "Content-Security-Policy\" content=\"", "\"");
    for (element, end, directive) in [
        ("<style>", "</style>", "style-src"),
        ("<script>", "</script>", "script-src"),
    ] {
        let digest = Sha256::digest(between(&text, element, end).as_bytes());
        let wanted = format!("{directive} 'sha256-{}'", BASE64.encode(&digest));
        assert!(policy.contains(&wanted), "{policy}");
        assert_eq!(text.matches(element).count(), 1);
    }
    assert!(policy.starts_with("default-src 'none'; "));
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'));
    // The policy stands before everything that it is about.
    assert!(text.find("Content-Security-Policy") < text.find("<style>"));
}

#[test]
fn a_page_loads_nothing_and_has_no_attribute_that_the_policy_would_refuse() {
    let text = framed("t");
    for part in [
        " style=",
        "src=",
        "@import",
        "url(",
        "innerHTML",
        "eval(",
        "fetch(",
    ] {
        assert!(!text.contains(part), "{part}");
    }
    for line in text.lines() {
        assert_eq!(leading_command(line), None, "{line}");
        let marks = line.match_indices('#');
        assert!(
            !marks
                .into_iter()
                .any(|(at, _)| is_command_mark(line.as_bytes(), at)),
            "{line}"
        );
    }
}

#[test]
fn a_title_is_text() {
    let text = framed("</title><script>alert(1)</script>");
    assert_eq!(text.matches("<script").count(), 1);
}

#[test]
fn values_side_by_side_show_the_words_that_differ() {
    let row = |before, after| {
        let mut text = String::new();
        compared(&mut text, before, after).unwrap();
        text
    };
    assert_eq!(
        row(Some("quiet mtu=1500 <b>"), Some("quiet mtu=9000 <b>")),
        "<td class=\"before\"><code>quiet <del>mtu=1500</del> &lt;b&gt;</code></td>\
         <td class=\"after\"><code>quiet <ins>mtu=9000</ins> &lt;b&gt;</code></td>"
    );
    assert_eq!(
        row(Some("ttyS1"), Some("ttyS2")),
        "<td class=\"before\"><code><del>ttyS1</del></code></td>\
         <td class=\"after\"><code><ins>ttyS2</ins></code></td>"
    );
    assert_eq!(
        row(None, Some("x&y")),
        "<td class=\"before\"><i class=\"none\">none</i></td>\
         <td class=\"after\"><code><ins>x&amp;y</ins></code></td>"
    );
}
