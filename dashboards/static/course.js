// The course of a search on a logarithmic axis: trials as dots, the best so far as a line, and those
// that gave no measurement as strokes along the top. A click opens a trial.
(() => {
  "use strict";
  const place = document.getElementById("course");
  if (!place) return;
  let axis = "trial";
  let span = "all";
  let chart = null;

  const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const data = () => JSON.parse(document.getElementById("course-data").textContent);
  const thousands = (value) => (value == null ? "" : Math.round(value).toLocaleString("en"));

  // "12k", "1.5M": ticks must stay short on a phone, and differ.
  const short = (value) => {
    for (const [unit, size] of [["M", 1e6], ["k", 1e3]]) {
      if (value >= size) return `${+(value / size).toPrecision(4)}${unit}`;
    }
    return thousands(value);
  };

  // What is drawn, in the order of the axis. All improvements are among the points in either order.
  let shown = null;
  function arrange() {
    const d = data();
    const places = [...d.trial.keys()];
    if (axis === "seconds") places.sort((a, b) => d.seconds[a] - d.seconds[b]);
    const pick = (values) => places.map((place) => values[place]);
    const cycles = pick(d.cycles);
    let first = null;
    const best = (place) => {
      if (first === null || d.ranked[place] < d.ranked[first]) first = place;
      return d.cycles[first];
    };
    shown = {
      ...d,
      x: pick(d[axis]),
      trial: pick(d.trial),
      seconds: pick(d.seconds),
      cycles,
      best: places.map(best),
      failedAt: d.failed[axis],
    };
    tellShares(d);
    if (cycles.length) tellMarks(d);
    return shown;
  }

  function columns(d) {
    const flat = (value) => d.x.map(() => value);
    return [d.x, d.cycles, d.best, flat(d.lines.default), flat(d.lines.textbook), flat(d.lines.roofline)];
  }

  function tellShares(d) {
    const parts = [];
    const share = (some, all, what) => {
      if (some < all) parts.push(`${thousands(some)} of ${thousands(all)} ${what}`);
    };
    share(d.trial.length, d.total, "measured trials");
    share(d.failed.trial.length, d.total_failed, "without a measurement");
    const place = document.getElementById("course-share");
    place.textContent = parts.length ? `shown: ${parts.join(", ")}` : "";
  }

  // The legend names what is drawn.
  function tellMarks(d) {
    const cutoff = d.failed.outcome.includes("cutoff");
    const failed = d.failed.outcome.some((outcome) => outcome !== "cutoff");
    const marks = { ...d.lines, failed: failed || null, cutoff: cutoff || null };
    const [low, high] = bounds(d);
    for (const each of place.parentElement.querySelectorAll("[data-mark]")) {
      const value = marks[each.dataset.mark];
      each.hidden = value == null;
      const far = each.querySelector("[data-far]");
      if (far) far.textContent = value < low ? `, below the chart: ${thousands(value)}` : value > high ? `, above the chart: ${thousands(value)}` : "";
    }
  }

  // Fitted to the trials, or to their faster half. Lines to compare with count if they are near:
  // a roofline far below would squeeze the trials, and the legend tells where it is.
  const NEAR = 2;
  function bounds(d) {
    const sorted = d.cycles.toSorted((a, b) => a - b);
    const whole = span === "all";
    let low = sorted[0];
    let high = sorted[whole ? sorted.length - 1 : sorted.length >> 1];
    for (const value of whole ? Object.values(d.lines) : []) {
      if (value > sorted[0] / NEAR && value < sorted.at(-1) * NEAR) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    const margin = Math.max(1.005, (high / low) ** 0.07);
    return [low / margin, high * margin];
  }

  // Round values, evenly spaced over less than a factor of 4: a logarithmic axis has none there.
  function ticks(low, high) {
    const found = [];
    if (high / low < 4) {
      const least = (high - low) / 6;
      const power = 10 ** Math.floor(Math.log10(least));
      const step = Math.max(1, [1, 2, 5, 10].find((one) => one * power >= least) * power);
      for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
      return found;
    }
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const one of high / low < 30 ? [1, 1.5, 2, 3, 4, 5, 7] : [1, 3]) {
        const value = one * 10 ** power;
        if (value >= low && value <= high) found.push(value);
      }
    }
    return found;
  }

  function line(label, stroke, dash) {
    return { label, stroke, width: 1.5, dash, points: { show: false }, value: (_, v) => thousands(v) };
  }

  function across(d) {
    const all = [...d.x, ...d.failedAt];
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return low === high ? [low - 1, high + 1] : [low, high];
  }

  const STROKE = 9; // pixels high
  function strokes(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([]);
    shown.failedAt.forEach((at, i) => {
      ctx.strokeStyle = colour(shown.failed.outcome[i] === "cutoff" ? "--dot" : "--bad");
      const x = plot.valToPos(at, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + STROKE * ratio);
      ctx.stroke();
    });
    ctx.restore();
  }

  // The mark under the pointer: a stroke, if it is up there, else the dot that is nearest.
  const REACH = 24;
  function under(plot) {
    const { left, top } = plot.cursor;
    if (left == null || left < 0) return null;
    const near = (at) => Math.abs(plot.valToPos(at, "x") - left);
    let best = null;
    const consider = (distance, found) => {
      if (distance <= REACH && (!best || distance < best.distance)) best = { distance, ...found };
    };
    if (top <= STROKE + 4) {
      shown.failedAt.forEach((at, i) => consider(near(at), { failed: i }));
    } else {
      shown.x.forEach((at, i) => {
        const distance = near(at);
        if (distance <= REACH) consider(Math.hypot(distance, plot.valToPos(shown.cycles[i], "y") - top), { dot: i });
      });
    }
    return best;
  }

  function open(trial) {
    location.assign(`${place.dataset.trials}/${trial}`);
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
      cursor: { points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: () => across(shown) },
        y: { distr: 3, range: () => bounds(shown) },
      },
      axes: [
        { stroke: soft, grid, font, ticks: grid, label: axis === "trial" ? "trial" : "seconds worked", incrs: axis === "trial" ? WHOLE : undefined, labelFont: font, labelSize: 20, size: 34, space: 70 },
        { stroke: soft, grid, font, ticks: grid, size: 58, label: "cycles", labelFont: font, labelSize: 18, splits: (_, __, low, high) => ticks(low, high), filter: (_, splits) => splits, values: (_, splits) => splits.map(short) },
      ],
      series: [
        {},
        { label: "trial", paths: () => null, stroke: colour("--dot"), points: { show: true, size: 5, fill: colour("--dot"), width: 0 } },
        { ...line("best so far", colour("--best")), width: 2.5, paths: uPlot.paths.stepped({ align: 1 }) },
        line("default", colour("--default"), [6, 4]),
        line("textbook", colour("--textbook"), [6, 4]),
        line("roofline", colour("--peak"), [2, 3]),
      ],
      hooks: { setCursor: [tell], draw: [strokes] },
    };
  }

  const tip = document.createElement("p");
  tip.className = "chart-tip small soft";
  const HINT = "Point at a mark to see its trial; click to open it.";
  tip.textContent = HINT;

  function tell(plot) {
    const found = under(plot);
    plot.over.style.cursor = found ? "pointer" : "default";
    tip.textContent = found ? words(found) : HINT;
  }

  function words({ dot, failed }) {
    if (failed !== undefined) {
      const { trial, outcome, seconds } = shown.failed;
      return `trial ${trial[failed]}: ${outcome[failed]}, after ${seconds[failed].toFixed(1)} s`;
    }
    return `trial ${shown.trial[dot]}: ${thousands(shown.cycles[dot])} cycles, best so far ${thousands(shown.best[dot])}, after ${shown.seconds[dot].toFixed(1)} s`;
  }

  function draw() {
    const d = arrange();
    if (chart) chart.destroy();
    chart = null;
    place.replaceChildren();
    place.classList.toggle("chart", d.cycles.length > 0);
    for (const part of place.parentElement.querySelectorAll(".legend, .switch")) part.hidden = !d.cycles.length;
    if (!d.cycles.length) {
      const empty = document.createElement("div");
      empty.className = "empty";
      empty.textContent = d.empty;
      place.append(empty);
      return;
    }
    chart = new uPlot(options(d), columns(d), place);
    chart.over.addEventListener("click", () => {
      const found = under(chart);
      if (found) open(found.dot === undefined ? shown.failed.trial[found.failed] : shown.trial[found.dot]);
    });
    place.append(tip);
  }

  function update() {
    if (!chart) draw();
    else chart.setData(columns(arrange()));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".switch [aria-pressed]");
    if (!button) return;
    ({ axis = axis, span = span } = button.dataset);
    for (const other of button.parentElement.children) {
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
