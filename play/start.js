// Begins to load the tables, a film and the simulator while the page's other files load.

import { Runner } from "./runner.js";

async function text(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name} cannot be loaded: ${answer.status} ${answer.statusText}`);
  return answer.text();
}

const json = async (name) => JSON.parse(await text(name));

const engine = json("engine.json");
// The film of the page's first set-up: the first run need not wait for it.
const FILM = "films/demo.json";

export const begun = {
  tables: json("tables.json"),
  engine,
  films: new Map([[FILM, text(FILM)]]),
  runner: new Runner(engine.then((one) => one.engine)),
};
for (const film of begun.films.values()) film.catch(() => {}); // the page loads it again, and reports it
