// The engine of the local server (`anabranch play` without WebAssembly): the same simulator, natively.

export class NativeEngine {
  static async load() {
    const answer = await fetch("engine");
    if (!answer.ok) throw new Error("the local server does not answer; is `anabranch play` still running?");
    const made = new NativeEngine();
    made.build = (await answer.json()).build;
    made.native = true;
    return made;
  }

  async run(plan, { schedulers } = {}) {
    if (schedulers) throw new Error("a scheduler in JavaScript needs the WebAssembly engine: run `make wasm` first");
    const answer = await fetch("run", { method: "POST", headers: { "Content-Type": "application/json" }, body: plan });
    const found = await answer.json();
    if (found.faults) throw Object.assign(new Error(found.faults[0].message), { faults: found.faults });
    return { ...found, tables: decoded(found.tables) };
  }
}

// Returns tables as the WebAssembly engine has them: numbers as floats, and NaN for a missing one, which is null in JSON.
export function decoded(tables) {
  const column = (values) => (values.some((value) => typeof value === "string") ? values
    : Float64Array.from(values, (value) => (value === null ? NaN : Number(value))));
  const table = (columns) => Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, column(values)]));
  return Object.fromEntries(Object.entries(tables).map(([name, columns]) => [name, table(columns)]));
}
