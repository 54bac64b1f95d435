// Loads playlists with the given hls.js library and prints what the library makes of them. Each input line is one
// case in JSON, and each output line is one answer. A case has `files` (text by address), `master` and `unplayed` (the
// beginnings of codecs that the browser does not play). The answer has `levels` (address and audio groups, in order),
// `played` (addresses that the rule selects at any rate after its first choice), `sounds` (the address of the sound of
// each level), and `fragments` (by the address of their playlist), or `error`. With `place`, the answer also has the
// fragment that is loaded after that one.
"use strict";
const source = require("fs").readFileSync(process.argv[2], "utf8");
globalThis.self = globalThis;
globalThis.location = { href: "http://a/" };
globalThis.MediaSource = class {
  static isTypeSupported(type) { return !unplayed.some((name) => type.includes(name)); }
};
let unplayed = [], files = {};

class Loader {
  constructor() { this.stats = { loading: { start: 0, first: 0, end: 0 }, parsing: { start: 0, end: 0 }, buffering: {}, loaded: 0, total: 0, retry: 0, chunkCount: 0, bwEstimate: 0, aborted: false }; }
  destroy() {}
  abort() {}
  load(context, _config, callbacks) {
    const data = files[context.url];
    this.stats.loaded = data?.length ?? 0;
    queueMicrotask(() => data === undefined ? callbacks.onError({ code: 404, text: "" }, context, null, this.stats)
      : callbacks.onSuccess({ url: context.url, data, code: 200 }, this.stats, context, null));
  }
}

const wrapped = { exports: {} };
// hls.js does not export the parser, nor the function that finds the fragment for a time.
const exposed = "globalThis.inside = { find: findFragmentByPTS, parser: () => M3U8Parser };\n  function findFragmentByPTS(";
const opened = source.replace("function findFragmentByPTS(", exposed);
new Function("module", "exports", "define", opened)(wrapped, wrapped.exports, undefined);
const Hls = wrapped.exports;

function played(hls) {
  const rule = hls.abrController, top = hls.levels.length - 1;
  const best = (rate) => rule.findBestLevel(rate, 0, top, 0, 4, 1, 1);
  const first = best(hls.bandwidthEstimate);
  rule.lastLoadedFragLevel = hls.levelController.currentLevelIndex = first;
  const found = new Set([first]);
  for (let rate = 1e4; rate < 1e9; rate *= 1.05) found.add(best(rate));
  return [...found].filter((level) => level >= 0).map((level) => hls.levels[level].uri);
}

async function answer({ files: given, master, unplayed: lacking = [], place }) {
  unplayed = lacking;
  files = given;
  const hls = new Hls({ loader: Loader, autoStartLoad: false, debug: false, useMediaCapabilities: false });
  const told = { fragments: {} };
  hls.on(Hls.Events.ERROR, (_, data) => { told.error = told.error ?? `${data.details}: ${data.error?.message}`; });
  const parsed = new Promise((done) => {
    hls.on(Hls.Events.MANIFEST_PARSED, done);
    hls.on(Hls.Events.ERROR, (_, data) => data.fatal && done());
  });
  hls.loadSource(master);
  await parsed;
  told.levels = hls.levels.map((level) => ({ uri: level.uri, groups: level.audioGroups ?? [] }));
  // The sound of each level after the player has switched to it.
  told.sounds = told.levels.map((_, number) => {
    hls.loadLevel = number;
    return hls.audioTracks[hls.audioTrack]?.url ?? null;
  });
  told.played = told.levels.length ? played(hls) : [];
  const parser = globalThis.inside.parser();
  const variables = parser.parseMasterPlaylist(given[master], master).variableList;
  for (const [address, text] of Object.entries(given)) {
    if (address === master) continue;
    const details = parser.parseLevelPlaylist(text, address, 0, "main", 0, variables);
    if (details.playlistParsingError) { told.error = told.error ?? details.playlistParsingError.message; continue; }
    told.fragments[address] = details.fragments.map((one) => ({
      uri: one.url, duration: one.duration, range: one.byteRange.length ? one.byteRange : null, gap: !!one.gap,
      map: one.initSegment ? [one.initSegment.url, one.initSegment.byteRange.length ? one.initSegment.byteRange : null] : null,
    }));
    if (place !== undefined) {
      const before = details.fragments[place - 1];
      const found = globalThis.inside.find(before ?? null, details.fragments, before ? before.end : 0, 0.25, 0.005);
      told.placed = found && found.sn;
    }
  }
  hls.destroy();
  return told;
}

(async () => {
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  }
  process.exit(0);
})();
