// The course of a search: every trial as a dot, the best so far as a line, on a logarithmic axis.
(() => {
  "use strict";
  const place = document.getElementById("course");
  if (!place) return;
  let axis = "trial";
  let chart = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const data = () => JSON.parse(document.getElementById("course-data").textContent);
  const thousands = (value) => (value == null ? "" : Math.round(value).toLocaleString("en"));

  // "12k", "1.5M": ticks must stay short on a phone.
  const short = (value) => {
    for (const [unit, size] of [["M", 1e6], ["k", 1e3]]) {
      if (value >= size) return `${+(value / size).toPrecision(3)}${unit}`;
    }
    return String(value);
  };

  function columns(d) {
    const x = axis === "trial" ? d.order : d.seconds;
    const flat = (value) => x.map(() => value);
    return [x, d.cycles, d.best, flat(d.lines.default), flat(d.lines.textbook), flat(d.lines.peak)];
  }

  function bounds(d) {
    const all = [...d.cycles, ...Object.values(d.lines)].filter((v) => v != null && v > 0);
    return [Math.min(...all) * 0.88, Math.max(...all) * 1.15];
  }

  // A logarithmic axis over less than a decade has no round powers: take 1, 2, 5 and between.
  function ticks(low, high) {
    const steps = high / low < 4 ? [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8] : high / low < 30 ? [1, 2, 3, 5] : [1, 3];
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= low && value <= high) found.push(value);
      }
    }
    return found;
  }

  function line(label, stroke, dash) {
    return { label, stroke, width: 1.5, dash, points: { show: false }, value: (_, v) => thousands(v) };
  }

  function options(d) {
    const grid = { stroke: colour("--line"), width: 1 };
    const soft = colour("--soft");
    const font = "12px system-ui, sans-serif";
    return {
      width: place.clientWidth,
      height: Math.max(260, Math.min(380, place.clientWidth * 0.42)),
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: { points: { size: 7 }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: (_, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: { distr: 3, range: () => bounds(data()) },
      },
      axes: [
        { stroke: soft, grid, font, ticks: grid, label: axis === "trial" ? "trials finished" : "seconds worked", labelFont: font, labelSize: 20, size: 34, space: 70 },
        { stroke: soft, grid, font, ticks: grid, size: 52, label: "cycles", labelFont: font, labelSize: 18, splits: (_, __, low, high) => ticks(low, high), filter: (_, splits) => splits, values: (_, splits) => splits.map(short) },
      ],
      series: [
        {},
        { label: "trial", paths: () => null, stroke: colour("--dot"), points: { show: true, size: 5, fill: colour("--dot"), width: 0 } },
        { ...line("best so far", colour("--best")), width: 2.5, paths: uPlot.paths.stepped({ align: 1 }) },
        line("default", colour("--default"), [6, 4]),
        line("textbook", colour("--textbook"), [6, 4]),
        line("HVX peak", colour("--peak"), [2, 3]),
      ],
      hooks: { setCursor: [tell] },
    };
  }

  const tip = document.createElement("p");
  tip.className = "chart-tip small soft";
  tip.textContent = "\u00a0";

  function tell(plot) {
    const index = plot.cursor.idx;
    const d = data();
    if (index == null || d.trial[index] === undefined) {
      tip.textContent = "\u00a0";
      return;
    }
    tip.textContent = `trial ${d.trial[index]}: ${thousands(d.cycles[index])} cycles, best so far ${thousands(d.best[index])}, after ${d.seconds[index].toFixed(1)} s`;
  }

  function draw() {
    const d = data();
    if (chart) chart.destroy();
    chart = null;
    place.replaceChildren();
    if (!d.cycles.length) {
      const empty = document.createElement("div");
      empty.className = "empty";
      empty.textContent = "The first measured trial will appear here.";
      place.append(empty);
      return;
    }
    chart = new uPlot(options(d), columns(d), place);
    place.append(tip);
  }

  function update() {
    const d = data();
    if (!chart || !d.cycles.length) draw();
    else chart.setData(columns(d));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-axis]");
    if (!button) return;
    axis = button.dataset.axis;
    for (const other of document.querySelectorAll("[data-axis]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    draw();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (document.getElementById("course-data") && event.detail.target?.id !== "trials") update();
  });
  document.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(() => {
    if (chart && Math.abs(chart.width - place.clientWidth) > 2) draw();
  }).observe(place);
  draw();
})();
