// The session over time: what the screen shows, and when each path is cut. Cuts are made by dragging.

import { el, seconds } from "./dom.js";
import { edges } from "./plot.js";

const WORDS = { wait: "waiting to start", play: "playing", freeze: "frozen", over: "over" };
const EDGE_PX = 8, LEAST_S = 0.5;

export class Timeline {
  // `onChange(setup)` is called when a cut was made, moved or removed.
  constructor(cursor, onChange) {
    Object.assign(this, { cursor, onChange, end: 60, setup: null });
    this.screen = el("div", { class: "strip screen", role: "img" });
    this.rows = el("div", { class: "rows" });
    this.needle = el("i", { class: "needle", hidden: true });
    this.axis = el("div", { class: "ticks", "aria-hidden": "true" });
    this.said = el("p", { class: "help" });
    this.node = el("div", { class: "timeline" }, el("span", { class: "gutter", "aria-hidden": "true" }, "screen"), this.screen, this.rows, this.axis, this.needle, this.said);
    this.node.addEventListener("pointermove", (event) => {
      const at = this.time(event);
      this.cursor.set(at < 0 || at > this.end ? null : at);
    });
    this.node.addEventListener("pointerleave", () => this.cursor.set(null));
    cursor.heard.add((at) => this.point(at));
    this.wide = 320;
    new ResizeObserver(([entry]) => { this.wide = entry.contentRect.width; if (this.series) this.ticks(); }).observe(this.node);
  }

  show(setup, series, playing) {
    this.setup = setup;
    this.end = Math.max(series.end, ...setup.paths.flatMap((path) => path.cuts.map(([from, to]) => (to ?? from) + 1)));
    this.series = series;
    this.screen.hidden = !playing;
    this.screen.previousSibling.hidden = !playing;
    this.screen.setAttribute("aria-label", `The screen over time: ${describe(series.strip)}`);
    this.screen.replaceChildren(...series.strip.filter((one) => one.kind !== "over").map((one) => this.block(one)),
      ...thinned(series.lost, this.end).map((at) => this.mark(at)),
      ...series.rungs.map((rung) => this.rung(rung)));
    this.rows.replaceChildren(...setup.paths.map((path, place) => this.row(path, place)));
    this.ticks();
    this.said.textContent = setup.scenario ? "The network of this scenario is fixed: its paths cannot be cut here."
      : "Drag along a path to cut it. Drag a cut or its ends to change it; Delete removes it.";
  }

  place(node, from, to) {
    const share = (at) => `${(100 * Math.min(at, this.end)) / this.end}%`;
    node.style.left = share(from);
    node.style.width = `calc(${share(to)} - ${share(from)})`;
    return node;
  }

  block({ from, to, kind }) {
    return this.place(el("i", { class: kind, title: `${WORDS[kind]}: ${seconds(from)} to ${seconds(to)}` }), from, to);
  }

  mark(at) {
    const node = el("i", { class: "lost", title: `a picture is lost: ${seconds(at)}` });
    node.style.left = `${(100 * at) / this.end}%`;
    return node;
  }

  rung({ from, to, name }) {
    return this.place(el("b", { class: "rung", title: `${name}: ${seconds(from)} to ${seconds(to)}` }, name), from, to);
  }

  row(path, place) {
    const row = el("div", { class: `strip track p${place}`, "data-path": path.name }, el("span", { class: "name" }, path.name));
    path.cuts.forEach((cut, n) => row.append(this.cut(path, cut, n)));
    if (!this.setup.scenario) row.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".cut") || event.button !== 0) return;
      this.drag(row, event, path, null);
    });
    return row;
  }

  cut(path, cut, n) {
    const [from, to] = cut;
    const until = to === null ? "never back" : `back at ${seconds(to)}`;
    const node = el("button", {
      type: "button", class: "cut", "aria-label": `${path.name} is cut at ${seconds(from)}, ${until}. Arrow keys move it, Delete removes it.`,
      title: `cut at ${seconds(from)}, ${until}`,
      onkeydown: (event) => this.key(event, path, n),
    });
    node.addEventListener("pointerdown", (event) => this.drag(node.parentElement, event, path, n));
    return this.place(node, from, to ?? this.end);
  }

  key(event, path, n) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Delete" || event.key === "Backspace") path.cuts.splice(n, 1);
    else if (step === undefined) return;
    else {
      const [from, to] = path.cuts[n];
      const moved = event.shiftKey ? [from, to === null ? null : Math.max(from + LEAST_S, to + step)]
        : [Math.max(0, from + step), to === null ? null : Math.max(LEAST_S, to + step)];
      path.cuts[n] = moved;
    }
    event.preventDefault();
    this.onChange(this.setup);
  }

  time(event) {
    const box = this.screen.parentElement.getBoundingClientRect();
    const wide = box.width - edges.left - edges.right;
    return ((event.clientX - box.left - edges.left) / wide) * this.end;
  }

  // Follows the pointer from a press to its release: a new cut, a moved one, or one with a moved end.
  drag(row, press, path, n) {
    press.preventDefault();
    const begun = this.time(press);
    const [from, to] = n === null ? [begun, begun] : [path.cuts[n][0], path.cuts[n][1] ?? this.end];
    const perPixel = this.end / (row.clientWidth || 1);
    const near = (at) => Math.abs(begun - at) < EDGE_PX * perPixel;
    const side = n === null || near(to) ? "end" : near(from) ? "begin" : "whole";
    const ghost = n === null ? el("i", { class: "cut ghost" }) : row.querySelectorAll(".cut")[n];
    if (n === null) row.append(ghost);
    let now = [from, to];
    const move = (event) => {
      const by = this.time(event) - begun;
      if (side === "end") now = [Math.min(from, to + by), Math.max(from, to + by)];
      else if (side === "begin") now = [Math.min(from + by, to), to];
      else now = [from + by, to + by];
      now = now.map((at) => Math.round(Math.min(Math.max(at, 0), this.end) * 2) / 2);
      this.place(ghost, ...now);
      this.said.textContent = `${path.name} is cut from ${seconds(now[0])} to ${seconds(now[1])}`;
    };
    const done = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", done);
      removeEventListener("pointercancel", done);
      if (n === null) ghost.remove();
      if (now[1] - now[0] < LEAST_S || (now[0] === from && now[1] === to)) return;
      const open = n !== null && path.cuts[n][1] === null && side !== "end";
      const made = open ? [now[0], null] : now;
      if (n === null) path.cuts.push(made); else path.cuts[n] = made;
      this.onChange(this.setup);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", done);
    addEventListener("pointercancel", done);
  }

  point(at) {
    this.needle.hidden = at === null || at > this.end;
    if (at === null) return;
    const share = Math.min(at / this.end, 1);
    this.needle.style.left = `calc(${edges.left}px + (100% - ${edges.left + edges.right}px) * ${share})`;
    const now = this.series?.strip.find((one) => one.from <= at && at < one.to);
    const cut = this.setup?.paths.filter((path) => path.cuts.some(([from, to]) => from <= at && at < (to ?? Infinity)));
    const words = [seconds(at)];
    if (now) words.push(`the screen is ${WORDS[now.kind]}`);
    if (cut?.length) words.push(`cut: ${cut.map((path) => path.name).join(", ")}`);
    this.said.textContent = words.join(" · ");
  }

  ticks() {
    const count = Math.max(2, Math.min(8, Math.floor(this.wide / 90)));
    const step = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600].find((one) => this.end / one <= count) ?? 1200;
    const found = [];
    for (let at = 0; at <= this.end + 1e-9; at += step) {
      const tick = el("span", {}, `${at} s`);
      tick.style.left = `${(100 * at) / this.end}%`;
      found.push(tick);
    }
    this.axis.replaceChildren(...found);
  }
}

// Marks that would stand on one another are one.
function thinned(times, end) {
  const found = [];
  for (const at of times) if (!found.length || at - found[found.length - 1] > end / 600) found.push(at);
  return found;
}

function describe(strip) {
  const frozen = strip.filter((one) => one.kind === "freeze");
  if (!strip.length) return "nothing is played";
  return frozen.length ? `frozen ${frozen.map((one) => `from ${seconds(one.from)} to ${seconds(one.to)}`).join(", ")}` : "never frozen";
}
