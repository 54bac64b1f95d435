// Asks hls.js' own AbrController, of the library that is given, what it would load: one case of JSON a line in, one
// answer a line out. A case has the ladder's `rates` (bits per second), the chunks' `duration_s`, and `steps`:
// {loaded: {level, bytes, first_byte_s, fetch_s}}, {choose: {buffer_s}} and {watch: {level, bytes, received, since_s,
// first_byte_s, buffer_s}}; the answer has the level of each `choose`, and null or the forced level of each `watch`.
"use strict";
globalThis.self = globalThis;
const Hls = require(process.argv[2]);
let clock = 0;
Object.defineProperty(globalThis.performance, "now", { value: () => clock * 1e3 });

function answers({ rates, duration_s, steps }) {
  const handlers = {}, told = [], silent = () => {};
  const logger = { log: silent, info: silent, debug: silent, trace: silent, warn: silent, error: silent };
  const levels = rates.map((bitrate) => ({
    bitrate, maxBitrate: bitrate, averageBitrate: bitrate, codecSet: "avc1", videoRange: "SDR", frameRate: 25,
    loadError: 0, fragmentError: 0,
  }));
  const hls = {
    config: { ...Hls.DefaultConfig, useMediaCapabilities: false }, logger, levels,
    on: (name, heard, owner) => { handlers[name] = heard.bind(owner); }, off: silent, trigger: (name) => told.push(name),
    minAutoLevel: 0, maxAutoLevel: rates.length - 1, firstLevel: 0, loadLevel: -1, autoLevelEnabled: true,
    allAudioTracks: [], latestLevelDetails: null, mainForwardBufferInfo: { len: 0 },
    media: { paused: false, playbackRate: 1, readyState: 4 },
    set nextLoadLevel(level) { this.loadLevel = level; },
    set nextAutoLevel(level) { rule.nextAutoLevel = level; },
    get loadLevelObj() { return levels[this.loadLevel]; },
  };
  const rule = new Hls.DefaultConfig.abrController(hls);
  const { FRAG_LOADING, FRAG_LOADED, FRAG_BUFFERED, FRAG_LOAD_EMERGENCY_ABORTED } = Hls.Events;
  const call = (name, data) => handlers[name](name, data);
  const fragment = (level, bytes) => ({
    type: "main", level, sn: 0, duration: duration_s, bitrate: (8 * bytes) / duration_s, abortRequests: silent,
    stats: { aborted: false, loaded: 0, total: bytes, loading: { start: clock * 1e3, first: 0, end: 0 }, parsing: { end: 0 } },
  });
  const load = (frag) => { call(FRAG_LOADING, { frag }); clearInterval(rule.timer); };
  return steps.map(({ loaded, choose, watch }) => {
    clock += 100;
    if (choose) {
      hls.mainForwardBufferInfo = { len: choose.buffer_s };
      return rule.nextAutoLevel;
    }
    const frag = fragment((loaded ?? watch).level, (loaded ?? watch).bytes), { stats } = frag;
    load(frag);
    if (loaded) {
      stats.loaded = loaded.bytes;
      stats.loading.first = stats.loading.start + loaded.first_byte_s * 1e3;
      stats.loading.end = stats.parsing.end = stats.loading.start + loaded.fetch_s * 1e3;
      levels[frag.level].details ??= { averagetargetduration: duration_s, live: false };
      call(FRAG_LOADED, { frag });
      call(FRAG_BUFFERED, { frag, id: "main" });
      hls.loadLevel = frag.level;
      return null;
    }
    clock += watch.since_s;
    stats.loaded = watch.received;
    stats.loading.first = watch.first_byte_s === null ? 0 : stats.loading.start + watch.first_byte_s * 1e3;
    hls.mainForwardBufferInfo = { len: watch.buffer_s };
    told.length = 0;
    rule._abandonRulesCheck();
    rule.clearTimer();
    return told.includes(FRAG_LOAD_EMERGENCY_ABORTED) ? rule.forcedAutoLevel : null;
  });
}

require("readline").createInterface({ input: process.stdin })
  .on("line", (line) => console.log(JSON.stringify(answers(JSON.parse(line)))))
  .on("close", () => process.exit(0));
