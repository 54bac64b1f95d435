// Curves on a canvas. All plots of a page share one axis of time and one cursor.

import { digits, el, grouped, paint } from "./dom.js";

const LEFT = 44, RIGHT = 8, TOP = 6, BOTTOM = 20;

// The time that the pointer or the arrow keys point at, for every plot and strip that follows it.
export class Cursor {
  constructor() {
    this.at = null;
    this.heard = new Set();
  }

  set(at) {
    this.at = at;
    for (const each of this.heard) each(at);
  }
}

// A panel with a title, a legend with the values at the cursor, and curves.
export class Plot {
  constructor(cursor, { title, unit, height = 120, area = false }) {
    Object.assign(this, { cursor, unit, height, area, end: 1, curves: [] });
    this.legend = el("ul", { class: "legend" });
    this.canvas = el("canvas", { height, role: "img", "aria-label": `${title}, ${unit}` });
    this.node = el("figure", { class: "panel" },
      el("figcaption", {}, el("h3", {}, `${title} `, el("small", {}, unit)), this.legend), this.canvas);
    follow(this.canvas, cursor, () => this.end);
    this.wide = 0;
    this.waiting = false;
    cursor.heard.add(() => this.later());
    new ResizeObserver(([entry]) => { this.wide = entry.contentRect.width; this.draw(); }).observe(this.canvas);
  }

  // Draws in the next frame. All plots then draw after one layout of the page.
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  // Shows curves: `{name, colour, x, y, dashed}`.
  show(curves, end) {
    this.curves = curves.filter((curve) => curve.y.some((value) => value !== null && value !== undefined));
    this.end = end;
    this.node.hidden = !this.curves.length;
    let top = 0;
    for (const { y } of this.curves) for (const value of y) if (value > top) top = value;
    this.step = nice(Math.max(top, 1e-3) / 3);
    this.top = Math.max(this.step, Math.ceil(top / this.step - 1e-9) * this.step);
    this.legend.replaceChildren(...this.curves.map((curve) => {
      curve.value = el("b");
      return el("li", {}, el("i", { class: `line ${curve.kind}${curve.dashed ? " dashed" : ""}` }), curve.name, curve.value);
    }));
    this.later();
  }

  draw() {
    if (this.node.hidden || !this.wide) return;
    const pen = fitted(this.canvas, this.height, this.wide);
    const wide = this.wide - LEFT - RIGHT, tall = this.height - TOP - BOTTOM;
    const px = (t) => LEFT + (t / this.end) * wide, py = (v) => TOP + tall - (v / this.top) * tall;
    this.grid(pen, px, py);
    for (const curve of this.curves) {
      pen.strokeStyle = paint(curve.paint);
      pen.fillStyle = pen.strokeStyle;
      pen.lineWidth = 1.6;
      pen.setLineDash(curve.dashed ? [5, 4] : []);
      trace(pen, curve, px, py, wide, this.area ? py(0) : null);
    }
    pen.setLineDash([]);
    const at = this.cursor.at;
    if (at !== null && at <= this.end) rule(pen, px(at), TOP, TOP + tall);
    for (const curve of this.curves) {
      const value = at === null ? null : valueAt(curve, at);
      const text = value === null || value === undefined ? "" : digits(value);
      if (curve.value.textContent !== text) curve.value.textContent = text;
    }
  }

  grid(pen, px, py) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = paint("--soft");
    pen.strokeStyle = paint("--grid");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let n = 0; n * this.step <= this.top + 1e-9; n++) {
      const y = Math.round(py(n * this.step)) + 0.5;
      pen.beginPath(); pen.moveTo(LEFT, y); pen.lineTo(px(this.end), y); pen.stroke();
      pen.fillText(grouped(Number((n * this.step).toPrecision(6))), LEFT - 6, y);
    }
    axis(pen, this.end, px, py(0));
  }
}

// Draws the seconds below a plot.
export function axis(pen, end, px, y) {
  pen.textAlign = "center";
  pen.textBaseline = "top";
  const wide = px(end) - px(0), step = nice((end * 64) / wide);
  for (let n = 0; n * step <= end + 1e-9; n++) {
    const x = px(n * step), word = `${Number((n * step).toPrecision(6))} s`;
    pen.textAlign = n === 0 ? "left" : x > px(end) - 14 ? "right" : "center";
    pen.fillText(word, x, y + 5);
  }
}

export const edges = { left: LEFT, right: RIGHT };

// Draws the cursor.
export function rule(pen, x, from, to) {
  pen.strokeStyle = paint("--ink");
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1;
  pen.beginPath(); pen.moveTo(x, from); pen.lineTo(x, to); pen.stroke();
  pen.globalAlpha = 1;
}

// Sets the size of a canvas in pixels of the screen, clears it, and returns its context.
export function fitted(canvas, height, width = canvas.clientWidth) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// Moves the cursor with the pointer.
export function follow(canvas, cursor, end) {
  const move = (event) => {
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    cursor.set(share < 0 || share > 1 ? null : share * end());
  };
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerdown", move);
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") cursor.set(null); });
}

// Draws one curve: of many points in one column of pixels the least and the largest.
function trace(pen, { x, y }, px, py, wide, ground) {
  const step = Math.max(1, Math.floor(x.length / (2 * wide)));
  let open = false, begin = 0, last = 0;
  pen.beginPath();
  const close = () => {
    if (open && ground !== null) {
      pen.lineTo(last, ground); pen.lineTo(begin, ground); pen.globalAlpha = 0.35; pen.fill(); pen.globalAlpha = 1;
    } else if (open) pen.stroke();
    if (open) pen.beginPath();
    open = false;
  };
  for (let n = 0; n < x.length; n += step) {
    let value = y[n];
    for (let m = n + 1; m < Math.min(n + step, x.length); m++) if (y[m] > value) value = y[m];
    if (value === null || value === undefined || Number.isNaN(value)) { close(); continue; }
    last = px(x[n]);
    if (open) pen.lineTo(last, py(value));
    else { pen.moveTo(last, py(value)); begin = last; }
    open = true;
  }
  close();
}

// Returns the value of a curve at a time.
export function valueAt({ x, y }, at) {
  let low = 0, high = x.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < at) low = middle + 1; else high = middle;
  }
  return y[low];
}

// Returns the smallest of 1, 2, 5, 10 and so on that is not below a number.
export function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * (1 - 1e-9));
}
