// Workers that run plans. A newer request replaces one that waits; a run that takes long is ended for it.

// A run of the local server ends sooner: its next one needs no engine to be compiled.
const PATIENCE_MS = { wasm: 700, native: 100 };
let next = 0;

const failure = (message) => Object.assign(new Error(message), { faults: [{ key: "", message, hint: "" }], line: null });

// A worker, and the requests that it has not answered. It loads its engine at once.
class Seat {
  // `kind` and `module` are promises. Without a module the worker compiles the engine itself, and gives it to `onModule`.
  constructor(kind, module, onModule) {
    Object.assign(this, { kind, module, onModule, waiting: new Map(), began: Infinity });
    this.start();
  }

  start() {
    const worker = new Worker("worker.js", { type: "module" });
    this.worker = worker;
    worker.onmessage = ({ data }) => {
      if (data.module !== undefined) { this.onModule(data.module); return; }
      const entry = this.waiting.get(data.id);
      if (!entry) return;
      this.waiting.delete(data.id);
      if (data.fault) entry.reject(Object.assign(failure(data.fault.faults[0].message), data.fault));
      else entry.resolve(data.done);
    };
    worker.onerror = (event) => {
      for (const { reject } of this.waiting.values()) reject(failure(event.message || "the worker did not start"));
      this.waiting.clear();
    };
    this.ready = Promise.all([this.kind, this.module]).then(([kind, module]) => worker.postMessage({ load: kind, module }));
    this.ready.catch(() => {}); // whoever sends a request hears of it
  }

  async send(request) {
    await this.ready;
    const id = next++;
    this.began = performance.now();
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, ...request });
    });
  }

  // Ends a run that is no longer wanted; its promise is rejected.
  restart() {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(Object.assign(failure("replaced by a newer run"), { replaced: true }));
    this.waiting.clear();
    this.start();
  }
}

export class Runner {
  // `kind` is the promise of "wasm" or "native". The first worker compiles the engine, and the others take it from there.
  constructor(kind) {
    Object.assign(this, { kind, seats: new Map(), wanted: null, turning: false, loaded: false, patience: PATIENCE_MS.wasm });
    kind.then((name) => { this.patience = PATIENCE_MS[name]; }, () => {});
    this.module = new Promise((resolve) => { this.compiled = resolve; });
    this.seats.set("main", new Seat(kind, null, (module) => this.arrived(module)));
  }

  // Keeps the engine that the first worker has compiled; null if there is none to compile.
  arrived(module) {
    this.compiled(module);
    this.loaded = true;
    this.seats.get("main").module = module;
  }

  seat(name) {
    if (!this.seats.has(name)) this.seats.set(name, new Seat(this.kind, this.module, () => {}));
    return this.seats.get(name);
  }

  // Runs the page's plan. Of several requests that wait, only the last one runs.
  run(request) {
    return new Promise((resolve, reject) => {
      this.wanted?.reject(Object.assign(failure("replaced by a newer run"), { replaced: true }));
      this.wanted = { request, resolve, reject };
      const seat = this.seat("main");
      if (this.turning && this.loaded && performance.now() - seat.began > this.patience) seat.restart();
      this.turn();
    });
  }

  async turn() {
    if (this.turning) return;
    this.turning = true;
    while (this.wanted) {
      const { request, resolve, reject } = this.wanted;
      this.wanted = null;
      await this.seat("main").send(request).then(resolve, reject);
    }
    this.turning = false;
  }

  // Runs many plans over a few workers; calls `each(place, result)` as they end.
  async many(requests, each, stopped = () => false) {
    const count = Math.max(1, Math.min(4, (navigator.hardwareConcurrency || 2) - 1));
    let place = 0;
    const work = async (seat) => {
      while (place < requests.length && !stopped()) {
        const own = place++;
        each(own, await seat.send(requests[own]));
      }
    };
    await Promise.all(Array.from({ length: count }, (_, n) => work(this.seat(`many-${n}`))));
  }
}
