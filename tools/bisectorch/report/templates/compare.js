/* Compares any two measured commits, with the rules of the pages made beforehand. */
"use strict";

(function () {
  const form = document.querySelector("[data-compare]");
  const result = document.querySelector("[data-result]");
  if (!form) return;

  const words = {
    SLOWER: "slower", FASTER: "faster", SMALL: "real, but below the limit",
    NONE: "no difference seen", UNSURE: "one sample, no interval",
  };
  let commits = [];
  let asked = 0;

  function say(text) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = text;
    result.replaceChildren(note);
  }

  async function fetched(path) {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(path + ": " + answer.status);
    return answer.json();
  }

  function find(text) {
    const name = text.trim().split(/\s/)[0];
    if (!name) return null;
    return commits.find((each) => each.tags.includes(name)) ||
      (name.length >= 4 && commits.find((each) => each.commit.startsWith(name))) || null;
  }

  function place(file) { return file[0] + ", " + file[1]; }

  function places() {
    const before = find(form.elements.namedItem("before").value);
    const after = find(form.elements.namedItem("after").value);
    const select = form.elements.namedItem("place");
    const kept = select.value;
    const common = before && after
      ? before.files.filter((file) => after.files.some((other) => place(other) === place(file)))
      : [];
    select.replaceChildren(...common.map((file) => new Option(place(file), place(file))));
    if (common.some((file) => place(file) === kept)) select.value = kept;
    return { before, after, common };
  }

  function halfWidth(value) {
    return value[1] > 0 && value[2] !== null ? Math.log(value[2] / value[1]) / 2 : NaN;
  }

  function obstacle(name, snapshot, side) {
    if (name in snapshot.values) return snapshot.values[name] === null ? "failed or left out " + side : "";
    if (snapshot.stale.includes(name)) {
      return "another version of the benchmark was measured " + side;
    }
    return "not measured " + side;
  }

  function compare(name, before, after, relevant) {
    const old = before.values[name] || null, now = after.values[name] || null;
    const row = { name, old, now, ratio: NaN, low: NaN, high: NaN, reason: "" };
    row.oldUnit = before.units[name] || "seconds";
    row.nowUnit = after.units[name] || "seconds";
    row.reason = obstacle(name, before, "before") || obstacle(name, after, "after");
    if (!row.reason && !(old[0] > 0 && now[0] > 0)) {
      row.reason = "a value is not above zero, so there is no ratio";
    }
    if (row.reason) return Object.assign(row, { change: "NOT_COMPARABLE" });
    row.ratio = now[0] / old[0];
    const half = Math.hypot(halfWidth(old), halfWidth(now));
    if (!Number.isFinite(half)) return Object.assign(row, { change: "UNSURE" });
    row.low = row.ratio * Math.exp(-half);
    row.high = row.ratio * Math.exp(half);
    if (row.low <= 1 && row.high >= 1) row.change = "NONE";
    else if (Math.abs(row.ratio - 1) < relevant) row.change = "SMALL";
    else row.change = row.ratio > 1 ? "SLOWER" : "FASTER";
    return row;
  }

  function digits(value) {
    const size = Math.abs(Number(value.toPrecision(3)));
    if (size && (size < 1e-4 || size >= 1e7)) {
      return value.toExponential(2).replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2");
    }
    return value.toFixed(size ? Math.max(0, 2 - Math.floor(Math.log10(size))) : 2);
  }

  const units = {
    seconds: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
    bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  };

  function quantity(value, unit) {
    const steps = units[unit] || [[1, unit]];
    const step = steps.find((each) => Math.abs(value) >= each[0]) ||
      (value ? steps[steps.length - 1] : steps[0]);
    return (digits(value / step[0]) + " " + step[1]).trim();
  }

  function times(ratio) { return "×" + (ratio < 10 ? ratio.toFixed(3) : digits(ratio)); }

  function element(name, content, kind) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    made.append(...[].concat(content));
    return made;
  }

  function table(rows) {
    const heads = ["workload", "verdict", "before", "after", "ratio", "99 % interval"];
    const head = element("tr", heads.map((text, index) => {
      const cell = element("th", text, index > 1 ? "number" : "");
      cell.scope = "col";
      return cell;
    }));
    const body = rows.map((row) => {
      const arrow = { SLOWER: "▲ ", FASTER: "▼ " }[row.change] || "";
      return element("tr", [
        element("td", row.name),
        element("td", arrow + (row.reason || words[row.change]), "change"),
        element("td", row.old ? quantity(row.old[0], row.oldUnit) : "–", "number"),
        element("td", row.now ? quantity(row.now[0], row.nowUnit) : "–", "number"),
        element("td", Number.isFinite(row.ratio) ? times(row.ratio) : "–", "number"),
        element("td", Number.isFinite(row.low)
          ? "[" + times(row.low).slice(1) + ", " + times(row.high).slice(1) + "]" : "–", "number"),
      ], "is-" + row.change.toLowerCase());
    });
    const made = element("table", [element("thead", head), element("tbody", body)], "wide compared");
    const scroll = element("div", made, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", "Workloads compared");
    return scroll;
  }

  function show(before, after) {
    const relevant = (parseFloat(form.elements.namedItem("relevant").value) || 0) / 100;
    const names = new Set([before, after].flatMap((s) => [...Object.keys(s.values), ...s.stale]));
    const rows = [...names].map((name) => compare(name, before, after, relevant));
    const far = (row) => Number.isFinite(row.ratio) ? Math.abs(Math.log(row.ratio)) : 0;
    rows.sort((a, b) =>
      (a.change === "NOT_COMPARABLE") - (b.change === "NOT_COMPARABLE") ||
      far(b) - far(a) || (a.name < b.name ? -1 : 1));
    const counted = (...kinds) => rows.filter((row) => kinds.includes(row.change)).length;
    const logs = rows.filter((row) => Number.isFinite(row.ratio)).map((row) => Math.log(row.ratio));
    const mean = logs.length
      ? times(Math.exp(logs.reduce((sum, value) => sum + value, 0) / logs.length)) : "–";
    const summary = element("ul", [
      element("li", element("span", "▲ " + counted("SLOWER") + " slower", "count regression")),
      element("li", element("span", "▼ " + counted("FASTER") + " faster", "count improvement")),
      element("li", counted("SMALL", "NONE", "UNSURE") + " without a relevant change"),
      ...(counted("NOT_COMPARABLE")
        ? [element("li", counted("NOT_COMPARABLE") + " not comparable")] : []),
      element("li", "geometric mean " + mean),
    ], "summary");
    const filter = form.elements.namedItem("show").value;
    const shown = rows.filter((row) => !filter ||
      (filter === "relevant" && ["SLOWER", "FASTER"].includes(row.change)) ||
      (filter === "incomparable" && row.change === "NOT_COMPARABLE"));
    const title = element("h2", before.commit.slice(0, 10) + " → " + after.commit.slice(0, 10));
    result.replaceChildren(title, summary, table(shown));
  }

  async function update() {
    const turn = ++asked;
    const { before, after, common } = places();
    if (!form.elements.namedItem("before").value || !form.elements.namedItem("after").value) return;
    if (!before || !after) return say("Not measured: " + (before ? "the commit after." : "the commit before."));
    if (!common.length) {
      return say("Not comparable: no machine measured both in one environment.");
    }
    const chosen = form.elements.namedItem("place").value;
    const file = (commit) => commit.files.find((each) => place(each) === chosen)[2];
    try {
      const sides = await Promise.all([fetched(file(before)), fetched(file(after))]);
      if (turn !== asked) return;
      show(...sides);
      const kept = new URLSearchParams({ before: before.commit, after: after.commit, place: chosen });
      history.replaceState(null, "", "?" + kept);
    } catch (refused) {
      say("The values of these commits cannot be read here.");
    }
  }

  async function begin() {
    try {
      const index = await fetched("commits.json");
      commits = index.commits;
    } catch (refused) {
      // A page opened from the disk may not read other files: the pairs below remain.
      return;
    }
    const options = commits.slice().reverse().map((each) => {
      const label = each.commit.slice(0, 12) + " " + (each.date || "").slice(0, 10);
      return new Option(label, each.tags[0] || each.commit.slice(0, 12));
    });
    document.getElementById("commits").replaceChildren(...options);
    form.hidden = false;
    const given = new URL(location.href).searchParams;
    for (const name of ["before", "after"]) {
      if (given.get(name)) form.elements.namedItem(name).value = given.get(name);
    }
    places();
    if (given.get("place")) form.elements.namedItem("place").value = given.get("place");
    form.addEventListener("submit", (event) => { event.preventDefault(); update(); });
    form.addEventListener("change", update);
    await update();
  }

  begin();
})();
