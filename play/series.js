// From the tables of a run to what the page draws. It runs in the worker, beside the engine.

const EMPTY = {};

// The columns that this file reads, by table.
export const COLUMNS = {
  player: ["t_s", "buffer_s"],
  samples: ["t_s", "path", "subflow", "bytes_acked", "cwnd_segments", "srtt_ms", "in_flight_segments"],
  departures: ["t_s", "client", "path", "position", "data_position", "connection", "subflow", "bytes"],
  arrivals: ["t_s", "client", "connection", "subflow", "position"],
  frames: ["fate", "due_s", "client"],
};

// A missing number is NaN in a column.
const known = (value) => (value >= 0 ? value : null);

export const column = (tables, table, name) => (tables[table] ?? EMPTY)[name] ?? [];

// Returns the throughput of all paths together.
export function together(paths) {
  const y = Array.from(paths[0].x, (_, n) => paths.reduce((sum, path) => sum + (path.throughput[n] ?? 0), 0));
  return { x: paths[0].x, y };
}

// Returns the curves, strips and marks of a run, and its packets as columns.
export function drawn({ tables, metrics }, names) {
  const packets = packetsOf(tables, names);
  return { series: seriesOf(tables, metrics, names, packets), packets };
}

function seriesOf(tables, metrics, names, packets) {
  const samples = sampled(tables, names);
  queues(packets, samples.paths);
  const buffer = {
    x: Array.from(column(tables, "player", "t_s")),
    y: Array.from(column(tables, "player", "buffer_s")),
  };
  const strip = stripOf(metrics);
  const last = [samples.end, strip.length ? strip[strip.length - 1].to : 0, buffer.x[buffer.x.length - 1] ?? 0];
  return {
    end: Math.max(1, ...last),
    paths: samples.paths,
    // Without a player, its buffer has no seconds of film.
    buffer: strip.length && buffer.x.length ? buffer : null,
    strip,
    lost: lostPictures(tables),
    rungs: rungsOf(metrics),
  };
}

function sampled(tables, names) {
  const t = column(tables, "samples", "t_s");
  const path = column(tables, "samples", "path");
  const subflow = column(tables, "samples", "subflow");
  const acked = column(tables, "samples", "bytes_acked");
  const values = Object.fromEntries(["cwnd_segments", "srtt_ms", "in_flight_segments"]
    .map((name) => [name, column(tables, "samples", name)]));
  const paths = names.map(() => ({ x: [], total: [], cwnd: [], srtt: [], flight: [], throughput: [], queue: null }));
  const place = new Map(names.map((name, n) => [name, n]));
  const ended = new Map();
  let row = 0;
  while (row < t.length) {
    const now = t[row];
    const latest = names.map(() => -1);
    for (; row < t.length && t[row] === now; row++) {
      const n = place.get(path[row]);
      if (n === undefined) continue;
      ended.set(`${n} ${subflow[row]}`, acked[row] || 0);
      if (latest[n] < 0 || subflow[row] >= subflow[latest[n]]) latest[n] = row;
    }
    const totals = names.map(() => 0);
    for (const [key, bytes] of ended) totals[Number(key.split(" ")[0])] += bytes;
    paths.forEach((one, n) => {
      const at = latest[n];
      one.x.push(now);
      one.total.push(totals[n]);
      one.cwnd.push(at < 0 ? null : known(values.cwnd_segments[at]));
      one.srtt.push(at < 0 ? null : known(values.srtt_ms[at]));
      one.flight.push(at < 0 ? null : known(values.in_flight_segments[at]));
    });
  }
  for (const one of paths) one.throughput = rates(one.x, one.total, 1);
  return { paths, end: t.length ? t[t.length - 1] : 0 };
}

// Returns the rate over the last `span` seconds in Mbit/s.
function rates(x, total, span) {
  let from = 0;
  return x.map((now, n) => {
    while (x[from] < now - span - 1e-9) from++;
    const since = from > 0 ? x[from] : Math.max(0, now - span);
    const bytes = total[n] - (from > 0 || x[from] === since ? total[from] : 0);
    return now > since ? Math.max(0, (bytes * 8) / (now - since) / 1e6) : 0;
  });
}

// Adds the queueing delay of each path: the delay of its packets above the shortest delay.
function queues({ left, arrived, path }, paths) {
  const least = paths.map(() => Infinity);
  for (let n = 0; n < left.length; n++) {
    if (arrived[n] >= 0) least[path[n]] = Math.min(least[path[n]], arrived[n] - left[n]);
  }
  paths.forEach((one, place) => { one.queue = Number.isFinite(least[place]) ? one.x.map(() => null) : null; });
  for (let n = 0; n < left.length; n++) {
    const { queue } = paths[path[n]];
    if (!queue || !(arrived[n] >= 0)) continue;
    const at = Math.min(queue.length - 1, Math.max(0, Math.ceil(left[n] * 10) - 1));
    queue[at] = Math.max(queue[at] ?? 0, (arrived[n] - left[n] - least[path[n]]) * 1000);
  }
}

// Kinds of packets in the column `kind`.
export const NEW = 0, RETRANSMITTED = 1, REINJECTED = 2;

// Returns every segment with data of the first client, as columns: when it left, when it came (-1 for never), its
// path, connection, subflow, first byte and length, and whether its data had been sent before.
function packetsOf(tables, names) {
  const get = (name) => column(tables, "departures", name);
  const [t, client, path, position, data] = ["t_s", "client", "path", "position", "data_position"].map(get);
  const [connections, subflows, bytes] = ["connection", "subflow", "bytes"].map(get);
  let count = 0;
  for (let row = 0; row < t.length; row++) if (client[row] === 0) count++;
  const place = new Map(names.map((name, n) => [name, n]));
  const left = new Float64Array(count), arrived = new Float64Array(count).fill(-1), first = new Float64Array(count);
  const [paths, connection, subflow, kind] = Array.from({ length: 4 }, () => new Uint16Array(count));
  const length = new Uint32Array(count), sent = new Places(count), open = new Places(count);
  // The transmission before this one with the same bytes on the same subflow, or -1.
  const before = new Int32Array(count).fill(-1);
  for (let row = 0, n = 0; row < t.length; row++) {
    if (client[row] !== 0) continue;
    left[n] = t[row]; first[n] = data[row]; length[n] = bytes[row];
    paths[n] = place.get(path[row]) ?? 0;
    connection[n] = connections[row]; subflow[n] = subflows[row];
    const original = sent.add(keyOf(connections[row], 0, data[row]), n);
    kind[n] = original < 0 ? NEW : subflow[original] === subflows[row] ? RETRANSMITTED : REINJECTED;
    before[n] = open.replace(keyOf(connections[row], subflows[row], position[row]), n);
    n++;
  }
  arrive(tables, open, before, left, arrived);
  return { left, arrived, path: paths, connection, subflow, data: first, bytes: length, kind };
}

// Positions are below 2^40, so the key is a whole number that a double holds.
const keyOf = (connection, subflow, position) => (connection * 64 + subflow) * 2 ** 40 + position;

// A table from keys to whole numbers. A Map takes three times as long.
class Places {
  constructor(count) {
    const bits = Math.max(4, Math.ceil(Math.log2(2 * count + 1)));
    this.shift = 32 - bits;
    this.mask = 2 ** bits - 1;
    this.keys = new Float64Array(2 ** bits).fill(-1);
    this.values = new Int32Array(2 ** bits).fill(-1);
  }

  // Returns the place of a key, or the free place for it.
  slot(key) {
    const high = Math.floor(key / 2 ** 32);
    const mixed = Math.imul((key - high * 2 ** 32) | 0, 0x9e3779b1) ^ Math.imul(high | 0, 0x85ebca6b);
    let at = Math.imul(mixed, 0x9e3779b1) >>> this.shift;
    while (this.keys[at] !== -1 && this.keys[at] !== key) at = (at + 1) & this.mask;
    return at;
  }

  // Returns the value of a key; -1 if it has none.
  get(key) {
    return this.values[this.slot(key)];
  }

  // Returns the value of a key, and replaces it.
  replace(key, value) {
    const at = this.slot(key), old = this.values[at];
    this.keys[at] = key;
    this.values[at] = value;
    return old;
  }

  // Returns the value of a key, and sets it if it has none.
  add(key, value) {
    const at = this.slot(key), old = this.values[at];
    if (old < 0) { this.keys[at] = key; this.values[at] = value; }
    return old;
  }
}

// Of several transmissions, an arrival is that of the last one that can have come in time, and has not come yet.
function arrive(tables, open, before, left, arrived) {
  const get = (name) => column(tables, "arrivals", name);
  const [came, client, connection, subflow, position] =
    ["t_s", "client", "connection", "subflow", "position"].map(get);
  for (let row = 0; row < came.length; row++) {
    if (client[row] !== 0) continue;
    let n = open.get(keyOf(connection[row], subflow[row], position[row]));
    while (n >= 0 && !(arrived[n] < 0 && left[n] < came[row])) n = before[n];
    if (n >= 0) arrived[n] = came[row];
  }
}

// Returns the strip of the first client's screen, from the metrics.
const stripOf = (metrics) => (metrics.strips[0] ?? []).map(({ from_s, to_s, state }) => ({ from: from_s, to: to_s, kind: state }));

function lostPictures(tables) {
  const fate = column(tables, "frames", "fate");
  const due = column(tables, "frames", "due_s");
  const client = column(tables, "frames", "client");
  const lost = [];
  for (let row = 0; row < fate.length; row++) {
    if (client[row] === 0 && fate[row] === "discarded" && due[row] >= 0) lost.push(due[row]);
  }
  return lost;
}

// Returns the renditions on the first client's screen, from the metrics.
const rungsOf = (metrics) => (metrics.renditions[0] ?? []).map(({ from_s, to_s, name }) => ({ from: from_s, to: to_s, name }));

// Returns whether the first client's screen froze, by the rule of the report.
export const freezes = ({ strips }) => (strips[0] ?? []).some(({ state }) => state === "freeze");

// Returns one sentence about what the viewer saw, and whether it is good.
export function verdict(metrics, kind) {
  const { qoe, qos } = metrics;
  if (kind === "bulk") {
    const rate = qos.goodput_mbps;
    return rate > 0 ? { good: true, text: `The file arrives at ${round(rate)} Mbit/s.` } : { good: false, text: "The file does not arrive." };
  }
  if (qoe.startup_delay_s === null || qoe.startup_delay_s === undefined) {
    return { good: false, text: "The film never starts." };
  }
  const starts = `The film starts after ${round(qoe.startup_delay_s)} s`;
  const lost = qoe.picture_discards ?? 0;
  const bad = freezes(metrics) ? ` and stands still for ${round(qoe.still_s)} s in all` : "";
  if (!qoe.reached_end) return { good: false, text: `${starts}${bad}. It does not reach its end.` };
  if (!bad && !lost) return { good: true, text: `${starts} and plays to its end without a freeze.` };
  const pictures = lost ? ` ${lost} of its pictures ${lost === 1 ? "is" : "are"} lost.` : "";
  return { good: false, text: `${starts}${bad}.${pictures}` };
}

const round = (value) => Number(value.toFixed(Math.abs(value) >= 10 ? 0 : 1));
