// Processor times of a run of the page in node: `node benches/engine.mjs [two-paths]`, after `make wasm play`.

import { readFileSync } from "node:fs";

const folder = new URL("../build/play/", import.meta.url);
const text = (name) => readFileSync(new URL(name, folder), "utf8");
const load = (name) => import(new URL(name, folder));
const { Engine } = await load("engine.js");
const { complete, filmOf, planText } = await load("plan.js");
const { drawn } = await load("series.js");
const ROUNDS = 15;

// Returns the result of a call and its processor time in milliseconds.
function timed(call) {
  const before = process.cpuUsage(), found = call(), { user, system } = process.cpuUsage(before);
  return [found, (user + system) / 1000];
}

function print(what, times) {
  const sorted = [...times].sort((one, other) => one - other);
  const [least, median, most] = [0, sorted.length >> 1, sorted.length - 1].map((place) => sorted[place].toFixed(0));
  console.log(`${what}: median ${median} ms, from ${least} to ${most}`);
}

const tables = JSON.parse(text("tables.json"));
const name = process.argv[2] ?? "two-paths";
const setup = complete(tables, tables.presets.find((preset) => preset.name === name).setup);
const film = filmOf(tables, setup), { scenario } = setup;
const films = film ? { [film]: text(tables.films[film]) } : {};
const fixed = scenario ? { [scenario]: JSON.parse(text(tables.fixed[scenario].file)) } : {};
const names = setup.paths.map((path) => path.name);
const engine = await Engine.load(readFileSync(new URL("anabranch.wasm", folder)));
const times = { plan: [], run: [], drawn: [] };
for (let round = 0; round <= ROUNDS; round++) {
  const [plan, planned] = timed(() => planText(tables, setup, films, { record: true, fixed }));
  const [result, ran] = timed(() => engine.run(plan));
  const [, drew] = timed(() => drawn(result, names));
  times.plan.push(planned); times.run.push(ran); times.drawn.push(drew);
}
print("first run", times.run.splice(0, 1));
print("further runs", times.run);
print("curves and packets", times.drawn.slice(1));
print("plan", times.plan.slice(1));
