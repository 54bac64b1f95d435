// Runs plans beside the page. The engine is the simulator as WebAssembly, or the local server's own.

import { drawn } from "./series.js";

let engine = null;

async function load(kind, module) {
  if (kind === "native") {
    const { NativeEngine } = await import("./native.js");
    return NativeEngine.load();
  }
  const { Engine } = await import("./engine.js");
  return Engine.load(module);
}

// Returns the scheduler of the page's editor, made from its text.
async function scheduler(code) {
  const { compiled } = await import("./compiled.js");
  return compiled(code);
}

self.onmessage = async ({ data }) => {
  const { id, what } = data;
  try {
    engine ??= await load(data.kind, data.module);
    if (what === "load") {
      self.postMessage({ id, done: { build: engine.build, native: engine.native === true } });
      return;
    }
    const began = performance.now();
    const options = { run: data.run, onProgress: (share) => self.postMessage({ id, share }) };
    if (data.code) options.schedulers = { [data.name]: await scheduler(data.code) };
    const result = await engine.run(data.plan, options);
    const took = performance.now() - began;
    const { digest, metrics, summary } = result;
    // The page gets what it draws, and not the tables: to copy them would take longer than to draw.
    const seen = data.names ? drawn(result, data.names) : {};
    self.postMessage({ id, done: { digest, metrics, summary, took, ...seen } }, buffersOf(seen.packets));
  } catch (error) {
    // An engine that failed cannot run again: the next run loads another one.
    if (engine?.broken) engine = null;
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
