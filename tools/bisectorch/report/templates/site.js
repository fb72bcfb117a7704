/* Sorts and filters what the page already shows; without it the page is a plain list. */
"use strict";

(function () {
  const address = new URL(location.href);

  function remember(form) {
    const kept = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (value && !(name === "sort" && value === "date")) kept.set(name, value);
    }
    const query = kept.toString();
    try {
      history.replaceState(null, "", query ? "?" + query : location.pathname);
    } catch (refused) { /* a page opened from the disk has no address to change */ }
  }

  function recall(form) {
    for (const [name, value] of address.searchParams) {
      const field = form.elements.namedItem(name);
      if (field && "value" in field) field.value = value;
    }
  }

  function listen(form, update) {
    form.hidden = false;
    recall(form);
    form.addEventListener("input", update);
    form.addEventListener("change", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(update));
    update();
  }

  function culprits(form) {
    const table = document.querySelector("[data-culprits]");
    const groups = [...table.tBodies].map((body) => ({
      body,
      date: Number(body.dataset.date),
      rows: [...body.querySelectorAll(".effect-row")].map((row) => ({
        row,
        workload: row.dataset.workload,
        kind: row.dataset.kind,
        size: Number(row.dataset.size),
        day: row.dataset.day,
        probability: Number(row.dataset.probability),
      })),
    }));
    const count = form.querySelector("[data-count]");
    const none = document.querySelector("[data-none]");
    const orders = {
      date: (a, b) => b.date - a.date,
      "-date": (a, b) => a.date - b.date,
      size: (a, b) => largest(b, "size") - largest(a, "size"),
      probability: (a, b) => largest(b, "probability") - largest(a, "probability"),
      workload: (a, b) => first(a).localeCompare(first(b)) || b.date - a.date,
    };

    function shown(group) { return group.rows.filter((each) => !each.row.hidden); }
    function largest(group, name) { return Math.max(...shown(group).map((each) => each[name]), -1); }
    function first(group) { return shown(group).map((each) => each.workload).sort()[0] || "\uffff"; }

    function update() {
      const want = Object.fromEntries(new FormData(form));
      const size = parseFloat(want.size) || 0;
      const probability = parseFloat(want.probability) || 0;
      let total = 0;
      for (const group of groups) {
        for (const each of group.rows) {
          each.row.hidden = !(
            (!want.workload || each.workload === want.workload) &&
            (!want.kind || each.kind === want.kind) &&
            each.size >= size && each.probability >= probability &&
            (!want.since || each.day >= want.since) &&
            (!want.until || each.day <= want.until)
          );
          total += each.row.hidden ? 0 : 1;
        }
        group.body.hidden = shown(group).length === 0;
      }
      const order = orders[want.sort] || orders.date;
      table.append(...[...groups].sort((a, b) => order(a, b)).map((group) => group.body));
      for (const head of table.querySelectorAll("th[data-sort]")) {
        if (head.dataset.sort === want.sort) {
          head.setAttribute("aria-sort", want.sort === "workload" ? "ascending" : "descending");
        } else {
          head.removeAttribute("aria-sort");
        }
      }
      count.textContent = total + (total === 1 ? " change" : " changes");
      none.hidden = total > 0;
      remember(form);
    }

    for (const head of table.querySelectorAll("th[data-sort]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = "Sort by " + head.textContent;
      button.addEventListener("click", () => {
        const field = form.elements.namedItem("sort");
        field.value = field.value === head.dataset.sort ? "date" : head.dataset.sort;
        update();
      });
      head.replaceChildren(button);
    }
    listen(form, update);
  }

  function search(form) {
    const rows = [...document.querySelectorAll("[data-rows] tbody tr")];
    const count = form.querySelector("[data-count]");
    const none = document.querySelector("[data-none]");
    listen(form, () => {
      const text = form.elements.namedItem("text").value.trim().toLowerCase();
      let total = 0;
      for (const row of rows) {
        row.hidden = !row.dataset.text.includes(text);
        total += row.hidden ? 0 : 1;
      }
      count.textContent = total + (total === 1 ? " workload" : " workloads");
      none.hidden = total > 0;
      remember(form);
    });
  }

  const filters = document.querySelector("[data-filters]");
  if (filters) culprits(filters);
  const finder = document.querySelector("[data-search]");
  if (finder) search(finder);
})();
