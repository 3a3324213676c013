
"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const holder = element("table");
  if (!holder) return;
  const table = JSON.parse(holder.textContent);
  const names = table.names;
  const lower = names.map((name) => name.toLowerCase());
  const stages = [...document.querySelectorAll("details.stage")];
  const stageName = stages.map((stage) => stage.querySelector("h3").textContent);
  const MOST_FOUND = 200, MOST_FILLED = 2000;

  // Texts of the changes, searched beside the names.
  const changeText = table.verbs.map((verb, number) => {
    const change = element("c" + number);
    if (!change) return verb;
    const parts = [...change.children].filter((part) => !part.matches(".names, :has(.names)"));
    return parts.map((part) => part.textContent).join(" ").toLowerCase();
  });

  const make = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const span = (seconds) => {
    const hours = Math.floor(seconds / 3600), minutes = Math.round((seconds % 3600) / 60);
    if (seconds < 60) return seconds + " s";
    return hours ? hours + " h " + minutes + " min" : minutes + " min";
  };
  const cell = (machine) => {
    const item = make("li"), link = make("a", names[machine], "m " + table.looks[table.class[machine]]);
    if (table.result && table.works[machine]) link.classList.add("r-" + table.result[machine].replace(" ", "-"));
    link.href = "#c" + table.class[machine];
    link.dataset.m = machine;
    item.append(link);
    return item;
  };

  // Grids of large plans, made when their group is unfolded.
  const fill = (list, from) => {
    const stage = Number(list.dataset.fill);
    let at = from, filled = 0;
    for (; at < names.length && filled < MOST_FILLED; at++) {
      if (table.stage[at] === stage && chosen[at]) { list.append(cell(at)); filled++; }
    }
    const more = chosen.some((is, machine) => machine >= at && is && table.stage[machine] === stage);
    if (more) {
      const item = make("li"), button = make("button", "More");
      button.type = "button";
      button.addEventListener("click", () => { item.remove(); fill(list, at); });
      item.append(button);
      list.append(item);
    }
  };
  const refill = (stage) => {
    const list = stage.querySelector("[data-fill]");
    if (!list) return;
    stage.querySelector(".names")?.remove();
    list.replaceChildren();
    if (stage.open) fill(list, 0);
  };

  // Search and filters.
  let chosen = names.map(() => true);
  const q = element("q"), byVerb = element("by-verb"), byStage = element("by-stage"), byRack = element("by-rack");
  const option = (select, text, value) => {
    const made = make("option", text);
    made.value = value;
    select.append(made);
  };
  [...new Set(table.verbs)].forEach((verb) => option(byVerb, verb, verb));
  const busy = new Set(table.stage);
  stageName.forEach((name, stage) => { if (busy.has(stage)) option(byStage, name, stage); });
  table.racks.forEach((rack, number) => option(byRack, rack, number + 1));
  const found = element("found"), matches = element("matches");
  const filter = () => {
    const words = q.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const racks = table.racks.map((rack) => rack.toLowerCase());
    const inChange = words.map((word) => changeText.map((text) => text.includes(word)));
    let count = 0;
    chosen = names.map((_, machine) => {
      const of = table.class[machine], rack = table.rack[machine];
      const is = (!byVerb.value || table.verbs[of] === byVerb.value)
        && (!byStage.value || table.stage[machine] === Number(byStage.value))
        && (!byRack.value || rack === Number(byRack.value))
        && words.every((word, number) => lower[machine].includes(word) || inChange[number][of]
          || (rack > 0 && racks[rack - 1].includes(word)));
      if (is) count++;
      return is;
    });
    const narrowed = words.length || byVerb.value || byStage.value || byRack.value;
    matches.textContent = narrowed ? count + " of " + names.length + " machines" : names.length + " machines";
    document.querySelectorAll("[data-m]").forEach((place) => {
      place.classList.toggle("off", !chosen[Number(place.dataset.m)]);
    });
    table.verbs.forEach((_, number) => element("c" + number)?.classList.remove("off"));
    if (narrowed) {
      const kept = new Set();
      chosen.forEach((is, machine) => { if (is) kept.add(table.class[machine]); });
      table.verbs.forEach((_, number) => { if (!kept.has(number)) element("c" + number)?.classList.add("off"); });
    }
    found.replaceChildren();
    found.hidden = !narrowed || count === 0;
    if (!found.hidden) {
      let shown = 0;
      for (let machine = 0; machine < names.length && shown < MOST_FOUND; machine++) {
        if (chosen[machine]) { found.append(cell(machine)); shown++; }
      }
      if (count > shown) found.append(make("li", "and " + (count - shown) + " more"));
    }
    stages.forEach(refill);
  };
  let waiting = 0;
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); };
  q.addEventListener("input", soon);
  [byVerb, byStage, byRack].forEach((select) => select.addEventListener("change", filter));
  element("reset").addEventListener("click", () => {
    [q, byVerb, byStage, byRack].forEach((field) => { field.value = ""; });
    filter();
    q.focus();
  });
  stages.forEach((stage) => stage.addEventListener("toggle", () => refill(stage)));

  // One machine.
  const dialog = element("machine");
  const show = (machine) => {
    const of = table.class[machine], about = [table.verbs[of], stageName[table.stage[machine]]];
    if (table.rack[machine]) about.push("rack " + table.racks[table.rack[machine] - 1]);
    if (table.wave[machine]) about.push("wave " + table.wave[machine]);
    if (!table.works[machine]) about.push("not carried out");
    else if (table.to) about.push("from " + span(table.from[machine]) + " to " + span(table.to[machine]) + " after the start");
    if (table.result && table.works[machine]) about.push(table.result[machine]);
    element("machine-name").textContent = names[machine];
    element("machine-about").textContent = about.join(" · ");
    const change = element("c" + of), into = element("machine-change");
    into.replaceChildren();
    if (change) {
      const copy = change.cloneNode(true);
      copy.removeAttribute("id");
      copy.classList.remove("off");
      into.append(copy);
    }
    dialog.showModal();
  };
  document.addEventListener("click", (event) => {
    const place = event.target.closest("[data-m]");
    if (!place) { if (event.target === dialog) dialog.close(); return; }
    event.preventDefault();
    show(Number(place.dataset.m));
  });

  // Folds.
  const foldAll = (open) => stages.forEach((stage) => { stage.open = open; });
  element("unfold")?.addEventListener("click", () => foldAll(true));
  element("fold")?.addEventListener("click", () => foldAll(false));
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    if (names.length <= 3000) folded.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => folded.forEach((details) => { details.open = false; }));

  // Zoom and drag of the graph; it scrolls by itself.
  const canvas = document.querySelector(".canvas"), graph = canvas?.querySelector("svg");
  if (graph) {
    const width = Number(graph.getAttribute("width")), height = Number(graph.getAttribute("height"));
    let scale = 1;
    const zoom = (to, x, y) => {
      const next = Math.min(4, Math.max(0.05, to)), ratio = next / scale;
      const left = (canvas.scrollLeft + x) * ratio - x, top = (canvas.scrollTop + y) * ratio - y;
      scale = next;
      graph.setAttribute("width", width * scale);
      graph.setAttribute("height", height * scale);
      canvas.scrollTo(left, top);
    };
    const middle = (factor) => zoom(scale * factor, canvas.clientWidth / 2, canvas.clientHeight / 2);
    const fit = () => zoom(Math.min(1, (canvas.clientWidth - 28) / width), 0, 0);
    const acts = { in: () => middle(1.25), out: () => middle(0.8), fit };
    document.querySelectorAll("[data-zoom]").forEach((button) => {
      button.addEventListener("click", () => acts[button.dataset.zoom]());
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(scale * (event.deltaY < 0 ? 1.1 : 0.9), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "=") middle(1.25);
      else if (event.key === "-") middle(0.8);
      else if (event.key === "0") fit();
    });
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.target.closest("[data-m], a")) return;
      from = { x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop };
      canvas.classList.add("drag");
    });
    addEventListener("pointermove", (event) => { if (from) canvas.scrollTo(from.x - event.clientX, from.y - event.clientY); });
    addEventListener("pointerup", () => { from = null; canvas.classList.remove("drag"); });
    if (width > canvas.clientWidth && width < canvas.clientWidth * 2.2) fit();
  }
  document.querySelectorAll(".tools, .zoom, .folds").forEach((tools) => { tools.hidden = false; });
  filter();
})();
