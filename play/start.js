// Begins to load the tables and the engine while the page's other files load.

const json = async (name) => (await fetch(name)).json();

// Compiles the engine while it arrives.
async function compiled() {
  const answer = await fetch("anabranch.wasm");
  if (!answer.ok) throw new Error("the simulator (anabranch.wasm) is missing beside this page; `make wasm` builds it");
  // Some servers do not know the type of the file, which streaming requires.
  if (answer.headers.get("Content-Type") !== "application/wasm") return WebAssembly.compile(await answer.arrayBuffer());
  return WebAssembly.compileStreaming(answer);
}

const engine = json("engine.json");
export const begun = { tables: json("tables.json"), engine, module: engine.then((one) => (one.engine === "wasm" ? compiled() : null)) };
begun.module.catch(() => {}); // the page reports it
