// Runs plans beside the page. The engine is the simulator as WebAssembly, or the local server's own.

import { Engine } from "./engine.js";
import { COLUMNS, drawn } from "./series.js";

// How to load the engine, as the page says: its kind, and its module if the page has it.
let given = null;
// The promise of the engine: a request that comes while it loads waits for it.
let loading = null;

async function load() {
  if (given.load === "native") {
    const { NativeEngine } = await import("./native.js");
    return NativeEngine.load();
  }
  given.module ??= await fetched();
  return Engine.load(given.module);
}

// Compiles the engine while it arrives.
async function fetched() {
  const answer = await fetch("anabranch.wasm");
  if (!answer.ok) throw new Error("the simulator (anabranch.wasm) is missing beside this page; `make wasm` builds it");
  // Some servers do not know the type of the file, which streaming requires.
  if (answer.headers.get("Content-Type") !== "application/wasm") return WebAssembly.compile(await answer.arrayBuffer());
  return WebAssembly.compileStreaming(answer);
}

// Loads the engine and sends its module to the page, for other workers.
async function begin(message) {
  given = message;
  const known = Boolean(given.module);
  loading = load();
  await loading.catch(() => { loading = null; }); // the next run tries again, and reports it
  if (!known) self.postMessage({ module: given.module ?? null });
}

// Returns the scheduler of the page's editor, made from its text.
async function scheduler(code) {
  const { compiled } = await import("./compiled.js");
  return compiled(code);
}

self.onmessage = async ({ data }) => {
  if (data.load) { begin(data); return; }
  const { id } = data;
  let engine = null;
  try {
    loading ??= load();
    engine = await loading;
    const began = performance.now();
    const options = { run: data.run, columns: data.names ? COLUMNS : {} };
    if (data.code) options.schedulers = { [data.name]: await scheduler(data.code) };
    const result = await engine.run(data.plan, options);
    const took = performance.now() - began;
    const { digest, metrics, summary } = result;
    // The page gets what it draws, and not the tables: to copy them would take longer than to draw.
    const seen = data.names ? drawn(result, data.names) : {};
    const { build, native = false } = engine;
    self.postMessage({ id, done: { digest, metrics, summary, took, build, native, ...seen } }, buffersOf(seen.packets));
  } catch (error) {
    // An engine that failed cannot run again: the next run loads another one.
    if (!engine || engine.broken) loading = null;
    self.postMessage({ id, fault: described(error) });
  }
};

// Returns the memory of the columns of packets, which moves to the page without a copy.
function buffersOf(packets = {}) {
  return Object.values(packets).map((column) => column.buffer);
}

function described(error) {
  const faults = error.faults ?? [{ key: "", message: error.message ?? String(error), hint: "" }];
  const found = /blob:[^\s)]*?:(\d+):\d+/.exec(error.cause?.stack ?? "");
  return { faults, line: error.line ?? (found ? Number(found[1]) : null) };
}
