/* Marks culprits on asv's graphs and in its list of regressions. */
"use strict";

(function () {
  const marks = window.bisectorchMarks || [];
  if (!marks.length || !window.jQuery || !jQuery.plot) return;
  const $ = jQuery;
  const colours = { regression: "#a83c00", improvement: "#00694f" };
  const style = document.createElement("style");
  style.textContent =
    ".culprit-mark { font-weight: 600; white-space: nowrap; background: #fff; padding: 0 3px;" +
    " border-radius: 3px; } .culprit-mark.regression { color: #a83c00; }" +
    " .culprit-mark.improvement { color: #00694f; }" +
    " #main-graph .culprit-mark { position: absolute; font-size: 12px; }" +
    " #regressions-body .culprit-mark { margin-left: .6em; }";
  document.head.append(style);

  function link(mark, text) {
    const made = document.createElement("a");
    made.className = "culprit-mark " + mark.kind;
    made.href = mark.url;
    made.textContent = text;
    made.title = mark.title;
    return made;
  }

  function chosen() {
    const info = $.asv.parse_hash_string(location.hash);
    return marks.filter((mark) => mark.benchmark === info.location[0] &&
      Object.entries(mark.params).every(([name, value]) => {
        const wanted = info.params["p-" + name];
        return !wanted || wanted.includes(value);
      }));
  }

  function place(mark, options) {
    const axis = options.xaxis || {};
    if (axis.mode === "time") return $.asv.main_json.revision_to_date[mark.revision];
    return axis.axisLabel === "commits" ? mark.revision : undefined;
  }

  function labels(plot, target, placed) {
    target.find(".culprit-mark").remove();
    const axis = plot.getAxes().xaxis;
    const offset = plot.getPlotOffset();
    let row = 0;
    for (const [mark, x] of placed) {
      const left = axis.p2c(x);
      if (!(left >= 0 && left <= plot.width())) continue;
      const made = link(mark, mark.label);
      made.style.left = Math.min(offset.left + left + 3, offset.left + plot.width() - 90) + "px";
      made.style.top = offset.top + 2 + 18 * (row++ % 6) + "px";
      target.append(made);
    }
  }

  const draw = $.plot;
  $.plot = function (placeholder, data, options) {
    const target = $(placeholder);
    if (target.attr("id") !== "main-graph") return draw(placeholder, data, options);
    const placed = chosen()
      .map((mark) => [mark, place(mark, options)])
      .filter(([, x]) => x !== undefined);
    const lines = placed.map(([mark, x]) => ({
      color: colours[mark.kind], lineWidth: 1.5, xaxis: { from: x, to: x },
    }));
    const grid = Object.assign({}, options.grid);
    grid.markings = (grid.markings || []).concat(lines);
    const plot = draw(placeholder, data, Object.assign({}, options, { grid }));
    labels(plot, target, placed);
    return plot;
  };
  $.extend($.plot, draw);

  function within(mark, text) {
    const ends = text.split("..");
    if (ends.length === 1) return mark.commit.startsWith(ends[0]);
    const [first, last] = ends.map((sha) => Number($.asv.get_revision(sha)));
    return first < mark.revision && mark.revision <= last;
  }

  function tell(row) {
    if (row.dataset.culprits || row.cells.length < 3) return;
    row.dataset.culprits = "told";
    const name = row.cells[0].textContent;
    for (const mark of marks) {
      if (mark.workload !== name) continue;
      const told = row.cells[2].textContent.split(",").map((text) => text.trim()).filter(Boolean);
      if (told.some((text) => within(mark, text))) row.cells[2].append(link(mark, mark.label));
    }
  }

  $(function () {
    const body = document.getElementById("regressions-body");
    if (!body) return;
    const look = () => body.querySelectorAll("tbody tr").forEach(tell);
    new MutationObserver(look).observe(body, { childList: true, subtree: true });
    look();
  });
})();
