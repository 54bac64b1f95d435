// Runs the AbrController of hls.js for one player of the simulator, in virtual time.
//
//     node -e "$(cat hlsjs_node.js)" FOLDER/hls.js/dist/hls.js
//
// One JSON object a line comes in on standard input, and one goes out for each. Times are seconds, rates are bits
// per second, sizes are bytes:
//
//     {"open": {config, levels: [{bps, mean_bps, width, height, chunk_s}]}}  ->  {"version": "1.7.4"}
//     {"choose": {buffer_s}}                                                 ->  {"level": 2}
//     {"loading": {buffer_s, level, duration_s, size, received, since_s, first_byte_s}}  ->  {"abandon": false}
//     {"loaded": {level, duration_s, received, fetch_s, first_byte_s}}       ->  {}
//
// An answer {"error": "..."} ends the session.
"use strict";

const fs = require("fs");

/** Virtual time and the timers that run in it. Times are milliseconds. */
const clock = {
  now: 0,
  timers: new Map(),
  added: 0,
  add(callback, every, again) {
    this.added += 1;
    this.timers.set(this.added, { callback, every, due: this.now + every, again });
    return this.added;
  },
  /** Runs every timer that is due at `now`, once, in the order of their times. */
  advance(now) {
    const rounding = 1e-6; // two equal times may differ by the rounding of a sum
    this.now = Math.max(this.now, now);
    const due = [...this.timers].filter(([, timer]) => timer.due <= this.now + rounding);
    for (const [id, timer] of due.sort(([, one], [, other]) => one.due - other.due)) {
      if (!this.timers.has(id)) continue; // removed by an earlier one
      if (timer.again) timer.due = this.now + timer.every;
      else this.timers.delete(id);
      timer.callback();
    }
  },
};

/** Converts seconds to milliseconds, rounded to the simulator's nanoseconds. */
function milliseconds(seconds) {
  return Math.round(seconds * 1e9) / 1e6;
}

/** Replaces the clock, the timers and the random numbers that hls.js can reach. */
function replaceGlobals() {
  globalThis.self = globalThis;
  Object.defineProperty(globalThis, "performance", { value: { now: () => clock.now }, configurable: true });
  Date.now = () => clock.now;
  Math.random = () => 0.5;
  globalThis.setInterval = (callback, every) => clock.add(callback, every, true);
  globalThis.setTimeout = (callback, after) => clock.add(callback, after, false);
  globalThis.clearInterval = globalThis.clearTimeout = (id) => clock.timers.delete(id);
}

/** Returns hls.js; throws with a sentence if the file is not hls.js, or has no such controller. */
function load(file) {
  let Hls;
  try {
    Hls = require(file);
  } catch (error) {
    throw new Error(`cannot load ${file}: ${error}`);
  }
  if (typeof Hls?.DefaultConfig?.abrController !== "function" || Hls.Events?.FRAG_BUFFERED === undefined) {
    throw new Error(`no AbrController in ${file} (version ${Hls?.version ?? "unknown"})`);
  }
  return Hls;
}

/** Throws if hls.js has no setting of a name. */
function check(Hls, config) {
  for (const key of Object.keys(config)) {
    if (!(key in Hls.DefaultConfig)) {
      const error = new Error(`hls.js ${Hls.version} has no setting ${key}`);
      throw Object.assign(error, { unknown: key, settings: Object.keys(Hls.DefaultConfig) });
    }
  }
}

/** The parts of an `Hls` object that the controller uses, and the controller. */
class Player {
  constructor(Hls, { config, levels }) {
    this.events = Hls.Events;
    this.handlers = {};
    this.config = { ...Hls.DefaultConfig, useMediaCapabilities: false, ...config };
    const silent = () => {};
    this.logger = { log: silent, info: silent, debug: silent, trace: silent, warn: silent, error: silent };
    this.levels = levels.map(({ bps, mean_bps, width, height }) => ({
      bitrate: bps, maxBitrate: bps, averageBitrate: mean_bps, realBitrate: 0, width, height,
      codecSet: "avc1", videoRange: "SDR", frameRate: 0, loadError: 0, fragmentError: 0, details: undefined,
    }));
    this.meanChunk = levels.map(({ chunk_s }) => chunk_s.reduce((sum, one) => sum + one, 0) / chunk_s.length);
    this.minAutoLevel = 0;
    this.maxAutoLevel = levels.length - 1;
    this.firstLevel = 0;
    this.loadLevel = -1;
    this.autoLevelEnabled = true;
    this.allAudioTracks = [];
    this.latestLevelDetails = null;
    this.mainForwardBufferInfo = { len: 0 };
    this.media = { paused: false, playbackRate: 1, readyState: 4 };
    this.abandoned = false;
    this.fragment = null;
    this.abr = new Hls.DefaultConfig.abrController(this);
  }

  // Members that the controller uses, under hls.js' names.

  on(name, handler, owner) {
    (this.handlers[name] ??= []).push(handler.bind(owner));
  }

  off(name) {
    delete this.handlers[name];
  }

  trigger(name, data) {
    if (name === this.events.FRAG_LOAD_EMERGENCY_ABORTED) this.abandoned = true;
    for (const handler of this.handlers[name] ?? []) handler(name, data);
  }

  get loadLevelObj() {
    return this.levels[this.loadLevel];
  }

  get nextAutoLevel() {
    return this.abr.nextAutoLevel;
  }

  set nextAutoLevel(level) {
    this.abr.nextAutoLevel = level;
  }

  /** As `LevelController` does: the level changes, and is the next automatic level too. */
  set nextLoadLevel(level) {
    if (this.loadLevel !== level) {
      this.loadLevel = level;
      this.trigger(this.events.LEVEL_SWITCHING, { level });
    }
    this.nextAutoLevel = level;
  }

  // The simulator's questions.

  choose({ buffer_s }) {
    this.mainForwardBufferInfo = { len: buffer_s };
    const level = this.abr.nextAutoLevel;
    this.nextLoadLevel = level;
    return { level };
  }

  /** Starts the download of a chunk, unless it has been started. */
  begin({ level, duration_s }) {
    if (this.fragment?.level === level) return this.fragment;
    // The simulator does not report the time between two downloads. From a whole millisecond, durations are exact.
    clock.now = Math.ceil(clock.now);
    const stats = { aborted: false, loaded: 0, total: 0, loading: { start: clock.now, first: 0, end: 0 } };
    this.fragment = {
      type: "main", level, sn: 0, duration: duration_s, bitrateTest: false,
      stats: { ...stats, parsing: { start: 0, end: 0 } },
      abortRequests() {
        this.stats.aborted = true;
      },
      // As in hls.js, the size is unknown until the response begins.
      get bitrate() {
        return this.stats.total ? (this.stats.total * 8) / this.duration : null;
      },
    };
    // A chunk is requested after the playlist of its level has arrived.
    this.levels[level].details ??= { averagetargetduration: this.meanChunk[level], live: false };
    this.trigger(this.events.FRAG_LOADING, { frag: this.fragment });
    return this.fragment;
  }

  loading(given) {
    const { stats } = this.begin(given);
    if (given.first_byte_s !== null) {
      stats.loading.first = stats.loading.start + milliseconds(given.first_byte_s);
      stats.loaded = given.received;
      stats.total = given.size;
    }
    this.mainForwardBufferInfo = { len: given.buffer_s };
    this.abandoned = false;
    clock.advance(stats.loading.start + milliseconds(given.since_s));
    if (this.abandoned) this.fragment = null;
    return { abandon: this.abandoned };
  }

  loaded(given) {
    const frag = this.begin(given);
    const { stats } = frag;
    stats.loading.first = stats.loading.start + milliseconds(given.first_byte_s);
    stats.loading.end = stats.parsing.start = stats.parsing.end = stats.loading.start + milliseconds(given.fetch_s);
    stats.loaded = stats.total = given.received;
    // The timers of this download are stopped at its end and not later.
    clock.now = Math.max(clock.now, stats.loading.end);
    this.trigger(this.events.FRAG_LOADED, { frag, part: null });
    this.trigger(this.events.FRAG_BUFFERED, { frag, part: null, stats, id: "main" });
    this.fragment = null;
    return {};
  }
}

/** Yields the lines of standard input. It blocks, because this process has nothing else to do. */
function* lines() {
  const buffer = Buffer.alloc(65536);
  let text = "";
  for (;;) {
    const count = fs.readSync(0, buffer);
    if (count === 0) return;
    text += buffer.toString("utf8", 0, count);
    const whole = text.split("\n");
    text = whole.pop();
    yield* whole;
  }
}

replaceGlobals();
let player = null;
for (const line of lines()) {
  let answer;
  try {
    const [[verb, given]] = Object.entries(JSON.parse(line));
    if (verb === "open") {
      const Hls = load(process.argv[1]);
      check(Hls, given.config);
      player = given.levels ? new Player(Hls, given) : null;
      answer = { version: Hls.version };
    } else {
      answer = player[verb](given);
    }
  } catch (error) {
    const { unknown, settings } = error ?? {};
    answer = { error: String(error?.message ?? error).split("\n")[0], unknown, settings };
  }
  fs.writeSync(1, `${JSON.stringify(answer)}\n`);
}
process.exit(0);
