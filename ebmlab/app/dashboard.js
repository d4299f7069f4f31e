"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const colours = ["#2f6fde", "#e0662a", "#2a9d63", "#9a56d6", "#c73a5c", "#12919e", "#b08312", "#6b7280"];
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
document.querySelectorAll(".dot").forEach((dot) => { dot.style.background = colours[dot.dataset.run % colours.length]; });

// Figures are drawn when they come into view: a page of hundreds of runs opens at once.
const waiting = new Map();
const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (!entry.isIntersecting) return;
  seen.unobserve(entry.target);
  waiting.get(entry.target)();
}), { rootMargin: "400px" });
function whenSeen(card, draw) { waiting.set(card, draw); seen.observe(card); }

// Curves. A likelihood that is not to be trusted is a cross beside its curve.
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function traces(curves) {
  return curves.flatMap((curve) => {
    const colour = colours[curve.run % colours.length], name = plain(content.runs[curve.run]);
    const doubtful = new Set(curve.doubtful);
    const marked = curve.x.length <= (curves.length > 8 ? 1 : 40);  // hundreds of curves with markers take seconds to draw
    const good = {
      x: curve.x, y: curve.y.map((y, i) => (doubtful.has(i) ? null : y)), name, type: "scatter",
      mode: marked ? "lines+markers" : "lines", connectgaps: doubtful.size > 0,
      line: { color: colour, width: 1.8 }, marker: { size: 5 }, cliponaxis: false,
    };
    if (curve.error) good.error_y = { type: "data", array: curve.error, thickness: 1.2, width: 2 };
    if (!doubtful.size) return [good];
    const at = curve.doubtful;
    const crosses = {
      x: at.map((i) => curve.x[i]), y: at.map((i) => curve.y[i]), name: name + ", not trusted", type: "scatter",
      mode: "markers", marker: { symbol: "x-thin-open", size: 8, color: colour, line: { width: 2 } }, cliponaxis: false,
    };
    return [good, crosses];
  });
}
function layout(axis, values) {
  const line = style("--line"), many = content.runs.length > 8;
  const low = Math.min(...values), high = Math.max(...values), half = Math.abs(low) / 2 || 1;
  const flat = axis === "linear" && low === high ? { range: [low - half, high + half] } : {};  // Plotly takes +-1, however small
  return {
    margin: { l: 56, r: 10, t: 6, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { size: 11.5, color: style("--soft"), family: "system-ui, sans-serif" }, showlegend: false,
    hovermode: many ? "closest" : "x unified", hoverlabel: { bgcolor: style("--card"), bordercolor: line, font: { color: style("--text") } },
    xaxis: { title: { text: "step", standoff: 4 }, gridcolor: line, zeroline: false, nticks: 6, hoverformat: ",d", rangemode: "tozero" },
    yaxis: { type: axis, gridcolor: line, zerolinecolor: line, nticks: 6, hoverformat: ".5g", exponentformat: "power", automargin: true, ...flat },
  };
}
const plots = [...document.querySelectorAll(".plot")];
for (const plot of plots) {
  const curves = content.curves[plot.dataset.name], body = plot.querySelector(".body");
  const values = curves.flatMap((curve) => curve.y).filter((y) => y !== null);
  const positive = values.length > 0 && values.every((y) => y > 0);  // others have no logarithm: such curves stay as they are
  let drawn = false;
  plot.draw = (axis) => {
    plot.axis = positive ? axis : "linear";
    if (drawn) Plotly.react(body, traces(curves), layout(plot.axis, values), { responsive: true, displayModeBar: false });
  };
  plot.draw("linear");
  whenSeen(plot, () => { drawn = true; plot.draw(plot.axis); });
}
const redraw = (axis) => plots.forEach((plot) => plot.draw(axis || plot.axis));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
document.querySelectorAll("[data-axis]").forEach((button) => button.addEventListener("click", () => {
  document.querySelectorAll("[data-axis]").forEach((other) => other.classList.toggle("on", other === button));
  redraw(button.dataset.axis);
}));

// Pictures. The slider goes over the steps of all runs; a run shows its latest picture up to the step.
for (const card of document.querySelectorAll(".picture")) {
  const shown = content.pictures[card.dataset.name], body = card.querySelector(".body");
  const steps = [...new Set(shown.flatMap((run) => run.frames.map((frame) => frame.step)))].sort((a, b) => a - b);
  const frames = document.createElement("div");
  frames.className = "frames";
  const views = shown.map((run) => {
    const view = document.createElement("figure"), image = new Image(), caption = document.createElement("figcaption");
    Object.assign(image, { alt: card.dataset.name, loading: "lazy" });
    view.append(image, caption);
    frames.append(view);
    return (step) => {
      const past = run.frames.filter((frame) => frame.step <= step), frame = past.length ? past[past.length - 1] : run.frames[0];
      image.src = "data:image/png;base64," + frame.png;
      caption.textContent = (content.runs.length > 1 ? content.runs[run.run] + ": " : "") + frame.caption;
    };
  });
  const bar = document.createElement("div"), range = document.createElement("input");
  const output = document.createElement("output"), play = document.createElement("button");
  bar.className = "slider";
  Object.assign(range, { type: "range", min: 0, max: steps.length - 1, step: 1, value: steps.length - 1 });
  range.setAttribute("aria-label", "step of " + card.dataset.name);
  const show = () => {
    const step = steps[Number(range.value)];
    output.textContent = "step " + step.toLocaleString("en");
    views.forEach((view) => view(step));
  };
  range.addEventListener("input", show);
  play.textContent = "▶";
  play.title = "play";
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "▶"; };
  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (Number(range.value) === steps.length - 1) range.value = 0;
    show();
    play.textContent = "❚❚";
    timer = setInterval(() => {
      if (Number(range.value) >= steps.length - 1) { stop(); return; }
      range.value = Number(range.value) + 1;
      show();
    }, 500);
  });
  bar.append(play, range, output);
  if (steps.length > 1) body.append(bar);
  body.append(frames);
  output.textContent = "step " + steps[steps.length - 1].toLocaleString("en");
  whenSeen(card, show);
}
