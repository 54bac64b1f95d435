// Makes a scheduler from the text of the page's editor. Runs in the worker only.

const TOOLS = "Send, Wait, Penalise, candidates";

// Returns the scheduler of a program: its default export, or its function `schedule`.
export async function compiled(code) {
  // The first line stays the first line: errors have the numbers that the editor shows.
  const head = `import { ${TOOLS} } from ${JSON.stringify(new URL("engine.js", self.location.href).href)}; `;
  const address = URL.createObjectURL(new Blob([head + code], { type: "text/javascript" }));
  try {
    const made = await import(address);
    const scheduler = made.default ?? (made.schedule ? { ...made } : null);
    if (!scheduler) throw new TypeError("there is no function `schedule`: write `export function schedule(request, subflows) { … }`");
    return scheduler;
  } catch (error) {
    const line = error instanceof SyntaxError ? await lineOfSyntax(code) : null;
    throw Object.assign(new Error(`${error.name}: ${error.message}`, { cause: error }), { line });
  } finally {
    URL.revokeObjectURL(address);
  }
}

// Only the `error` event of a classic worker has the line of a syntax error. It knows no `export`.
function lineOfSyntax(code) {
  return new Promise((resolve) => {
    const address = URL.createObjectURL(new Blob([code.replace(/^\s*export\s+(default\s+(?=class|function)\b)?/gm, "")], { type: "text/javascript" }));
    const worker = new Worker(address);
    const done = (line) => {
      clearTimeout(timer);
      worker.terminate();
      URL.revokeObjectURL(address);
      resolve(line);
    };
    const timer = setTimeout(() => done(null), 1000);
    worker.onerror = (event) => { event.preventDefault(); done(event.lineno || null); };
  });
}
