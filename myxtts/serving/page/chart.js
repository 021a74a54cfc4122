// A small line chart as SVG. Time runs from left to right in both languages.
import { h, number, percent } from "./ui.js";

const WIDTH = 520, HEIGHT = 210, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 24;

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function niceTicks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) ticks.push(tick);
  return ticks;
}

export function lineChart(title, series, { low, high, isPercent = false, empty, stepName }) {
  const filled = series.filter((each) => each.points.length);
  const legend = h("figcaption", {}, h("b", {}, title), series.length > 1 ? filled.map((each) => h("span", { className: `key ${each.className}` }, each.name)) : null);
  const points = filled.flatMap((each) => each.points);
  if (points.length < 2) return h("figure", { className: "chart" }, legend, h("p", { className: "hint" }, empty));
  const steps = points.map(([step]) => step), values = points.map(([, value]) => value).sort((a, b) => a - b);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  // The few highest values of the first steps would flatten everything after them.
  const top = high ?? values[Math.min(values.length - 1, Math.floor(values.length * 0.98))] * 1.05;
  const bottom = low ?? Math.min(values[0], top * 0.98);
  const x = (step) => LEFT + ((step - first) / Math.max(1, last - first)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((Math.min(value, top) - bottom) / Math.max(1e-9, top - bottom)) * (HEIGHT - TOP - BOTTOM);
  const show = (value) => (isPercent ? percent(value) : number(value, top - bottom < 0.5 ? 3 : top - bottom < 5 ? 2 : 1));
  const newest = filled.map((each) => `${each.name} ${show(each.points.at(-1)[1])}`).join(", ");
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${stepName} ${number(last)}, ${newest}` });
  for (const tick of niceTicks(bottom, top, 4)) {
    drawing.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), class: "grid" }), svg("text", { x: LEFT - 8, y: y(tick) + 4, class: "value" }, show(tick)));
  }
  for (const tick of niceTicks(first, last, 4)) drawing.append(svg("text", { x: x(tick), y: HEIGHT - 6, class: "step" }, number(tick)));
  for (const { points: line, className, hasDots } of filled) {
    const path = line.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    drawing.append(svg("polyline", { points: path, class: `line ${className}` }));
    if (hasDots) for (const [step, value] of line.slice(-60)) drawing.append(svg("circle", { cx: x(step), cy: y(value), r: 2.6, class: `dot ${className}` }));
  }
  return h("figure", { className: "chart" }, legend, drawing);
}
