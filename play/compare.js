// Two settings side by side, on the same luck: the same seed, the same run, the same losses.

import { digits, el, seconds } from "./dom.js";
import * as link from "./link.js";
import { applies, complete } from "./plan.js";
import { Plot } from "./plot.js";
import { together } from "./series.js";
import { difference, interval } from "./statistics.js";

const RUNS = 30;
const STARTS = ["Starts after", ({ qoe }) => qoe.startup_delay_s ?? null, "s", -1];
const EMPTY = ["Buffer empty", ({ qoe }) => qoe.buffer_underflows, "times", -1];
const STILL = ["Stands still", ({ qoe }) => qoe.still_s, "s", -1];
const GOODPUT = ["Goodput", ({ qos }) => qos.goodput_mbps, "Mbit/s", 1];
// A share of the runs; of one run it is yes or no.
const SHARE = "of runs";
const UNFINISHED = ["Does not reach the end", ({ qoe }) => (qoe.reached_end === false ? 1 : 0), SHARE, -1];
const METRICS = {
  progressive: [STARTS, STILL, EMPTY, ["Lost pictures", ({ qoe }) => qoe.picture_discards, "", -1], GOODPUT, UNFINISHED],
  adaptive: [STARTS, STILL, EMPTY, ["Mean bit rate", ({ qoe }) => qoe.bitrate_mean_mbps, "Mbit/s", 1], GOODPUT, UNFINISHED],
  bulk: [GOODPUT, ["Longest gap", ({ qos }) => qos.max_read_gap_s, "s", -1], ["Queue drops", ({ qos }) => qos.queue_drops, "packets", -1]],
};

export class View {
  constructor(node, page) {
    Object.assign(this, { node, page, choice: null, kept: null, number: 0, running: false });
    this.follow();
    const keep = el("button", { type: "button", class: "act quiet", id: "compare-keep", onclick: () => this.keep() }, "Keep this setting");
    this.select = el("select", { id: "compare-with", onchange: () => { this.choice = this.select.value; this.turn(); } });
    this.many = el("button", { type: "button", class: "act", id: "compare-many", onclick: () => this.seeds() }, `Run ${RUNS} times`);
    this.changes = el("p", { class: "help" });
    this.table = el("table", { class: "versus", id: "compare-table" });
    this.strips = el("div", { class: "strips2" });
    this.plots = [new Plot(page.cursor, { title: "Player's buffer", unit: "seconds of film" }),
      new Plot(page.cursor, { title: "Throughput of all paths", unit: "Mbit/s" })];
    this.progress = el("progress", { max: RUNS, value: 0, hidden: true, "aria-label": "runs done" });
    this.means = el("table", { class: "versus", id: "compare-means" });
    this.verdict = el("p", { class: "help", id: "compare-verdict" });
    this.waits = el("p", { class: "help", role: "status" }, "The other setting is being computed…");
    this.cards = [
      el("div", { class: "card scroll" }, this.table, this.strips),
      el("div", { class: "card panels" }, ...this.plots.map((plot) => plot.node)),
      el("div", { class: "card scroll" }, el("div", { class: "player" }, el("h2", {}, "More than luck?"), this.many), this.progress, this.means, this.verdict)];
    for (const card of this.cards) card.hidden = true;
    node.replaceChildren(
      el("div", { class: "card" }, el("div", { class: "player" }, el("label", { for: "compare-with" }, "Compare this setting with "), this.select, keep),
        this.changes, this.waits),
      ...this.cards);
  }

  show(setup, result) {
    const { tables } = this.page;
    this.ours = { setup, result };
    this.stop = true;
    this.means.replaceChildren();
    this.verdict.textContent = "";
    this.many.hidden = Boolean(tables.fixed[setup.scenario]?.drawn);
    this.options();
    if (!this.node.hidden) this.turn();
  }

  // Takes the other side from the address.
  follow() {
    const { compared, tables } = this.page;
    if (!compared) return;
    const [what, text] = compared.split(/:(.*)/s);
    if (what === "kept") this.kept = link.read(tables, text ?? "").setup;
    this.choice = what === "kept" ? "kept" : compared;
  }

  opened() {
    if (this.ours && this.shown !== this.ours) this.turn();
  }

  keep() {
    this.kept = structuredClone(this.page.setup);
    this.choice = "kept";
    this.options();
    this.turn();
  }

  options() {
    const { setup } = this.ours, { tables } = this.page;
    const groups = [];
    if (this.kept) groups.push(["Kept", [["kept", `the kept setting (${this.kept.name})`]]]);
    if (setup.paths.length > 1 && !setup.scenario) groups.push(["One path", setup.paths.map((path, n) => [`only:${n}`, `${path.name} alone`])]);
    for (const [id, title] of [["scheduler", "Another scheduler"], ["congestion", "Another congestion control"]]) {
      const key = tables.keys.transport.find((one) => one.id === id);
      groups.push([title, key.choices.map(([word]) => word).filter((word) => word !== setup.transport[id]).map((word) => [`${id}:${word}`, word])]);
    }
    const all = groups.flatMap(([, options]) => options.map(([value]) => value));
    if (!all.includes(this.choice)) this.choice = all[0];
    this.select.replaceChildren(...groups.map(([title, options]) => el("optgroup", { label: title },
      ...options.map(([value, text]) => el("option", { value, selected: value === this.choice }, text)))));
  }

  // Returns the other setting.
  other() {
    const { setup } = this.ours, [what, value] = this.choice.split(/:(.*)/);
    if (what === "kept") return this.kept;
    const copy = structuredClone(setup);
    if (what === "only") copy.paths = [copy.paths[Number(value)]];
    else {
      for (const name of Object.keys(copy.transport)) if (name.startsWith(`${what}.`)) delete copy.transport[name];
      copy.transport[what] = value;
    }
    return complete(this.page.tables, copy);
  }

  async turn() {
    const { page, ours } = this, number = ++this.number;
    this.shown = ours;
    this.stop = true;
    this.means.replaceChildren();
    this.verdict.textContent = "";
    const setup = this.other();
    this.page.compared = this.choice === "kept" ? `kept:${link.write(this.page.tables, this.kept)}` : this.choice;
    this.page.written();
    this.waits.hidden = false;
    try {
      const result = await page.runner.seat("other").send(await this.request(setup, page.run));
      if (number === this.number) this.draw({ setup, result });
    } catch (error) {
      if (number === this.number) { this.waits.hidden = true; page.fail(error); }
    }
  }

  // A scheduler of the page's own belongs to this setting, and to the other one if that names no other.
  request(setup, run, record = true) {
    const own = setup === this.ours.setup || !this.choice.startsWith("scheduler:");
    return this.page.plan(setup, { run, record, code: own ? this.page.code : "" });
  }

  draw(other) {
    const { ours } = this;
    this.theirs = other;
    this.waits.hidden = true;
    for (const card of this.cards) card.hidden = false;
    const names = ["this", this.select.selectedOptions[0]?.textContent ?? "the other"];
    this.changes.textContent = `Seed ${ours.setup.seed} for both. ${changed(this.page.tables, ours.setup, other.setup)}`;
    const metrics = METRICS[ours.setup.application.kind];
    this.table.replaceChildren(el("tr", {}, ...["", ...names, "difference"].map((word) => el("th", {}, word))),
      ...metrics.map(([name, of, unit, good]) => {
        const [mine, his] = [of(ours.result.metrics), of(other.result.metrics)];
        const apart = mine === null || his === null || mine === undefined || his === undefined ? null : mine - his;
        const kind = !apart ? "" : apart * good > 0 ? "better" : "worse";
        return el("tr", {}, el("td", {}, name), el("td", {}, told(mine, unit)), el("td", {}, told(his, unit)),
          el("td", { class: kind }, apart === null || unit === SHARE ? "–" : signed(apart, unit)));
      }));
    const both = [ours, other].map((one) => one.result.series);
    const end = Math.max(...both.map((series) => series.end));
    this.strips.replaceChildren(...both.flatMap((series, n) => strip(series, end, names[n])));
    this.plots[0].show(both.map((series, n) => series.buffer && { name: names[n], ...look(n), ...series.buffer }).filter(Boolean), end);
    this.plots[1].show(both.map((series, n) => ({ name: names[n], ...look(n), ...together(series.paths) })), end);
  }

  // Runs both settings many times: differences in pairs, so that luck cancels.
  async seeds() {
    if (!this.theirs || this.running) return;
    const settings = [this.ours.setup, this.theirs.setup];
    this.running = true;
    this.stop = false;
    this.many.disabled = true;
    this.progress.hidden = false;
    this.progress.value = 0;
    const found = settings.map(() => Array(RUNS).fill(null));
    try {
      const requests = [];
      for (let run = 0; run < RUNS; run++) for (const setup of settings) requests.push(await this.request(setup, run, false));
      let done = 0;
      await this.page.runner.many(requests, (place, result) => {
        found[place % 2][Math.floor(place / 2)] = result.metrics;
        this.progress.value = ++done / 2;
      }, () => this.stop);
      if (!this.stop) this.summary(found, settings[0].application.kind);
    } catch (error) {
      this.page.fail(error);
    } finally {
      this.running = false;
      this.many.disabled = false;
      this.progress.hidden = true;
    }
  }

  summary([ours, others], kind) {
    const sure = [];
    const rows = METRICS[kind].map(([name, of, unit]) => {
      const mine = ours.map(of), his = others.map(of), apart = difference(mine, his);
      const differs = apart.half !== null && Math.abs(apart.mean) > apart.half;
      if (differs) sure.push(name.toLowerCase());
      return el("tr", { class: differs ? "sure" : "" }, el("td", {}, name), el("td", {}, spread(interval(mine), unit)),
        el("td", {}, spread(interval(his), unit)), el("td", {}, spread(apart, unit, true)));
    });
    this.means.replaceChildren(el("caption", {}, `Mean of ${RUNS} runs, and its 95 % confidence interval`),
      el("tr", {}, ...["", "this", "other", "difference"].map((word) => el("th", {}, word))), ...rows);
    this.verdict.textContent = sure.length
      ? `The two settings differ in: ${sure.join(", ")}. The other rows may be luck.`
      : `${RUNS} runs show no difference: every interval has zero in it.`;
  }
}

const look = (n) => ({ kind: n ? "other" : "whole", paint: n ? "--freeze" : "--accent", dashed: n === 1 });

function told(value, unit) {
  if (unit === SHARE) return value ? "yes" : "no";
  return value === null || value === undefined ? "never" : `${digits(value)} ${unit}`.trim();
}

const signed = (value, unit) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${digits(Math.abs(value))} ${unit}`.trim();

function spread({ mean, half }, unit, difference = false) {
  if (mean === null) return "never";
  const text = difference ? signed(mean, "") : digits(mean);
  return `${text}${half === null ? "" : ` ± ${digits(half)}`} ${unit}`.trim();
}

function strip(series, end, name) {
  if (!series.strip.length) return [];
  const node = el("div", { class: "strip screen", role: "img", "aria-label": `The screen over time: ${name}` });
  for (const { from, to, kind } of series.strip) {
    if (kind === "over") continue;
    const part = el("i", { class: kind, title: `${seconds(from)} to ${seconds(to)}` });
    part.style.left = `${(100 * from) / end}%`;
    part.style.width = `${(100 * (to - from)) / end}%`;
    node.append(part);
  }
  return [el("span", { class: "help" }, name), node];
}

// Returns what differs between two set-ups, in words.
function changed(tables, ours, other) {
  const found = [];
  const look = (where, section, one, two) => {
    for (const key of tables.keys[section]) {
      if (one[key.id] !== two[key.id] && applies(tables, section, key, one) && key.id !== "name") {
        found.push(`${where}${key.label.toLowerCase()} ${one[key.id]}${key.unit && ` ${key.unit}`} against ${two[key.id]}`);
      }
    }
  };
  look("", "application", ours.application, other.application);
  look("", "transport", ours.transport, other.transport);
  look("", "session", ours, other);
  for (const path of ours.paths) {
    const twin = other.paths.find((one) => one.name === path.name);
    if (!twin) found.push(`${path.name} only here`);
    else {
      look(`${path.name}: `, "path", path, twin);
      if (JSON.stringify(path.cuts) !== JSON.stringify(twin.cuts)) found.push(`${path.name}: other cuts`);
    }
  }
  for (const path of other.paths) if (!ours.paths.some((one) => one.name === path.name)) found.push(`${path.name} only there`);
  return found.length ? `What differs: ${found.join("; ")}.` : "Nothing differs.";
}
