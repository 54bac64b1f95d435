// The result of a run: what the viewer saw, and why.

import { digits, el, seconds } from "./dom.js";
import { Plot } from "./plot.js";
import { freezes, together, verdict } from "./series.js";
import { Timeline } from "./timeline.js";

const PANELS = [
  { id: "buffer", title: "Player's buffer", unit: "seconds of film", area: true },
  { id: "throughput", title: "Throughput", unit: "Mbit/s" },
  { id: "queue", title: "Waiting in queues", unit: "ms" },
  { id: "srtt", title: "Round trip time", unit: "ms" },
  { id: "cwnd", title: "Congestion window", unit: "segments" },
  { id: "flight", title: "In flight", unit: "segments" },
];

export class Result {
  constructor(node, cursor, onCut) {
    this.cursor = cursor;
    this.timeline = new Timeline(cursor, onCut);
    this.plots = Object.fromEntries(PANELS.map((one) => [one.id, new Plot(cursor, one)]));
    this.sentence = el("p", { class: "verdict", role: "status", id: "verdict" }, "Loading the simulator…");
    this.tiles = el("div", { class: "tiles" });
    this.shares = el("table", { class: "shares" });
    this.panels = el("div", { class: "card panels", tabindex: 0, "aria-label": "Curves; the arrow keys move the cursor" },
      ...Object.values(this.plots).map((plot) => plot.node));
    this.panels.addEventListener("keydown", (event) => this.key(event));
    node.replaceChildren(this.sentence, this.tiles, el("div", { class: "card" }, this.timeline.node), this.panels,
      el("div", { class: "card scroll" }, this.shares));
    this.end = 60;
  }

  show(setup, result) {
    const names = setup.paths.map((path) => path.name), { kind } = setup.application, { series } = result;
    this.end = series.end;
    const found = verdict(result.metrics, kind);
    this.sentence.textContent = found.text;
    this.sentence.className = `verdict ${found.good ? "good" : "bad"}`;
    this.tiles.replaceChildren(...tilesOf(result.metrics, kind).map(([name, value, unit, bad]) =>
      el("div", { class: bad ? "tile bad" : "tile" }, el("span", {}, name), el("b", {}, value, unit ? el("small", {}, ` ${unit}`) : ""))));
    this.timeline.show(setup, series, kind !== "bulk");
    this.plots.buffer.show(series.buffer ? [{ name: "buffer", kind: "buffer", paint: "--buffer", ...series.buffer }] : [], series.end);
    const all = whole(series.paths);
    for (const id of ["throughput", "queue", "srtt", "cwnd", "flight"]) {
      this.plots[id].show(series.paths.filter((path) => path[id]).map((path) => {
        const place = series.paths.indexOf(path);
        return { name: names[place], kind: `p${place}`, paint: `--p${place}`, x: path.x, y: path[id] };
      }).concat(id === "throughput" && all ? [all] : []), series.end);
    }
    this.table(result.metrics.qos.paths ?? [], names);
    return series;
  }

  table(paths, names) {
    const head = ["path", "share of bytes, %", "throughput, Mbit/s", "segments sent again", "round trip, ms"];
    this.shares.replaceChildren(el("caption", {}, "Each path over the whole session"),
      el("tr", {}, ...head.map((word) => el("th", {}, word))),
      ...paths.map((path) => el("tr", {},
        el("td", {}, el("i", { class: `swatch p${Math.max(0, names.indexOf(path.path))}` }), path.path),
        el("td", {}, path.bytes_share === null ? "–" : digits(100 * path.bytes_share)),
        ...[path.throughput_mbps, path.retransmissions, path.srtt_ms_mean].map((value) => el("td", {}, digits(value))))));
  }

  key(event) {
    const step = { ArrowLeft: -0.5, ArrowRight: 0.5, PageUp: -5, PageDown: 5 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.cursor.set(Math.min(Math.max((this.cursor.at ?? 0) + step, 0), this.end));
  }
}

// Returns the throughput of all paths together, if there are several.
function whole(paths) {
  return paths.length < 2 ? null : { name: "together", kind: "whole", paint: "--soft", dashed: true, ...together(paths) };
}

// Returns the headline numbers: name, value, unit, and whether it is bad news.
export function tilesOf(metrics, kind) {
  const { qoe, qos } = metrics;
  const goodput = ["Goodput", digits(qos.goodput_mbps), "Mbit/s", false];
  const wait = ["Longest gap", seconds(qos.max_read_gap_s), "", false];
  const again = ["Reinjected", digits((qos.reinjected_bytes ?? 0) / 1e6), "MB", false];
  if (kind === "bulk") return [goodput, wait, ["Queue drops", digits(qos.queue_drops), "packets", false], again];
  const start = ["Starts after", seconds(qoe.startup_delay_s), "", qoe.startup_delay_s === null];
  const stalls = ["Buffer empty", digits(qoe.buffer_underflows), qoe.buffer_underflows === 1 ? "time" : "times", qoe.buffer_underflows > 0];
  const still = ["Stands still", seconds(qoe.still_s), "", freezes(metrics)];
  if (kind === "adaptive") {
    return [start, stalls, still, ["Mean bit rate", digits(qoe.bitrate_mean_mbps), "Mbit/s", false],
      ["Switches", digits(qoe.resolution_changes), "", false], goodput];
  }
  return [start, stalls, still, ["Lost pictures", digits(qoe.picture_discards), "", qoe.picture_discards > 0], goodput, again];
}
