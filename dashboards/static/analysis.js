// The charts of an analysis, by Plotly: configs as lines, slices, code size, workers over time.
(() => {
  "use strict";
  let data = null;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const config = { displayModeBar: false, responsive: true, staticPlot: false };
  const thousands = (value) => value.toLocaleString("en");

  function layout(more) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("--soft") },
      margin: { l: 60, r: 16, t: 12, b: 44 },
      showlegend: false,
      hovermode: "closest",
      dragmode: false,
      ...more,
    };
  }
  const axis = (more) => ({ gridcolor: colour("--line"), linecolor: colour("--line-strong"), zeroline: false, ...more });

  // Round values of a logarithmic axis: Plotly's own leave out the end where most dots are.
  function rounds(values) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const found = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
      for (const step of high / low < 100 ? [1, 2, 5] : [1]) {
        if (step * power >= low && step * power <= high) found.push(step * power);
      }
    }
    return found.length > 1 ? { tickvals: found } : { nticks: 4 };
  }

  // An exact share of the fastest, so that ties do not swallow the picture.
  function bands(points) {
    const tenth = Math.max(1, Math.round(points.length / 10));
    const third = Math.max(tenth, Math.round(points.length / 3));
    return [
      { points: points.slice(third), colour: "--dot", width: 1, opacity: 0.35 },
      { points: points.slice(tenth, third), colour: "--textbook", width: 1, opacity: 0.55 },
      { points: points.slice(0, tenth), colour: "--best", width: 2, opacity: 0.95 },
    ];
  }

  function lines() {
    const place = document.getElementById("lines");
    const narrow = place.clientWidth < 600;
    const own = data.lines[document.getElementById("lines-of")?.value ?? 0];
    // As many as have room for their names: those that matter most.
    const knobs = own.knobs.slice(0, Math.floor(place.clientWidth / (narrow ? 40 : 105)));
    const left = own.knobs.length - knobs.length;
    document.getElementById("lines-share").textContent = left ? `${knobs.length} of ${own.knobs.length} knobs, ` : "";
    // A line has a gap where its config does not set a knob.
    const height = (knob, value) =>
      knob.choices.length < 2 ? 0.5 : knob.choices.indexOf(value) / (knob.choices.length - 1);
    // A little apart, by trial, so that equal choices show as many lines.
    const apart = (point) => ((point[1] * 37) % 21) / 21 * 0.03 - 0.015;
    const traces = bands(own.points).map((band) => ({
      type: "scatter",
      mode: "lines",
      hoverinfo: "skip",
      opacity: band.opacity,
      line: { color: colour(band.colour), width: band.width },
      x: band.points.flatMap(() => [...knobs.map((_, i) => i), null]),
      y: band.points.flatMap((p) => [...knobs.map((k, i) => (p[i + 2] == null ? null : height(k, p[i + 2]) + apart(p))), null]),
    }));
    const annotations = knobs.flatMap((knob, i) =>
      knob.choices.map((choice, c) => ({
        x: i,
        y: knob.choices.length < 2 ? 0.5 : c / (knob.choices.length - 1),
        text: choice,
        showarrow: false,
        xanchor: "left",
        xshift: 4,
        font: { size: 11, color: colour("--ink") },
        bgcolor: colour("--paper"),
        opacity: 0.9,
      })),
    );
    Plotly.newPlot(place, traces, layout({
      height: narrow ? 360 : 380,
      margin: { l: 40, r: narrow ? 24 : 70, t: 10, b: narrow ? 90 : 40 },
      annotations: narrow ? [] : annotations,
      xaxis: axis({ tickvals: knobs.map((_, i) => i), ticktext: knobs.map((k) => k.name), range: [-0.1, knobs.length - 1 + 0.1], fixedrange: true, tickangle: narrow ? -60 : 0, ticklabeloverflow: "allow" }),
      yaxis: axis({ visible: false, range: [-0.06, 1.06], fixedrange: true }),
    }), config);
  }

  function slices() {
    const place = document.getElementById("slices");
    const columns = Math.max(1, Math.min(4, Math.floor(place.clientWidth / 180)));
    const rows = Math.ceil(data.knobs.length / columns);
    const traces = [];
    const more = { height: rows * 190, grid: { rows, columns, pattern: "independent", ygap: 0.38, xgap: 0.18 }, margin: { l: 52, r: 10, t: 24, b: 40 }, annotations: [] };
    const all = data.dots.map((point) => point[0]);
    const range = [Math.log10(Math.min(...all)) - 0.05, Math.log10(Math.max(...all)) + 0.05];
    data.knobs.forEach((knob, i) => {
      const n = i === 0 ? "" : String(i + 1);
      const dots = data.dots.filter((point) => point[i + 2] != null); // those that set it
      const position = (point) => knob.choices.indexOf(point[i + 2]) + (((point[1] * 37) % 21) / 21 - 0.5) * 0.3;
      traces.push({
        type: "scatter",
        mode: "markers",
        x: dots.map(position),
        y: dots.map((point) => point[0]),
        text: dots.map((point) => `trial ${point[1]}, ${knob.name}=${point[i + 2]}: ${thousands(point[0])} cycles`),
        hoverinfo: "text",
        marker: { size: 5, color: colour("--best"), opacity: 0.45 },
        xaxis: `x${n}`,
        yaxis: `y${n}`,
      });
      // Names as long as there is room for letters of 7 pixels.
      const room = Math.max(3, Math.floor((place.clientWidth / columns) * 0.8 / knob.choices.length / 7));
      const shown = knob.choices.map((choice) => (choice.length > room ? `${choice.slice(0, room - 1)}…` : choice));
      more[`xaxis${n}`] = axis({ tickvals: knob.choices.map((_, c) => c), ticktext: shown, range: [-0.5, knob.choices.length - 0.5], fixedrange: true, tickangle: 0, tickfont: { size: knob.choices.length > 4 ? 9 : 11 } });
      more[`yaxis${n}`] = axis({ type: "log", fixedrange: true, range, ...rounds(all), tickformat: ".2~s" });
      more.annotations.push({ text: knob.name, xref: `x${n} domain`, yref: `y${n} domain`, x: 0, y: 1.16, showarrow: false, xanchor: "left", font: { size: 12, color: colour("--ink") } });
    });
    Plotly.newPlot(place, traces, layout(more), config);
  }

  function sizes(place, { dots, front, goals }, of) {
    const text = (point) => `trial ${point[2]}: ${thousands(point[1])} cycles, ${thousands(point[0])} B of ${of}`;
    Plotly.newPlot(place, [
      { type: "scatter", mode: "markers", x: dots.map((p) => p[0]), y: dots.map((p) => p[1]), text: dots.map(text), hoverinfo: "text", marker: { size: 5, color: colour("--dot") } },
      { type: "scatter", mode: "lines+markers", x: front.map((p) => p[0]), y: front.map((p) => p[1]), text: front.map(text), hoverinfo: "text", line: { color: colour("--best"), width: 2, shape: "vh" }, marker: { size: 8, color: colour("--best") } },
      { type: "scatter", mode: "markers", x: goals.map((p) => p[0]), y: goals.map((p) => p[1]), text: goals.map(text), hoverinfo: "text", marker: { size: 14, symbol: "circle-open", color: colour("--accent"), line: { width: 2 } } },
    ], layout({
      height: 320,
      xaxis: axis({ title: { text: `bytes of ${of}` }, fixedrange: true, nticks: 6, tickformat: ".3~s" }),
      yaxis: axis({ title: { text: "cycles" }, type: "log", fixedrange: true, tickformat: ".2~s", ...rounds(dots.map((p) => p[1])) }),
    }), config);
  }

  const OUTCOMES = { ok: "--good", cutoff: "--dot", running: "--accent", wrong_output: "--bad", compile_error: "--warn", timeout: "--default" };

  function lanes() {
    const bars = data.lanes;
    const count = 1 + Math.max(0, ...bars.map((bar) => bar.lane));
    Plotly.newPlot("lanes", [{
      type: "bar",
      orientation: "h",
      y: bars.map((bar) => bar.lane),
      base: bars.map((bar) => bar.from),
      x: bars.map((bar) => bar.seconds),
      text: bars.map((bar) => `trial ${bar.trial}: ${bar.outcome}, ${bar.seconds.toFixed(2)} s`),
      textposition: "none",
      hoverinfo: "text",
      marker: { color: bars.map((bar) => colour(OUTCOMES[bar.outcome] ?? "--bad")), line: { color: colour("--paper"), width: 1 } },
    }], layout({
      height: 90 + 34 * count,
      barmode: "overlay",
      xaxis: axis({ title: { text: "seconds" }, fixedrange: true }),
      yaxis: axis({ tickvals: [...Array(count).keys()], ticktext: [...Array(count).keys()].map((i) => `worker ${i + 1}`), fixedrange: true, range: [count - 0.5, -0.5] }),
      margin: { l: 70, r: 16, t: 6, b: 44 },
    }), config);
  }

  // The charts that there are data for, and what draws them.
  function charts() {
    const source = document.getElementById("plots");
    if (!source) return []; // still being worked out
    data = JSON.parse(source.textContent);
    if (!data.lines.length) {
      for (const id of ["lines", "slices", "code-sizes"]) document.getElementById(id).textContent = "No trial was measured.";
      return [["lanes", lanes]];
    }
    return [
      ["code-sizes", () => sizes("code-sizes", data.code, "code")],
      ["vtcm-sizes", () => sizes("vtcm-sizes", data.vtcm, "VTCM")],
      ["ddr-sizes", () => sizes("ddr-sizes", data.ddr, "DDR traffic")],
      ["lanes", lanes],
      ["lines", lines],
      ["slices", slices],
    ].filter(([id]) => document.getElementById(id));
  }

  // A chart a task: one takes long, and what is done on the page meanwhile must not wait for all.
  async function draw() {
    for (const [, chart] of charts()) {
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      chart();
    }
  }

  // In other colours once it is seen, or soon: a chart out of sight makes nobody wait.
  const stale = new Map();
  const sight = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      setTimeout(stale.get(target));
    }
  }, { rootMargin: "100px" });
  function redraw() {
    for (const [id, chart] of charts()) {
      const place = document.getElementById(id);
      stale.set(place, chart);
      sight.unobserve(place);
      sight.observe(place);
    }
  }

  draw();
  document.addEventListener("change", ({ target }) => {
    if (target.id === "lines-of") lines();
  });
  document.addEventListener("htmx:afterSwap", draw);
  document.addEventListener("themechange", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
