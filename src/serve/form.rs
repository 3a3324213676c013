//! The forms in which a plan or a run is read: by an ending of its address, else by `Accept`.

use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};

use super::answer::Refusal;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Markdown,
    Html,
}

impl Form {
    fn kind(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
        }
    }

    /// The id in the last part of an address, and the form that is asked for.
    pub(super) fn of<'p>(part: &'p str, headers: &HeaderMap) -> Result<(&'p str, Self), Refusal> {
        if let Some((id, ending)) = part.split_once('.') {
            return match ending {
                "json" => Ok((id, Self::Json)),
                "md" => Ok((id, Self::Markdown)),
                "html" => Ok((id, Self::Html)),
                _ => Err(Refusal::not_found("it is read as .json, .md or .html")),
            };
        }
        let accepted = headers.get_all(ACCEPT).iter();
        let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
        Ok((part, Self::accepted(&accepted.join(","))?))
    }

    /// The form that a caller prefers (RFC 9110); JSON if it takes everything.
    fn accepted(accepted: &str) -> Result<Self, Refusal> {
        let mut best: Option<(f32, Self)> = None;
        for range in accepted.split(',').filter(|range| !range.trim().is_empty()) {
            let mut parts = range.split(';').map(str::trim);
            let form = match parts
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase()
                .as_str()
            {
                "application/json" | "application/*" | "*/*" => Self::Json,
                "text/html" => Self::Html,
                "text/markdown" | "text/*" => Self::Markdown,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight = weight.map_or(Some(1.0), |text| text.parse::<f32>().ok());
            let Some(weight) = weight.filter(|weight| *weight > 0.0) else {
                continue;
            };
            if best.is_none_or(|(heaviest, _)| weight > heaviest) {
                best = Some((weight, form));
            }
        }
        match best {
            Some((_, form)) => Ok(form),
            None if accepted.trim().is_empty() => Ok(Self::Json),
            None => Err(Refusal::not_acceptable(
                "it is read as application/json, text/markdown or text/html",
            )),
        }
    }
}

/// A text in a form as an answer. A page brings its own content security policy; no other page may frame it.
pub(super) fn of_text(form: Form, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, form.kind()),
        (CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (VARY, "Accept"),
    ];
    (headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_the_address_counts_before_what_is_accepted() {
        let mut headers = HeaderMap::new();
        assert_eq!(Form::of("a", &headers), Ok(("a", Form::Json)));
        headers.insert(ACCEPT, "text/html".parse().unwrap());
        assert_eq!(Form::of("a", &headers), Ok(("a", Form::Html)));
        assert_eq!(Form::of("a.md", &headers), Ok(("a", Form::Markdown)));
        assert!(Form::of("a.exe", &headers).is_err());
    }

    #[test]
    fn the_heaviest_range_that_is_known_counts() {
        for (accepted, form) in [
            ("", Some(Form::Json)),
            ("*/*", Some(Form::Json)),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Some(Form::Html),
            ),
            ("text/html;q=0.5, text/markdown", Some(Form::Markdown)),
            ("application/json, text/html", Some(Form::Json)),
            ("image/png", None),
            ("text/html;q=0", None),
        ] {
            assert_eq!(Form::accepted(accepted).ok(), form, "{accepted}");
        }
    }
}
