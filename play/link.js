// A run as an address: `#v=1&name=two-paths&paths.0.rate=5&...&run=0&build=...&digest=...`.
//
// Only values that differ from the defaults are in it. `anabranch run LINK` reads the same form.

import { complete, decimal } from "./plan.js";

// Returns the part of an address behind `#`.
export function write(tables, setup, { run = 0, code = "", compare = "", build = "", digest = "" } = {}) {
  const found = [["v", "1"]];
  const { scenario } = setup;
  const usual = complete(tables, scenario ? { scenario } : {});
  const add = (prefix, part, defaults) => {
    for (const [name, value] of Object.entries(part)) {
      if (typeof value !== "object" && value !== defaults[name]) found.push([prefix + name, String(value)]);
    }
  };
  if (scenario) found.push(["scenario", scenario]);
  add("", setup, usual);
  add("application.", setup.application, usual.application);
  add("transport.", setup.transport, usual.transport);
  if (!scenario) setup.paths.forEach((path, place) => {
    found.push([`paths.${place}.name`, path.name]);
    add(`paths.${place}.`, { ...path, name: null }, { ...usual.paths[0], name: null });
    if (path.cuts.length) {
      found.push([`paths.${place}.cuts`, path.cuts.map(([from, to]) => `${from}-${to ?? ""}`).join(",")]);
    }
  });
  if (run) found.push(["run", String(run)]);
  if (code) found.push(["code", code]);
  if (compare) found.push(["compare", compare]);
  if (build) found.push(["build", build]);
  if (digest) found.push(["digest", digest]);
  return found.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%20", "+")}`).join("&");
}

// Returns what an address stands for: a set-up, the number of the run, and the build that made the link.
export function read(tables, text) {
  const given = { application: {}, transport: {}, paths: [] };
  const found = { setup: null, run: 0, code: "", compare: "", build: "", digest: "", unknown: [] };
  for (const [name, value] of new URLSearchParams(text.replace(/^#/, ""))) {
    const steps = name.split(".");
    if (name === "v") {
      if (value !== "1") found.unknown.push(`v=${value}`);
    } else if (name === "scenario") {
      if (tables.fixed[value]) given.scenario = value;
      else found.unknown.push(`scenario=${value}`);
    } else if (name === "run") found.run = Math.max(0, Math.trunc(decimal(value)) || 0);
    else if (name in found && name !== "setup" && name !== "unknown") found[name] = value;
    else if (steps[0] === "paths" && steps.length === 3 && Number(steps[1]) < tables.mostPaths) {
      const path = (given.paths[Number(steps[1])] ??= {});
      path[steps[2]] = steps[2] === "cuts" ? cuts(value) : value;
      if (!known(tables, "path", steps[2])) found.unknown.push(name);
    } else if (steps.length > 1 && given[steps[0]] && steps[0] !== "paths") {
      const rest = steps.slice(1).join(".");
      const plugin = /^(scheduler|congestion)\./.test(rest);
      given[steps[0]][rest] = plugin ? scalar(value) : value;
      if (!plugin && !known(tables, steps[0], rest)) found.unknown.push(name);
    } else {
      given[name] = value;
      if (!known(tables, "session", name)) found.unknown.push(name);
    }
  }
  given.paths = given.paths.map((path) => path ?? {});
  if (given.scenario) found.unknown.push(...beside(given));
  found.setup = complete(tables, given);
  found.unknown.push(...changed(tables, given, found.setup));
  if (tables.fixed[given.scenario]?.drawn && found.run) {
    found.unknown.push(`run=${found.run}`);
    found.run = 0;
  }
  for (const name of Object.keys(given.transport)) {
    if (/\./.test(name) && !(name in found.setup.transport)) found.unknown.push(`transport.${name}`);
  }
  return found;
}

const known = (tables, section, id) =>
  tables.keys[section].some((key) => key.id === id) || (section === "path" && ["cuts", "cut"].includes(id));

// Returns the keys that a scenario with a fixed network and video does not have.
const beside = ({ application, paths, name, limit }) => [
  ...Object.keys(application).map((id) => `application.${id}`),
  ...paths.flatMap((path, place) => Object.keys(path).map((id) => `paths.${place}.${id}`)),
  ...Object.entries({ name, limit }).filter(([, value]) => value !== undefined).map(([id]) => id),
];

// Returns the given values that are not permitted, and were replaced.
function changed(tables, given, setup) {
  const found = [];
  const look = (prefix, section, part, whole) => {
    for (const key of tables.keys[section]) {
      const value = part[key.id];
      if (value === undefined || key.kind === "text") continue;
      const same = key.kind === "number" ? decimal(value) === whole[key.id] : String(value) === String(whole[key.id]);
      if (!same) found.push(`${prefix}${key.id}=${value}`);
    }
  };
  look("", "session", given, setup);
  look("application.", "application", given.application, setup.application);
  look("transport.", "transport", given.transport, setup.transport);
  given.paths.forEach((path, place) => look(`paths.${place}.`, "path", path, setup.paths[place]));
  return found;
}

function cuts(text) {
  return text.split(",").map((one) => one.split("-"))
    .filter(([from]) => Number.isFinite(decimal(from)))
    .map(([from, to]) => [decimal(from), to === undefined || to === "" ? null : decimal(to)]);
}

// Returns a parameter of a plug-in: a number, true or false, or a word.
export function scalar(text) {
  if (text === "true" || text === "false") return text === "true";
  return Number.isFinite(decimal(text)) ? decimal(text) : text;
}

// Returns a program as characters that an address may have, and the reverse.
export function packed(program) {
  const bytes = new TextEncoder().encode(program);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function unpacked(code) {
  try {
    const binary = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder().decode(Uint8Array.from(binary, (one) => one.charCodeAt(0)));
  } catch {
    return "";
  }
}
