// Prints the plan and the scenario.toml of each set-up: `node play_plans.mjs PLAN_JS TABLES SETUPS`.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , source, tablesFile, setupsFile] = process.argv;
const { complete, filmOf, planText, tomlText } = await import(pathToFileURL(source));
const tables = JSON.parse(readFileSync(tablesFile, "utf8"));
const films = new Proxy({}, { get: (_, name) => JSON.stringify({ recorded: name }) });
const made = JSON.parse(readFileSync(setupsFile, "utf8")).map(([given, run]) => {
  const setup = complete(tables, given);
  return { setup, film: filmOf(setup), plan: planText(tables, setup, films, { run }), toml: tomlText(tables, setup) };
});
process.stdout.write(JSON.stringify(made));
