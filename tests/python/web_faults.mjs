// Runs a plan with schedulers that fail in several ways, then without one; one result a line.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [wasm, engine] = process.argv.slice(2);
const { Engine, Wait } = await import(pathToFileURL(engine));
const simulator = await Engine.load(readFileSync(wasm));
const text = readFileSync(0, "utf8");
const made = JSON.parse(text);
made.transport.scheduler = "js:mine";

const failing = [
  { schedule() { throw new RangeError("no idea"); } },
  { schedule: () => 9 },
  { schedule: (request) => new Wait({ until_ms: request.now_ms - 1 }) },
  { schedule: () => "wifi" },
  { builds_on: "min-rt", schedule: () => null },
  {},
];
for (const mine of failing) {
  try {
    simulator.run(JSON.stringify(made), { schedulers: { "js:mine": mine } });
    console.log(JSON.stringify({ message: "it did not fail" }));
  } catch (error) {
    const [{ key, message }] = error.faults;
    console.log(JSON.stringify({ message, key, cause: error.cause?.name }));
  }
}
console.log(JSON.stringify({ digest: simulator.run(text).digest }));
