// Runs plans in node: the module and the engine as arguments, one plan a line on stdin, one result a line on stdout.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [wasm, engine] = process.argv.slice(2);
const { Engine } = await import(pathToFileURL(engine));
const simulator = await Engine.load(readFileSync(wasm));

for await (const line of createInterface({ input: process.stdin, terminal: false })) {
  const shares = [];
  try {
    const { digest, metrics, tables } = simulator.run(line, { onProgress: (share) => { shares.push(share); } });
    const rows = Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, Object.values(table)[0].length]));
    console.log(JSON.stringify({ digest, metrics, rows, progress: shares.length }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message, faults: error.faults ?? [] }));
  }
}
