// The set-up as a form. Python's table of keys has the words, ranges and units.

import { el } from "./dom.js";
import { scalar } from "./link.js";
import { applies, inRange, parameters } from "./plan.js";

// Shows a set-up in a form. `onChange(setup)` is called after every change.
export class Form {
  constructor(node, tables, onChange) {
    Object.assign(this, { node, tables, onChange, setup: null, open: new Set() });
    node.addEventListener("submit", (event) => event.preventDefault());
  }

  show(setup) {
    this.setup = setup;
    const focus = document.activeElement?.dataset?.key;
    const lead = el("p", { class: "lead" }, "Change anything: the film is streamed again at once.");
    if (setup.scenario) this.node.replaceChildren(this.fixed(setup), this.group("Transport", "transport", setup.transport), this.luck(setup));
    else this.node.replaceChildren(
      lead, this.group("Video", "application", setup.application),
      ...setup.paths.map((path, place) => this.path(path, place)),
      this.adding(),
      this.group("Transport", "transport", setup.transport),
      this.group("Session", "session", setup),
    );
    if (focus) this.node.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }

  // What cannot be changed in a scenario with a fixed network, and why.
  fixed({ scenario, paths }) {
    const { reasons } = this.tables.fixed[scenario];
    const { description } = this.tables.presets.find((one) => one.setup.scenario === scenario);
    return el("fieldset", { class: "group", id: "fixed" }, el("legend", {}, "Network and video"),
      el("p", {}, `${description[0].toUpperCase()}${description.slice(1)}.`),
      ...paths.map((path, place) => el("div", { class: "pathhead" }, el("i", { class: `swatch p${place}` }), path.name)),
      el("p", { class: "help" }, `Fixed here, because the scenario has what no slider shows: ${reasons.join(", ")}. `
        + "You can change the transport below. To change the rest, copy scenario.toml and run it with the command line."));
  }

  luck(setup) {
    const { drawn } = this.tables.fixed[setup.scenario];
    if (!drawn) return this.group("Session", "session", setup, ["name", "limit"]);
    return el("fieldset", { class: "group" }, el("legend", {}, "Session"),
      el("p", { class: "help" }, `Seed ${setup.seed}. It is fixed, because the handoffs are drawn from it.`));
  }

  group(title, section, part, without = []) {
    return el("fieldset", { class: "group" }, el("legend", {}, title), ...this.controls(section, part, section, without));
  }

  path(path, place) {
    const name = this.tables.keys.path.find((key) => key.id === "name");
    const head = el("div", { class: "pathhead" },
      el("i", { class: `swatch p${place}` }),
      this.input(name, path, `paths.${place}`, `Name of path ${place + 1}`),
      this.setup.paths.length > 1 ? el("button", {
        type: "button", class: "plain", "aria-label": `Remove path ${path.name}`,
        onclick: () => { this.setup.paths.splice(place, 1); this.changed(); },
      }, "×") : null);
    return el("fieldset", { class: "group path" }, el("legend", {}, `Path ${place + 1}`), head,
      ...this.controls("path", path, `paths.${place}`, ["name"]), this.cuts(path, place));
  }

  adding() {
    const { paths } = this.setup;
    if (paths.length >= this.tables.mostPaths) return el("span");
    return el("button", {
      type: "button", class: "wide", id: "add-path",
      onclick: () => {
        const taken = new Set(paths.map((path) => path.name));
        paths.push({ name: this.tables.pathNames.find((name) => !taken.has(name)) ?? "path" });
        this.changed();
      },
    }, "Add a path");
  }

  // The controls of a section; rare ones are under "More".
  controls(section, part, prefix, without = []) {
    const shown = this.tables.keys[section]
      .filter((key) => !without.includes(key.id) && applies(this.tables, section, key, part));
    const rare = [...shown.flatMap((key) => this.parameters(key, part)),
      ...shown.filter((key) => key.more).map((key) => this.control(key, part, prefix))];
    const found = shown.filter((key) => !key.more).map((key) => this.control(key, part, prefix));
    if (rare.length) {
      const more = el("details", { class: "more", open: this.open.has(prefix) },
        el("summary", {}, "More"), ...rare);
      more.addEventListener("toggle", () => { if (more.open) this.open.add(prefix); else this.open.delete(prefix); });
      found.push(more);
    }
    return found;
  }

  control(key, part, prefix) {
    const input = this.input(key, part, prefix);
    const help = key.help || (key.choices.find(([word]) => word === part[key.id]) ?? ["", ""])[1];
    if (key.kind === "flag") return el("label", { class: "flag" }, input, key.label);
    const described = key.kind === "choice" && key.choices.some(([word, text]) => word && isName(word, text));
    const slides = key.kind === "number" && key.unit && !key.more;
    const field = el("div", { class: `field ${key.kind}${slides ? " slides" : ""}`, title: described ? null : key.help || null },
      el("label", { for: input.id }, key.label),
      slides ? this.slider(key, part, prefix, input) : null,
      key.unit ? el("span", { class: "measure" }, input, el("small", {}, key.unit)) : input);
    if (described || (key.help && section(prefix) !== "paths")) {
      field.append(el("p", { class: "help" }, described ? wordsOf(key, part) : help));
    }
    return field;
  }

  // The parameters of a plug-in; empty is the default.
  parameters(key, part) {
    if (key.section !== "transport") return [];
    return parameters(this.tables, part).filter((one) => one.kind === key.id).map((one) => {
      const input = el("input", {
        id: `key-${one.id}`, "data-key": one.id, value: part[one.id] ?? "", placeholder: one.default.replaceAll('"', ""),
        onchange: (event) => {
          if (event.target.value.trim() === "") delete part[one.id];
          else part[one.id] = scalar(event.target.value.trim());
          this.changed();
        },
      });
      return el("div", { class: "field text parameter", title: one.allowed },
        el("label", { for: input.id }, `${part[key.id]}: ${one.key.replaceAll("_", " ")}`), input);
    });
  }

  input(key, part, prefix, label = null) {
    const name = `${prefix}.${key.id}`;
    const set = (value) => {
      part[key.id] = inRange(key, value);
      this.changed();
    };
    const usual = { id: `key-${name}`, "data-key": name, "aria-label": label };
    if (key.kind === "choice") {
      const options = key.choices.map(([word, text]) =>
        el("option", { value: word, selected: word === part[key.id] }, isName(word, text) ? word : text || word));
      return el("select", { ...usual, onchange: (event) => set(event.target.value) }, ...options);
    }
    if (key.kind === "flag") {
      return el("input", { ...usual, type: "checkbox", checked: part[key.id], onchange: (event) => set(event.target.checked) });
    }
    if (key.kind === "text") {
      return el("input", { ...usual, type: "text", value: part[key.id], maxlength: 40, onchange: (event) => set(event.target.value) });
    }
    return el("input", {
      ...usual, type: "number", inputmode: "decimal", value: part[key.id], min: key.least, max: key.most, step: "any",
      onchange: (event) => set(event.target.value),
    });
  }

  // Follows the pointer: the result changes while the slider moves.
  slider(key, part, prefix, input) {
    const scale = scaleOf(key);
    return el("input", {
      type: "range", min: 0, max: 1000, step: 1, value: scale.place(part[key.id]), tabindex: -1, "aria-hidden": "true",
      "data-slider": `${prefix}.${key.id}`,
      oninput: (event) => {
        part[key.id] = inRange(key, scale.value(Number(event.target.value)));
        input.value = part[key.id];
        this.onChange(this.setup, true);
      },
      onchange: () => this.changed(),
    });
  }

  // The cuts of a path as numbers: what the timeline has to drag.
  cuts(path, place) {
    const rows = path.cuts.map((cut, n) => el("div", { class: "cutrow" },
      this.moment(path, n, 0, `Path ${path.name}: cut ${n + 1} begins at`), " to ",
      this.moment(path, n, 1, `Path ${path.name}: cut ${n + 1} ends at`), " s",
      el("button", {
        type: "button", class: "plain", "aria-label": `Remove cut ${n + 1} of ${path.name}`,
        onclick: () => { path.cuts.splice(n, 1); this.changed(); },
      }, "×")));
    const add = el("button", {
      type: "button", class: "small", "data-key": `cut.${place}`,
      onclick: () => {
        const last = path.cuts[path.cuts.length - 1];
        const from = last ? (last[1] ?? last[0]) + 5 : 20;
        path.cuts.push([from, from + 10]);
        this.changed();
      },
    }, "Add a cut");
    const kind = path.cuts.length ? el("label", { class: "cutkind" }, "Lost ", el("select", {
      onchange: (event) => { path.cut = event.target.value; this.changed(); }, "data-key": `cutkind.${place}`,
    }, ...Object.entries(this.tables.cuts).map(([word, text]) =>
      el("option", { value: word, selected: word === path.cut }, text)))) : null;
    return el("div", { class: "cuts" }, ...rows, kind, add);
  }

  moment(path, n, side, label) {
    return el("input", {
      type: "number", min: 0, step: "any", "aria-label": label, value: path.cuts[n][side] ?? "",
      placeholder: side ? "never" : "", inputmode: "decimal",
      onchange: (event) => {
        const text = event.target.value;
        path.cuts[n][side] = text === "" && side ? null : Math.max(0, Math.round(Number(text) * 10) / 10);
        this.changed();
      },
    });
  }

  changed() {
    this.onChange(this.setup, false);
  }
}

const section = (prefix) => prefix.split(".")[0];

// Whether a choice is shown by its word: the name of a plug-in, with a sentence about it.
const isName = (word, text) => text.endsWith(".") && word !== "";
const wordsOf = (key, part) => (key.choices.find(([word]) => word === part[key.id]) ?? ["", ""])[1];

// Returns the scale of a slider: logarithmic if the range has more than two powers of ten.
function scaleOf(key) {
  const least = key.least || key.step, wide = key.most / least > 200;
  if (!wide) {
    return {
      place: (value) => (1000 * (value - key.least)) / (key.most - key.least),
      value: (place) => key.least + (place / 1000) * (key.most - key.least),
    };
  }
  const low = key.least === 0 ? Math.max(key.step, key.most / 1e4) : least;
  const turns = Math.log(key.most / low);
  return {
    place: (value) => (value < low ? 0 : (1000 * Math.log(value / low)) / turns),
    value: (place) => (place === 0 && key.least === 0 ? 0 : rounded(low * Math.exp((place / 1000) * turns))),
  };
}

// Returns a number with two digits: a slider that gives 37.4193 is no use.
function rounded(value) {
  return Number(value.toPrecision(2));
}
