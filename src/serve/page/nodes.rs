//! The page of the nodes: their state by the records, some hundred of them at a time.

use std::fmt::{self, Write};

use super::words::{navigation, phase, short};
use crate::record::Phase;
use crate::report::{counted, html_sentence, xml};
use crate::serve::answer::Refusal;
use crate::serve::own::{NodeStatus, SiteView};
use crate::serve::query::Query;

/// The nodes of one page.
const MOST: usize = 200;

/// The parameters of the page.
pub(super) const PARAMETERS: [&str; 2] = ["state", "after"];

/// The nodes that differ from the design, among the states.
const DIFFERS: &str = "differs";

/// The states by which nodes are listed, in the order of their urgency.
const STATES: [Phase; 5] = [
    Phase::Failed,
    Phase::Unknown,
    Phase::NotStarted,
    Phase::Prepared,
    Phase::Deployed,
];

/// The nodes that are wanted.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    state: Option<&'static str>,
    /// The last node of the page before.
    after: Option<String>,
}

impl Wanted {
    /// Reads the parameters.
    pub(super) fn of(query: &Query) -> Result<Self, Refusal> {
        let state = match query.text("state") {
            None | Some("") => None,
            Some(DIFFERS) => Some(DIFFERS),
            Some(word) => {
                let mut known = STATES.into_iter().map(Phase::as_str);
                let found = known.find(|known| *known == word);
                Some(found.ok_or_else(|| Refusal::bad_request("`state` is no state of nodes"))?)
            }
        };
        let after = query.text("after").map(str::to_owned);
        Ok(Self { state, after })
    }

    fn has(&self, node: &NodeStatus) -> bool {
        match self.state {
            None => true,
            Some(DIFFERS) => !node.differs.is_empty(),
            Some(state) => node.phase.unwrap_or(Phase::NotStarted.as_str()) == state,
        }
    }

    fn is_behind(&self, node: &NodeStatus) -> bool {
        self.after.as_ref().is_none_or(|after| node.node > *after)
    }
}

/// Writes the page.
pub(super) fn write(out: &mut dyn Write, site: &SiteView, wanted: &Wanted) -> fmt::Result {
    let all = &site.status.nodes;
    let found: Vec<&NodeStatus> = all.iter().filter(|node| wanted.has(node)).collect();
    navigation(out)?;
    writeln!(
        out,
        "<header class=\"top\"><p class=\"eyebrow\">site <b>{}</b></p><h1>{}</h1>",
        xml(&site.status.site),
        counted(found.len(), "node", "nodes")
    )?;
    states(out, site, wanted)?;
    writeln!(
        out,
        "<p class=\"meta\">By the design of commit {} and the records; no machine was asked.</p></header>\
         <main id=\"main\"><section aria-label=\"Nodes\">",
        short(&site.status.revision)
    )?;
    let left: Vec<&NodeStatus> = found
        .into_iter()
        .filter(|node| wanted.is_behind(node))
        .collect();
    let shown = &left[..left.len().min(MOST)];
    match shown {
        [] => writeln!(out, "<p class=\"empty\">No node is in this state.</p>")?,
        shown => table(out, site, shown)?,
    }
    if let (Some(last), true) = (shown.last(), left.len() > shown.len()) {
        let state = wanted.state.map(|state| format!("state={state}&amp;"));
        writeln!(
            out,
            "<p class=\"more\"><a href=\"/nodes?{}after={}\">The next of {} more</a></p>",
            state.unwrap_or_default(),
            xml(&encoded(&last.node)),
            left.len() - shown.len()
        )?;
    }
    writeln!(
        out,
        "</section></main>\n<footer><p><a href=\"/api/v1/nodes\">Designs</a> and <a href=\"/api/v1/status\">states</a> of \
         all nodes are for programs.</p></footer>"
    )
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The links to the nodes of each state that any of them is in.
fn states(out: &mut dyn Write, site: &SiteView, wanted: &Wanted) -> fmt::Result {
    let all = &site.status.nodes;
    let count = |state: &'static str| {
        let of = Wanted {
            state: Some(state),
            after: None,
        };
        all.iter().filter(|node| of.has(node)).count()
    };
    let named = STATES.into_iter().map(Phase::as_str);
    let named = std::iter::once(DIFFERS).chain(named);
    writeln!(out, "<nav aria-label=\"States\"><ul class=\"states\">")?;
    let states =
        std::iter::once((None, all.len())).chain(named.map(|state| (Some(state), count(state))));
    for (state, count) in states {
        if count == 0 && state != wanted.state {
            continue;
        }
        let current = if state == wanted.state {
            " aria-current=\"page\""
        } else {
            ""
        };
        let address = state.map(|state| format!("?state={state}"));
        writeln!(
            out,
            "<li><a href=\"/nodes{}\"{current}>{} <span class=\"number\">{count}</span></a></li>",
            address.unwrap_or_default(),
            xml(&state.unwrap_or("all").replace('-', " "))
        )?;
    }
    writeln!(out, "</ul></nav>")
}

fn table(out: &mut dyn Write, site: &SiteView, nodes: &[&NodeStatus]) -> fmt::Result {
    writeln!(
        out,
        "<table class=\"rows\"><thead><tr><th scope=\"col\">Node</th><th scope=\"col\">State</th>\
         <th scope=\"col\">Rack</th><th scope=\"col\">Groups</th><th scope=\"col\">Last run</th>\
         <th scope=\"col\">Note</th></tr></thead><tbody>"
    )?;
    for node in nodes {
        let designed = site
            .nodes
            .binary_search_by(|each| each.name.cmp(&node.node));
        let designed = designed.ok().and_then(|at| site.nodes.get(at));
        let rack = designed.and_then(|design| design.rack.as_deref());
        let groups = designed.map(|design| design.groups.join(", "));
        let run = node.run.as_deref().map_or_else(String::new, |run| {
            let run = xml(run);
            format!("<a href=\"/runs/{run}\"><code>{run}</code></a>")
        });
        writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td data-name=\"rack\">{}</td><td data-name=\"groups\">{}</td>\
             <td data-name=\"last run\">{run}</td><td class=\"message\">{}</td></tr>",
            xml(&node.node),
            phase(node.phase),
            xml(rack.unwrap_or_default()),
            xml(&groups.unwrap_or_default()),
            html_sentence(&note(node))
        )?;
    }
    writeln!(out, "</tbody></table>")
}

/// Whatever is special about a node.
fn note(node: &NodeStatus) -> String {
    let reason = |what: &str, reason: Option<&String>| reason.map(|why| format!("{what}: {why}"));
    let parts = [
        (!node.is_designed).then(|| "not in the design".to_owned()),
        reason("retired", node.retired.as_ref()),
        reason("in maintenance", node.maintenance.as_ref()),
        node.reserved.clone(),
        (!node.differs.is_empty()).then(|| node.differs.join("; ")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, phase: Option<&'static str>, differs: &[&str]) -> NodeStatus {
        NodeStatus {
            node: name.to_owned(),
            is_designed: true,
            phase,
            revision: None,
            run: None,
            retired: None,
            maintenance: None,
            reserved: None,
            last_error: None,
            differs: differs.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    fn wanted(query: &str) -> Result<Wanted, Refusal> {
        Wanted::of(&Query::parse(Some(query), &PARAMETERS).unwrap())
    }

    #[test]
    fn nodes_are_listed_by_state_and_behind_one_another() {
        let (new, failed) = (node("a", None, &[]), node("b", Some("failed"), &["x"]));
        let has = |query: &str, node: &NodeStatus| {
            let wanted = wanted(query).unwrap();
            wanted.has(node) && wanted.is_behind(node)
        };
        assert!(has("", &new) && has("", &failed));
        assert!(has("state=not-started", &new) && !has("state=not-started", &failed));
        assert!(has("state=failed", &failed) && !has("state=failed", &new));
        assert!(has("state=differs", &failed) && !has("state=differs", &new));
        assert!(!has("after=a", &new) && has("after=a", &failed));
        assert!(wanted("state=<script>").is_err());
    }
}
