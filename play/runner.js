// Workers that run plans. A newer request replaces one that waits; a run that takes long is ended for it.

// A run of the local server ends sooner: its next one needs no engine to be compiled.
const PATIENCE_MS = { wasm: 700, native: 100 };
let next = 0;

const failure = (message) => Object.assign(new Error(message), { faults: [{ key: "", message, hint: "" }], line: null });

// A worker, and the requests that it has not answered. It starts while the engine is compiled.
class Seat {
  constructor(kind, compiled) {
    Object.assign(this, { kind, compiled, waiting: new Map(), began: Infinity });
    this.start();
  }

  start() {
    this.worker = new Worker("worker.js", { type: "module" });
    this.worker.onmessage = ({ data }) => {
      const entry = this.waiting.get(data.id);
      if (!entry) return;
      this.waiting.delete(data.id);
      if (data.fault) entry.reject(Object.assign(failure(data.fault.faults[0].message), data.fault));
      else entry.resolve(data.done);
    };
    this.worker.onerror = (event) => {
      for (const { reject } of this.waiting.values()) reject(failure(event.message || "the worker did not start"));
      this.waiting.clear();
    };
  }

  async send(request) {
    const module = await this.compiled, id = next++;
    this.began = performance.now();
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, kind: this.kind, module, ...request });
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
  // `kind` is "wasm" or "native". `compiled` is the promise of the engine's module, which all workers share.
  constructor(kind, compiled = null) {
    Object.assign(this, { kind, compiled, seats: new Map(), wanted: null, turning: false });
    this.seat("main");
  }

  seat(name) {
    if (!this.seats.has(name)) this.seats.set(name, new Seat(this.kind, this.compiled));
    return this.seats.get(name);
  }

  // Runs the page's plan. Of several requests that wait, only the last one runs.
  run(request) {
    return new Promise((resolve, reject) => {
      this.wanted?.reject(Object.assign(failure("replaced by a newer run"), { replaced: true }));
      this.wanted = { request, resolve, reject };
      const seat = this.seat("main");
      if (this.turning && performance.now() - seat.began > PATIENCE_MS[this.kind]) seat.restart();
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
