// Prints the plan and the scenario.toml of each set-up: `node play_plans.mjs PLAY TABLES SETUPS`.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , folder, tablesFile, setupsFile, fixedFile] = process.argv;
const { complete, filmOf, planText, tomlText } = await import(pathToFileURL(`${folder}/plan.js`));
const { read, write } = await import(pathToFileURL(`${folder}/link.js`));
const tables = JSON.parse(readFileSync(tablesFile, "utf8"));
const fixed = fixedFile ? JSON.parse(readFileSync(fixedFile, "utf8")) : {};
const films = new Proxy({}, { get: (_, name) => JSON.stringify({ recorded: name }) });
const made = JSON.parse(readFileSync(setupsFile, "utf8")).map(([given, run]) => {
  const setup = complete(tables, given);
  const link = write(tables, setup, { run, build: "1", digest: "ab" });
  const again = read(tables, `#${link}`);
  return {
    setup, film: filmOf(tables, setup), plan: planText(tables, setup, films, { run, fixed }), toml: tomlText(tables, setup, fixed), link,
    returned: JSON.stringify([again.setup, again.run, again.unknown]) === JSON.stringify([setup, run, []]),
  };
});
process.stdout.write(JSON.stringify(made));
