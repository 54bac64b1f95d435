// The page: holds the set-up, runs it, and shows the views.

import { $, copyText, el, once } from "./dom.js";
import { Form } from "./form.js";
import * as link from "./link.js";
import { complete, filmOf, planText, tomlText } from "./plan.js";
import { Cursor } from "./plot.js";
import { Result } from "./result.js";
import { begun } from "./start.js";

const VIEWS = ["setup", "result", "packets", "compare", "editor"];

class Page {
  constructor(tables, engine) {
    Object.assign(this, { tables, engine, run: 0, code: "", films: {}, fixed: {}, build: "", native: false, number: 0 });
    this.runner = begun.runner;
    this.cursor = new Cursor();
    this.form = new Form($("setup"), tables, (setup, moving) => this.change(setup, moving));
    this.result = new Result($("result"), this.cursor, (setup) => this.cut(setup));
    this.soon = once(() => this.simulate());
    this.views = {};
    this.last = null;
    this.claimed = null;
  }

  async start() {
    $("tab-editor").hidden = this.engine.engine !== "wasm";
    this.presets();
    this.tabs();
    this.copying();
    addEventListener("hashchange", () => { if (location.hash.slice(1) !== this.address) this.open(location.hash); });
    this.read(location.hash);
    const done = this.simulate();
    // The run begins in the worker before the form is made: both take time.
    await new Promise((resolve) => { setTimeout(resolve, 0); });
    this.form.show(this.setup);
    await done;
  }

  open(hash) {
    this.read(hash);
    this.form.show(this.setup);
    this.simulate();
  }

  // Takes over the set-up that an address stands for, or the first preset.
  read(hash) {
    const text = hash.replace(/^#/, "");
    const preset = this.tables.presets.find((one) => one.name === (text ? "" : "two-paths")) ?? this.tables.presets[0];
    const found = text ? link.read(this.tables, text) : { setup: complete(this.tables, preset.setup), run: 0, unknown: [] };
    this.run = found.run;
    this.code = found.code ?? "";
    this.compared = found.compare ?? "";
    this.views.compare?.follow();
    if (this.compared) this.show("compare");
    const own = this.tables.presets.find((one) => one.setup.scenario && one.setup.scenario === found.setup.scenario);
    if (text) $("preset").value = own ? `${own.group}/${own.name}` : "";
    this.asked = Boolean(this.code);
    this.claimed = found.digest ? { digest: found.digest, build: found.build } : null;
    this.unknown = found.unknown;
    this.setup = found.setup;
    this.warn();
  }

  change(given, moving) {
    this.setup = complete(this.tables, given);
    this.moving = moving;
    this.claimed = null;
    this.unknown = [];
    $("preset").value = "";
    // While a slider moves, the form keeps its own objects, into which its controls write.
    if (!moving) this.form.show(this.setup);
    this.warn();
    this.soon();
  }

  // Takes over the cuts of the timeline, which shows the run before the last changes of the form.
  cut({ paths }) {
    if (this.setup.scenario) return;
    const own = this.setup.paths.map((path, place) => ({ ...path, cuts: paths[place]?.cuts ?? path.cuts }));
    this.change({ ...this.setup, paths: own }, false);
  }

  async plan(setup, { run = this.run, record = true, code = this.code } = {}) {
    const film = filmOf(this.tables, setup), { scenario } = setup;
    if (film) this.films[film] ??= await filmText(this.tables.films[film], `the film ${film}`);
    if (scenario) {
      const { file } = this.tables.fixed[scenario];
      this.fixed[scenario] ??= await (await loaded(file, `the scenario ${scenario}`)).json();
    }
    const scheduler = code ? "js:page" : null;
    const plan = planText(this.tables, setup, this.films, { run, record, scheduler, fixed: this.fixed });
    // Without a record there is nothing to draw: only the metrics are wanted.
    const names = record ? setup.paths.map((path) => path.name) : null;
    return { plan, run, names, code: code ? link.unpacked(code) : "", name: "js:page" };
  }

  async simulate() {
    const number = ++this.number, { setup } = this;
    document.body.classList.add("busy");
    try {
      if (this.code && this.asked) throw blocked();
      const request = await this.plan(setup);
      const result = await this.runner.run(request);
      if (number !== this.number) return;
      Object.assign(this, { last: { setup, result }, build: result.build, native: result.native });
      $("fault").hidden = true;
      this.result.show(setup, result);
      this.foot(result);
      $("peek").textContent = $("verdict").textContent;
      // Browsers limit how often an address may change, and each change takes time.
      clearTimeout(this.later);
      if (this.moving) this.later = setTimeout(() => this.written(), 250);
      else this.written();
      for (const view of Object.values(this.views)) view.show?.(setup, result);
      this.warn();
      document.body.dataset.digest = result.digest;
      performance.mark("result"); // benches/page.py
    } catch (error) {
      if (number === this.number && !error.replaced) this.fail(error);
    } finally {
      if (number === this.number) document.body.classList.remove("busy");
    }
  }

  // Writes the run, and the comparison if that is shown, into the address.
  written() {
    if (!this.last) return;
    this.address = link.write(this.tables, this.last.setup, this.extras(this.last.result));
    history.replaceState(null, "", `#${this.address}`);
  }

  extras(result) {
    const compare = document.body.dataset.view === "compare" ? this.compared : "";
    return { run: this.run, code: this.code, compare, build: this.build, digest: result.digest.slice(0, 16) };
  }

  fail(error) {
    const faults = error.faults ?? [{ key: "", message: error.message, hint: "" }];
    // The editor shows the error of its own program.
    const own = this.code && !this.asked && document.body.dataset.view === "editor";
    const line = error.line ? `line ${error.line}: ` : "";
    $("fault").replaceChildren(...faults.map((fault) => el("span", {},
      el("b", {}, `${line}${fault.message}`), fault.key ? ` (${fault.key})` : "", fault.hint ? el("br") : "", fault.hint)));
    $("fault").hidden = own;
    if (!this.last) $("verdict").textContent = "There is no result.";
    this.views.editor?.fault?.(error);
  }

  foot(result) {
    $("foot").replaceChildren("Result ", el("code", { id: "digest", title: result.digest }, result.digest.slice(0, 16)),
      ` · build ${this.build || "…"} · computed in ${Math.max(1, Math.round(result.took))} ms `,
      this.native ? "by the local server" : "in this browser");
  }

  // Says so if the result is not what the address promised.
  warn() {
    const words = [];
    if (this.unknown?.length) {
      words.push(`This page does not know ${this.unknown.join(", ")}. The run below is without it.`);
    }
    const { claimed, last } = this;
    let differs = false;
    for (const { message } of last?.result.summary?.standstills ?? []) {
      words.push(`${message[0].toUpperCase()}${message.slice(1)}.`);
    }
    if (claimed && last && last.setup === this.setup) {
      const same = last.result.digest.startsWith(claimed.digest);
      const other = claimed.build && this.build && !sameBuild(claimed.build, this.build);
      differs = !same;
      if (!same) {
        words.push(`The link promises the result ${claimed.digest}, made by build ${claimed.build || "unknown"}. `
          + `This page is build ${this.build || "unknown"} and gives another result. Open the link in that build to see what was meant.`);
      } else if (other) {
        words.push(`The link was made by build ${claimed.build}. This build gives the same result.`);
      }
      $("notice").classList.toggle("bad", !same);
    } else $("notice").classList.toggle("bad", Boolean(this.unknown?.length));
    // Another result than the promised one is shown only to those who ask for it.
    document.body.classList.toggle("differs", differs && this.accepted !== claimed);
    const show = () => { this.accepted = claimed; this.warn(); };
    $("notice").replaceChildren(words.join(" "),
      ...(document.body.classList.contains("differs") ? [" ", el("button", { type: "button", class: "act", id: "accept", onclick: show }, "Show the result of this build")] : []));
    $("notice").hidden = !words.length;
  }

  presets() {
    const groups = new Map();
    for (const preset of this.tables.presets) {
      if (!groups.has(preset.group)) groups.set(preset.group, []);
      groups.get(preset.group).push(preset);
    }
    $("preset").append(el("option", { value: "" }, "Your own"), ...[...groups].map(([name, presets]) =>
      el("optgroup", { label: name }, ...presets.map((preset) =>
        el("option", { value: `${name}/${preset.name}`, title: preset.description }, preset.name)))));
    $("preset").value = location.hash.length > 1 ? "" : "Scenarios/two-paths";
    $("preset").addEventListener("change", (event) => {
      const preset = this.tables.presets.find((one) => `${one.group}/${one.name}` === event.target.value);
      if (!preset) return;
      this.run = 0;
      this.code = "";
      this.change(preset.setup, false);
      $("preset").value = event.target.value;
    });
  }

  tabs() {
    this.show = (name) => {
      for (const view of VIEWS) {
        const chosen = view === name, tab = $(`tab-${view}`);
        tab.setAttribute("aria-selected", String(chosen));
        tab.tabIndex = chosen ? 0 : -1;
        // In the next frame, which lays the page out anyway.
        if (chosen) requestAnimationFrame(() => tab.scrollIntoView?.({ inline: "nearest", block: "nearest" }));
        if (view !== "setup") $(view).hidden = !chosen && !(name === "setup" && view === "result");
      }
      document.body.dataset.view = name;
      this.view(name);
      this.written();
    };
    for (const view of VIEWS) {
      $(`tab-${view}`).addEventListener("click", () => this.show(view));
      $(`tab-${view}`).addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step === undefined) return;
        const shown = VIEWS.filter((one) => $(`tab-${one}`).offsetParent !== null);
        const next = $(`tab-${shown[(shown.indexOf(view) + step + shown.length) % shown.length]}`);
        next.focus();
        next.click();
      });
    }
    $("peek").addEventListener("click", () => this.show("result"));
    this.show("result");
  }

  // Loads a view when it is first opened.
  async view(name) {
    const files = { packets: "./packets.js", compare: "./compare.js", editor: "./editor.js" };
    if (!files[name] || this.views[name]) { this.views[name]?.opened?.(); return; }
    const { View } = await import(files[name]);
    this.views[name] = new View($(name), this);
    if (this.last) this.views[name].show?.(this.last.setup, this.last.result);
    this.views[name].opened?.();
  }

  copying() {
    $("copy").addEventListener("click", (event) => {
      const what = event.target.dataset?.copy;
      if (!what) return;
      $("copy").open = false;
      if (what === "link") copyText(location.href, "link");
      else if (what === "toml") copyText(this.toml(), "scenario.toml");
      else copyText(this.command(), "command");
    });
    document.addEventListener("click", (event) => { if (!$("copy").contains(event.target)) $("copy").open = false; });
  }

  toml() {
    return tomlText(this.tables, this.setup, this.fixed);
  }

  command() {
    return `anabranch run '#${this.address ?? ""}'`;
  }
}

// Returns the text of a film, which may have been loaded ahead.
async function filmText(address, what) {
  const ahead = await begun.films.get(address)?.catch(() => null);
  return ahead ?? (await loaded(address, what)).text();
}

async function loaded(address, what) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${what} cannot be loaded: ${answer.status} ${answer.statusText}`);
  return answer;
}

// A build is a version and a hash of the sources; the local server knows no hash.
function sameBuild(one, other) {
  const [[version, hash], [otherVersion, otherHash]] = [one.split("+"), other.split("+")];
  return version === otherVersion && (!hash || !otherHash || hash === otherHash);
}

const blocked = () => Object.assign(new Error("the link has a scheduler in JavaScript, which has not run yet"), {
  faults: [{ key: "", message: "This link has a scheduler in JavaScript, which has not run yet.",
    hint: "Open the view “Scheduler”, read the program, and press Run." }],
});

async function main() {
  const [tables, engine] = await Promise.all([begun.tables, begun.engine]);
  const page = new Page(tables, engine);
  globalThis.anabranchPage = page;
  await page.start();
}

main().catch((error) => {
  $("fault").textContent = `This page did not start: ${error.message}`;
  $("fault").hidden = false;
});
