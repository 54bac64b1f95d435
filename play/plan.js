// Makes the plan of a set-up, and the scenario.toml that gives the same plan.
//
// Python writes the tables (`anabranch.play.templates`): a base plan, a template of a path, and for every key
// its effects on the plan. This file applies them. It knows no key by name.

const PLACE = "\u00a7";

// Returns a set-up with every key, each in its range, from one that may lack some.
//
// A set-up with a `scenario` has a fixed network and video: only its transport and its seed can be given.
export function complete(tables, given = {}) {
  const fixed = tables.fixed[given.scenario];
  if (fixed) return { ...whole(tables, withOwn(fixed, given)), scenario: given.scenario };
  return whole(tables, given);
}

function withOwn({ setup, drawn }, { seed, transport = {} }) {
  const own = { ...setup.transport };
  for (const plugin of ["scheduler", "congestion"]) {
    // The parameters belong to the scenario's plug-in.
    if ((transport[plugin] ?? own[plugin]) === own[plugin]) continue;
    for (const name of Object.keys(own)) if (name.startsWith(`${plugin}.`)) delete own[name];
  }
  return { ...setup, seed: drawn ? setup.seed : seed ?? setup.seed, transport: { ...own, ...transport } };
}

function whole(tables, given) {
  const setup = filled(tables, "session", given);
  setup.application = filled(tables, "application", given.application || {});
  setup.transport = filled(tables, "transport", given.transport || {});
  for (const [name, value] of Object.entries(given.transport || {})) {
    if (parameters(tables, setup.transport).some((one) => one.id === name)) setup.transport[name] = value;
  }
  const paths = (given.paths && given.paths.length ? given.paths : [{}]).slice(0, tables.mostPaths);
  setup.paths = paths.map((path, place) => {
    const whole = filled(tables, "path", { name: tables.pathNames[place], ...path });
    whole.cut = tables.cuts[path.cut] ? path.cut : Object.keys(tables.cuts)[0];
    whole.cuts = ordered(path.cuts);
    return whole;
  });
  const seen = new Set();
  for (const path of setup.paths) {
    const plain = path.name;
    for (let n = 2; seen.has(path.name); n++) path.name = `${plain}-${n}`;
    seen.add(path.name);
  }
  return setup;
}

// Returns the parameters of the chosen plug-ins of the transport.
export function parameters(tables, transport) {
  return ["scheduler", "congestion"].flatMap((kind) => (tables.parameters[kind][transport[kind]] ?? [])
    .map((one) => ({ kind, id: `${kind}.${one.key}`, ...one })));
}

// Returns the cuts of a path in order of time; those that meet are one.
function ordered(cuts = []) {
  const sorted = cuts.filter(([from, to]) => from >= 0 && (to === null || to > from))
    .sort((one, other) => one[0] - other[0]);
  const apart = [];
  for (const [from, to] of sorted) {
    const last = apart[apart.length - 1];
    if (last && (last[1] === null || from <= last[1])) {
      last[1] = last[1] === null || to === null ? null : Math.max(last[1], to);
    } else apart.push([from, to]);
  }
  return apart;
}

export function applies(tables, section, key, part) {
  if (!key.when) return true;
  const [other, values] = key.when;
  const usual = tables.keys[section].find((one) => one.id === other).default;
  return values.includes(part[other] ?? usual);
}

function filled(tables, section, part) {
  return Object.fromEntries(tables.keys[section].map((key) => [key.id, inRange(key, part[key.id])]));
}

// Returns a number that is written in decimal digits; NaN for another text.
export function decimal(value) {
  return typeof value === "string" && !/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(value) ? NaN : Number(value);
}

// Returns the nearest permitted value.
export function inRange(key, value) {
  if (value === undefined || value === null) return key.default;
  if (key.kind === "flag") return value === true || value === "true";
  if (key.kind === "choice") {
    return key.choices.some(([word]) => word === value) ? value : key.default;
  }
  if (key.kind === "text") {
    return String(value).replace(/[^A-Za-z0-9 _.-]/g, "").trim().slice(0, 40) || key.default;
  }
  const number = decimal(value);
  if (!Number.isFinite(number)) return key.default;
  const steps = Math.round((number - key.least) / key.step);
  const near = Number((key.least + steps * key.step).toFixed(3));
  return Math.min(Math.max(near, key.least), key.most);
}

// Returns the plan of a complete set-up as JSON text, byte for byte what Python writes.
//
// `films` has the text of each film and ladder. `fixed` has the differences of each scenario with a fixed network.
// `scheduler` is the name of a scheduler of the page's own.
export function planText(tables, setup, films, { run = 0, record = false, scheduler = null, fixed = {} } = {}) {
  const { templates } = tables;
  const plan = copy(templates.base);
  plan.run = run;
  apply(tables, "session", setup, plan);
  if (setup.scenario) for (const { at, set } of fixed[setup.scenario].sets) put(plan, at, set);
  else build(tables, setup, plan);
  apply(tables, "transport", setup.transport, plan);
  for (const plugin of ["scheduler", "congestion"]) withParameters(plan.transport, plugin, setup.transport);
  if (scheduler) plan.transport.scheduler = JSON.stringify({ name: scheduler });
  if (record) plan.record = ["receiver"];
  return encode(plan, films);
}

// Adds the video, the paths and the cuts of a set-up.
function build(tables, setup, plan) {
  const { templates } = tables;
  for (const { at, set } of templates.paths[setup.paths.length - 1]) put(plan, at, set);
  apply(tables, "application", setup.application, plan);
  plan.links = [];
  plan.paths = [];
  for (const path of setup.paths) {
    const made = renamed(templates.path, path.name);
    apply(tables, "path", path, made);
    plan.links.push(renamed(made.down, path.name), renamed(made.up, path.name));
    plan.paths.push(made.path);
  }
  plan.events = events(templates.cuts, setup.paths);
}

function apply(tables, section, part, tree) {
  for (const key of tables.templates.effects[section]) {
    if (!applies(tables, section, key, part)) continue;
    for (const effect of key.effects) affect(tree, effect, part[key.id]);
  }
}

function affect(tree, effect, value) {
  if (effect.choice) {
    for (const { at, set } of effect.choice[String(value)]) put(tree, at, set);
  } else if (effect.off !== undefined && value === effect.off) {
    return;
  } else if (effect.set !== undefined) {
    put(tree, effect.at, effect.set);
  } else if (effect.text) {
    put(tree, effect.at, value);
  } else if (effect.most !== undefined) {
    put(tree, effect.at, Math.min(take(tree, effect.at), Math.round(value * effect.most)));
  } else if (effect.float !== undefined) {
    put(tree, effect.at, { $float: float(Number(`${value}e${effect.float}`)) });
  } else {
    put(tree, effect.at, Math.round(value * effect.times));
  }
}

const isTable = (node) => node !== null && typeof node === "object" && !Array.isArray(node);

function take(tree, at) {
  return at.reduce((node, step) => node[step], tree);
}

function put(tree, at, value) {
  let node = tree;
  for (const step of at.slice(0, -1)) {
    if (!isTable(node[step])) node[step] = {};
    node = node[step];
  }
  const last = at[at.length - 1];
  if (isTable(value) && value.$absent) delete node[last];
  else node[last] = copy(value);
}

const copy = (node) => structuredClone(node);

const texts = new WeakMap();

// Returns a template with the name of a path in place of the sign for it.
function renamed(node, name) {
  if (!texts.has(node)) texts.set(node, JSON.stringify(node));
  return JSON.parse(texts.get(node).replaceAll(PLACE, JSON.stringify(name).slice(1, -1)));
}

function parametersOf(part, plugin) {
  return Object.entries(part).filter(([name]) => name.startsWith(`${plugin}.`))
    .map(([name, value]) => [name.slice(plugin.length + 1), value]);
}

function withParameters(transport, plugin, part) {
  const own = parametersOf(part, plugin);
  if (own.length) transport[plugin] = encode({ ...JSON.parse(transport[plugin]), ...Object.fromEntries(own) });
}

// Returns the events of all cuts by time; those at one time in the order of the paths.
function events(templates, paths) {
  const happen = [];
  for (const path of paths) {
    for (const [from, to] of path.cuts) {
      happen.push({ at: from, what: renamed(templates[path.cut].lost, path.name) });
      if (to !== null) happen.push({ at: to, what: renamed(templates[path.cut].back, path.name) });
    }
  }
  happen.sort((one, other) => one.at - other.at);
  return happen.flatMap(({ at, what }) => what.map((one) => ({ at_ns: Math.round(at * 1e9), ...one })));
}

// Returns a number as Python writes a float.
function float(value) {
  if (Number.isInteger(value)) return `${value}.0`;
  const size = Math.abs(value);
  if (size >= 1e-4) return String(value);
  const [digits, exponent] = value.toExponential().split("e-");
  return `${digits}e-${exponent.padStart(2, "0")}`;
}

// Returns JSON with sorted keys and no spaces, as Python writes plans.
function encode(node, films = {}) {
  if (Array.isArray(node)) return `[${node.map((one) => encode(one, films)).join(",")}]`;
  if (isTable(node)) {
    if (node.$float !== undefined) return node.$float;
    if (node.$raw !== undefined) return films[node.$raw];
    const inside = Object.keys(node).sort().map((key) => `${JSON.stringify(key)}:${encode(node[key], films)}`);
    return `{${inside.join(",")}}`;
  }
  if (typeof node === "number" && !Number.isInteger(node)) return float(node);
  return JSON.stringify(node);
}

// Returns the name of the film or ladder that a plan needs, or null.
export function filmOf(tables, setup) {
  if (setup.scenario) return tables.fixed[setup.scenario].film;
  const { kind, film, ladder } = setup.application;
  return kind === "progressive" ? film : kind === "adaptive" ? ladder : null;
}

// Returns the scenario.toml of a complete set-up.
export function tomlText(tables, setup, fixed = {}) {
  if (setup.scenario) return fixedText(tables, setup, fixed[setup.scenario]);
  const parts = [lines(table(tables, "session", setup))];
  parts.push(`[application]\n${nested("application", table(tables, "application", setup.application))}`);
  parts.push(`[transport]\n${lines(transportOf(tables, setup))}`);
  for (const path of setup.paths) parts.push(`[[paths]]\n${lines(table(tables, "path", path))}`);
  for (const path of setup.paths) {
    for (const [from, to] of path.cuts) {
      parts.push(`[[events]]\n${lines({ at: `${from} s`, path: path.name, state: path.cut })}`);
      if (to !== null) parts.push(`[[events]]\n${lines({ at: `${to} s`, path: path.name, state: "up" })}`);
    }
  }
  return parts.join("\n");
}

function transportOf(tables, setup) {
  const transport = table(tables, "transport", setup.transport);
  for (const plugin of ["scheduler", "congestion"]) {
    const own = parametersOf(setup.transport, plugin);
    if (own.length) transport[plugin] = { name: transport[plugin], ...Object.fromEntries(own) };
  }
  return transport;
}

// The text of a scenario with a fixed network lacks the seed, which comes before all tables, and the transport.
function fixedText(tables, setup, { toml: text, transport }) {
  return `seed = ${setup.seed}\n${text}\n[transport]\n${lines({ ...transport, ...transportOf(tables, setup) })}`;
}

function table(tables, section, part) {
  const made = {};
  for (const key of tables.keys[section]) {
    const value = part[key.id];
    if (!applies(tables, section, key, part) || (key.omit && value === key.default)) continue;
    let node = made;
    for (const step of key.toml.slice(0, -1)) node = node[step] ??= {};
    node[key.toml[key.toml.length - 1]] = key.write ? key.write.replace("{}", value) : value;
  }
  return made;
}

// A table within one that has a header has a header of its own.
function nested(name, made) {
  const inner = Object.entries(made).filter(([, value]) => isTable(value));
  const plain = Object.fromEntries(Object.entries(made).filter(([, value]) => !isTable(value)));
  return [lines(plain), ...inner.map(([key, value]) => `[${name}.${key}]\n${lines(value)}`)].join("\n");
}

const lines = (made) => Object.entries(made).map(([key, value]) => `${key} = ${toml(value)}\n`).join("");

function toml(value) {
  if (!isTable(value)) return JSON.stringify(value);
  return `{ ${Object.entries(value).map(([key, one]) => `${key} = ${toml(one)}`).join(", ")} }`;
}
