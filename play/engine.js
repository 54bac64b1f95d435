// The simulator as WebAssembly: plan text in, digest, tables and metrics out. Works in a worker and in node.

const UTF8 = { encode: new TextEncoder(), decode: new TextDecoder() };

// A plan or a run that failed. `faults` has the key path in the plan, the message and the hint of each.
export class EngineError extends Error {
  constructor(faults, cause) {
    super(faults[0]?.message ?? "the run failed", cause === undefined ? undefined : { cause });
    this.name = "EngineError";
    this.faults = faults;
    this.line = cause?.line ?? null;
  }
}

// Answers of a scheduler, beside a view, a number of a subflow, an array of them, or null to wait.
export class Send {
  constructor(on, { burst_bytes = null, from_byte = null } = {}) {
    Object.assign(this, { on, burst_bytes, from_byte });
  }
}

export class Wait {
  constructor({ until_ms = null } = {}) {
    this.until_ms = until_ms;
  }
}

export class Penalise {
  constructor(on) {
    this.on = on;
  }
}

// Returns the subflows to choose from: the regular ones, or the backups if no regular one is usable.
export function candidates(views) {
  const regular = views.some((view) => !view.backup && view.established && !view.stale);
  return views.filter((view) => view.backup !== regular);
}

export class Engine {
  // Loads a WebAssembly.Module, the bytes of one, or the Response with them.
  static async load(source) {
    const engine = new Engine();
    const given = await source;
    const bytes = typeof Response !== "undefined" && given instanceof Response ? await given.arrayBuffer() : given;
    engine.module = bytes instanceof WebAssembly.Module ? bytes : await WebAssembly.compile(bytes);
    await engine.restart();
    return engine;
  }

  // Makes a fresh instance. A module that panicked cannot be used again.
  async restart() {
    this.session = null;
    this.instance = await WebAssembly.instantiate(this.module, { page: this.imports() });
    this.calls = this.instance.exports;
    this.calls.start();
    this.calls.describe();
    const { build, plugins, layout } = JSON.parse(this.output());
    Object.assign(this, { build, tablesOfPlugins: plugins, layout: layoutOf(layout) });
  }

  // Returns the plug-ins by kind, each with name, summary and parameters.
  plugins() {
    return structuredClone(this.tablesOfPlugins);
  }

  // Runs a plan and returns {digest, summary, tables, metrics}; throws an EngineError.
  //
  // `run` replaces the plan's number of the run. `onProgress` gets the share that has passed. `schedulers` has
  // schedulers by the names that the plan uses: an object with schedule(request, views), or a class, which is built
  // with the plan's parameters and a seed. `columns` has the columns to return by table, instead of all.
  run(plan, { run, onProgress, schedulers = {}, columns } = {}) {
    if (this.broken) throw new EngineError([fault("the simulator has stopped after a defect; load the page again")]);
    this.session = { onProgress, schedulers, built: [], thrown: null, message: null };
    this.input(0, plan);
    this.input(1, JSON.stringify({ run, schedulers: Object.keys(schedulers), columns }));
    try {
      this.calls.run();
    } catch (error) {
      this.broken = true;
      throw new EngineError([fault(`the simulator failed: ${this.session.message ?? error.message}`)], error);
    }
    const header = JSON.parse(this.output());
    try {
      if (header.faults) throw this.failure(header.faults);
      return {
        digest: header.summary.digest,
        summary: header.summary,
        tables: Object.fromEntries(header.tables.map((table) => [table.name, this.table(table)])),
        metrics: header.metrics,
      };
    } finally {
      this.calls.clear();
      this.session = null;
    }
  }

  // Returns the error of a run: what the page's own code threw, or the simulator's faults.
  failure(faults) {
    const thrown = this.session.thrown;
    if (thrown === null) return new EngineError(faults.length ? faults : [fault("the run failed")]);
    if (thrown instanceof EngineError) return thrown;
    const message = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
    return new EngineError([{ ...fault(message), key: "transport.scheduler" }], thrown);
  }

  table({ columns, rows }) {
    return Object.fromEntries(columns.map(({ name, buffer, words }) => {
      const kind = [Uint8Array, Float64Array, Uint32Array][this.calls.buffer_kind(buffer)];
      const values = new kind(this.calls.memory.buffer, this.calls.buffer(buffer), rows).slice();
      return [name, words ? Array.from(values, (place) => words[place]) : values];
    }));
  }

  input(place, text) {
    const bytes = UTF8.encode.encode(text);
    const address = this.calls.input(place, bytes.length) >>> 0;
    new Uint8Array(this.calls.memory.buffer).set(bytes, address);
  }

  output() {
    return this.text(this.calls.output(), this.calls.output_length());
  }

  text(address, length) {
    return UTF8.decode.decode(new Uint8Array(this.calls.memory.buffer, address >>> 0, length));
  }

  numbers(address, count) {
    return new Float64Array(this.calls.memory.buffer, address >>> 0, count);
  }

  // Calls the page's code. What it throws ends the run, and `run` throws it.
  guarded(work) {
    try {
      return work() === false ? 0 : 1;
    } catch (error) {
      this.session.thrown ??= error;
      return 0;
    }
  }

  imports() {
    return {
      progress: (share) => this.guarded(() => this.session.onProgress?.(share)),
      build: (name, length, parameters, size, seed) => this.guarded(() => {
        this.built(this.text(name, length), JSON.parse(this.text(parameters, size)), seed);
      }),
      schedule: (number, address, count) => this.guarded(() => this.schedule(number, this.numbers(address, count))),
      notify: (number, notice, address, count) => this.guarded(() => {
        this.notify(this.session.built[number], notice, this.numbers(address, count));
      }),
      refuse: (number, method, length, reason, size) => {
        const { name, answer } = this.session.built[number] ?? { name: "scheduler" };
        const told = `${name}.${this.text(method, length)} `;
        const shown = this.text(method, length) === "schedule" ? `returned ${shownAs(answer)}: ` : "";
        const message = told + shown + this.text(reason, size);
        this.session.thrown ??= new EngineError([{ ...fault(message), key: "transport.scheduler" }]);
      },
      panicked: (message, length) => { this.session && (this.session.message = this.text(message, length)); },
    };
  }

  built(name, parameters, seed) {
    const given = this.session.schedulers[name];
    const object = typeof given === "function" ? new given(parameters, seed) : Object.create(given);
    if (typeof object.schedule !== "function") throw new TypeError(`${name} has no method schedule(request, views)`);
    const number = this.session.built.push({ name, object, answer: null }) - 1;
    const { builds_on, wants_idle, reinjects } = object;
    this.input(2, JSON.stringify({ number, builds_on, wants_idle, reinjects }));
  }

  schedule(number, numbers) {
    const own = this.session.built[number];
    const asked = this.layout.asked(numbers);
    own.answer = own.object.schedule(asked.request, asked.views, asked.proposal);
    // The page's code may have changed the size of the memory only by calling the engine, which it must not do.
    answered(numbers, own.answer, asked.proposal, this.layout);
  }

  notify({ object }, notice, values) {
    if (notice === 0) object.on_sent?.(values[0], values[1], values[2]);
    else if (notice === 1) object.on_data_ack?.(values[0], values[1]);
    else if (notice === 2) object.on_penalised?.(values[0]);
    else if (object.on_event) object.on_event(values[0], values[1], this.layout.event(values, 2));
  }
}

const fault = (message) => ({ key: "", message, hint: "" });

function shownAs(value) {
  if (value instanceof Send || value instanceof Wait || value instanceof Penalise) {
    const parts = Object.entries(value).filter(([, part]) => part !== null);
    return `${value.constructor.name}(${parts.map(([key, part]) => `${key}=${shownAs(part)}`).join(", ")})`;
  }
  if (Array.isArray(value)) return `[${value.map(shownAs).join(", ")}]`;
  if (value !== null && typeof value === "object") return String(value.id ?? "an object");
  return String(value).slice(0, 100);
}

// Writes an answer over the numbers of its request: kind, burst, first byte, time, number of subflows, subflows.
function answered(numbers, answer, proposal, layout) {
  const wrong = new TypeError("expected null, a subflow or its id, an array of them, Send, Penalise or Wait, " +
    `not ${shownAs(answer)}`);
  const number = (value) => {
    if (value === null || value === undefined) return NaN;
    if (typeof value !== "number" || Number.isNaN(value)) throw wrong;
    return value;
  };
  const write = (kind, on, burst, from, until) => {
    const ids = on.map((one) => (typeof one === "number" ? one : one?.id));
    if (ids.some((id) => !Number.isInteger(id)) || ids.length > layout.most) throw wrong;
    numbers.set([kind, burst, from, until, ids.length, ...ids]);
  };
  const several = (on) => (Array.isArray(on) ? on : [on]);
  if (proposal !== undefined && answer === proposal) write(3, [], NaN, NaN, NaN);
  else if (answer === null || answer === undefined) write(0, [], NaN, NaN, NaN);
  else if (answer instanceof Wait) write(0, [], NaN, NaN, number(answer.until_ms));
  else if (answer instanceof Penalise) write(2, several(answer.on), NaN, NaN, NaN);
  else if (answer instanceof Send) {
    write(1, several(answer.on), number(answer.burst_bytes), number(answer.from_byte), NaN);
  } else write(1, several(answer), NaN, NaN, NaN);
}

// Returns functions that turn numbers into a request with its views, and into an event.
function layoutOf({ head, most, request, view, event, lists }) {
  const fields = (names) => names.map((written) => {
    const [name, list] = written.split(":");
    const plain = name.replace(/[?!]$/, "");
    if (list) return [plain, (value) => (Number.isNaN(value) ? null : lists[list][value])];
    if (name.endsWith("!")) return [plain, (value) => value !== 0];
    if (name.endsWith("?")) return [plain, (value) => (Number.isNaN(value) ? null : value)];
    return [plain, null];
  });
  const [ofRequest, ofView, ofEvent] = [request, view, event].map(fields);
  const read = (into, numbers, at) => {
    const found = {};
    for (let place = 0; place < into.length; place++) {
      const [name, decode] = into[place], value = numbers[at + place];
      found[name] = decode ? decode(value) : value;
    }
    return found;
  };
  const asked = (numbers) => {
    const [views, carried, kind, burst, from, until, on] = numbers;
    let at = head;
    const { piece_from, piece_to, ...found } = read(ofRequest, numbers, at);
    at += ofRequest.length;
    found.piece = piece_from === null ? null : [piece_from, piece_to];
    found.carried_by = Array.from(numbers.subarray(at, (at += carried)));
    const proposed = Array.from(numbers.subarray(at, (at += on)));
    const seen = [];
    for (let place = 0; place < views; place++, at += ofView.length) seen.push(read(ofView, numbers, at));
    return { request: found, views: seen, proposal: proposalOf(kind, proposed, burst, from, until) };
  };
  return { most, asked, event: (numbers, at) => read(ofEvent, numbers, at) };
}

// Returns the decision of the scheduler that this one builds on; undefined without one.
function proposalOf(kind, on, burst, from, until) {
  const known = (value) => (Number.isNaN(value) ? null : value);
  if (Number.isNaN(kind)) return undefined;
  if (kind === 0) return new Wait({ until_ms: known(until) });
  return kind === 2 ? new Penalise(on) : new Send(on, { burst_bytes: known(burst), from_byte: known(from) });
}
