"use strict";
(() => {
  const run = document.getElementById("run");
  if (!run || !run.dataset.events || !window.EventSource) return;
  const by = (id) => document.getElementById(id);
  const most = 500;
  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const about = (ms) => {
    const minutes = Math.round(ms / 60000);
    if (minutes < 1) return "less than a minute";
    if (minutes < 60) return `${minutes} min`;
    return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };
  const live = (word, lost) => {
    by("live").className = lost ? "live lost" : "live";
    by("live-word").textContent = word;
  };
  const bar = (done, all, label) => {
    const made = element("progress");
    made.max = Math.max(all, 1);
    made.value = all === 0 ? 1 : done;
    made.setAttribute("aria-label", label);
    return made;
  };
  const cell = (inner, kind) => {
    const made = element("td", undefined, kind);
    made.append(inner);
    return made;
  };
  const head = (text) => {
    const made = element("th", text);
    made.scope = "row";
    return made;
  };
  const group = (each) => {
    const row = element("tr", undefined, "s-" + each.state);
    const tally = `${each.done} of ${each.nodes}` + (each.failed ? `, ${each.failed} failed` : "");
    row.append(head(each.name), cell(element("span", each.state, "state")),
      cell(bar(each.done, each.nodes, "Nodes of " + each.name), "bar"), cell(tally), cell(each.reason ?? "", "message"));
    return row;
  };
  const node = (each) => {
    const row = element("tr");
    row.append(head(each.node), cell(element("code", each.step)), cell(each.since.slice(11, 19)),
      cell(each.message ?? "", "message"));
    return row;
  };
  const list = (id, rows) => {
    by(id + "-rows").replaceChildren(...rows);
    by(id).hidden = rows.length === 0;
  };
  const show = (state) => {
    by("overall").max = Math.max(state.steps, 1);
    by("overall").value = state.steps_ended;
    by("steps").textContent = `${state.steps_ended} of ${state.steps}`;
    by("failed-count").textContent = state.failed.length;
    by("failed-count").parentElement.className = "figure " + (state.failed.length ? "k-destroy" : "quiet");
    by("work-count").textContent = state.in_work.length;
    by("work-count").parentElement.className = "figure " + (state.in_work.length ? "k-change" : "quiet");
    const isOver = state.outcome !== "running";
    by("time-word").textContent = isOver ? "Took" : "Left, about";
    const left = state.remaining_ms === undefined ? "–" : about(state.remaining_ms);
    by("remaining").textContent = isOver ? about(state.elapsed_ms) : left;
    by("group-rows").replaceChildren(...state.groups.map(group));
    list("work", state.in_work.slice(0, most).map(node));
    list("failed", state.failed.slice(0, most).map(node));
  };
  let asked = false, again = false;
  const refresh = async () => {
    if (asked) { again = true; return; }
    asked = true;
    try {
      const answer = await fetch(run.dataset.progress, { headers: { Accept: "application/json" } });
      if (answer.ok) show(await answer.json());
    } catch { live("no connection", true); }
    setTimeout(() => { asked = false; if (again) { again = false; refresh(); } }, 500);
  };
  const log = by("log"), lines = by("log-lines");
  const say = (text) => {
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    lines.append(element("li", text));
    while (lines.childElementCount > most) lines.firstElementChild.remove();
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  };
  log.scrollTop = log.scrollHeight;
  const source = new EventSource(run.dataset.events);
  source.onopen = () => live("live", false);
  source.onerror = () => live("connecting again", true);
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (event.event !== "step-progress") say(event.text);
    refresh();
  };
  source.addEventListener("end", (message) => {
    source.close();
    const outcome = JSON.parse(message.data).outcome;
    live("ended", false);
    const verbs = { running: "is running", interrupted: "was interrupted", abandoned: "was aborted" };
    by("title").textContent = by("title").dataset.action + " " + (verbs[outcome] ?? outcome.replaceAll("-", " "));
    const looks = { running: "", succeeded: "over-succeeded", failed: "over-failed", abandoned: "over-failed" };
    run.className = looks[outcome] ?? "over-partly";
    by("report").hidden = false;
    refresh();
  });
})();
