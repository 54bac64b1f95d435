// The packets of a run as journeys: where each one is at a time, and what the receiver holds.

import { NEW, RETRANSMITTED } from "./series.js";

const LOST_AT = 0.62;
// Packets that leave or come within this time are one step, in seconds: the clock has no finer digits.
const STEP = 1e-6;

export class Journeys {
  constructor(columns, setup) {
    this.paths = setup.paths;
    this.packets = packetsOf(columns);
    this.least = setup.paths.map((_, n) => shortest(this.packets, n));
    this.longest = 0.05;
    this.queues();
    for (const packet of this.packets) this.longest = Math.max(this.longest, packet.gone - packet.left);
    this.events = this.times();
    this.receiver = new Receiver(this.packets);
    this.end = this.events[this.events.length - 1] ?? 1;
  }

  // Gives each packet the time at which it leaves the queue, and how it ends.
  queues() {
    const held = this.paths.map(() => []), freed = this.paths.map(() => 0);
    for (const packet of this.packets) {
      const n = packet.path, path = this.paths[n], least = this.least[n];
      while (freed[n] < held[n].length && held[n][freed[n]] <= packet.left) freed[n]++;
      const waiting = held[n].length - freed[n];
      if (packet.arrived !== null) {
        packet.served = Math.max(packet.left, packet.arrived - least);
        packet.gone = packet.arrived;
        held[n].push(packet.served);
        continue;
      }
      const cut = path.cuts.some(([from, to]) => packet.left >= from - least && packet.left < (to ?? Infinity));
      const full = waiting >= path.queue - 2;
      packet.fate = cut ? "cut" : full ? "queue" : "wire";
      packet.served = packet.left + (full || cut ? 0 : waiting ? Math.max(0, held[n][held[n].length - 1] - packet.left) : 0);
      packet.gone = packet.served + least * (packet.fate === "wire" ? LOST_AT : 0.1) + 0.01;
    }
  }

  times() {
    const found = [];
    for (const { left, arrived } of this.packets) {
      found.push(left);
      if (arrived !== null) found.push(arrived);
    }
    return Float64Array.from(found).sort();
  }

  // Returns the packets that are on their way at a time, each with its place.
  //
  // `share` is the part of the wire behind it, or null in the queue, where `rank` packets are before it.
  at(now) {
    const found = [], ranks = this.paths.map(() => 0);
    for (let n = after(this.packets, now - this.longest); n < this.packets.length; n++) {
      const packet = this.packets[n];
      if (packet.left > now) break;
      if (packet.gone <= now) continue;
      if (packet.served > now) {
        found.push({ packet, share: null, rank: ranks[packet.path]++ });
        continue;
      }
      const share = (now - packet.served) / (this.least[packet.path] || 1e-3);
      found.push({ packet, share: Math.min(1, share), rank: 0, falling: packet.arrived === null && share > LOST_AT * 0.8 });
    }
    return { found, waiting: ranks };
  }

  // Returns the time of the next packet that leaves or comes, or of the one before.
  step(now, direction) {
    let low = 0, high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle] < now + STEP) low = middle + 1; else high = middle;
    }
    if (direction > 0) return this.events[low] ?? now;
    let place = low - 1;
    while (place >= 0 && this.events[place] > now - STEP) place--;
    return this.events[place] ?? 0;
  }
}

// Returns the packets, each as an object.
function packetsOf({ left, arrived, path, connection, subflow, data, bytes, kind }) {
  const words = { [NEW]: "new", [RETRANSMITTED]: "retransmitted" };
  return Array.from(left, (at, n) => ({
    left: at, arrived: arrived[n] < 0 ? null : arrived[n], path: path[n], connection: connection[n], subflow: subflow[n],
    data: data[n], bytes: bytes[n], kind: words[kind[n]] ?? "reinjected",
  }));
}

function shortest(packets, n) {
  let least = Infinity;
  for (const packet of packets) {
    if (packet.path === n && packet.arrived !== null) least = Math.min(least, packet.arrived - packet.left);
  }
  return Number.isFinite(least) ? least : 0.05;
}

// Returns the place of the first packet that left after a time.
function after(packets, time) {
  let low = 0, high = packets.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (packets[middle].left < time) low = middle + 1; else high = middle;
  }
  return low;
}

// What the receiver of the busiest connection holds over time.
class Receiver {
  constructor(packets) {
    const bytes = new Map();
    for (const packet of packets) bytes.set(packet.connection, (bytes.get(packet.connection) ?? 0) + packet.bytes);
    this.connection = [...bytes].sort((one, other) => other[1] - one[1])[0]?.[0] ?? 0;
    this.own = packets.filter((packet) => packet.connection === this.connection);
    this.byData = new Map();
    for (const packet of this.own) {
      if (this.byData.has(packet.data)) this.byData.get(packet.data).push(packet);
      else this.byData.set(packet.data, [packet]);
    }
    const came = this.own.filter((packet) => packet.arrived !== null)
      .sort((one, other) => one.arrived - other.arrived);
    this.states = states(came);
  }

  // Returns the bytes in order, those held behind a gap, and the packet that would close it.
  at(now) {
    let low = 0, high = this.states.t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.states.t[middle] <= now) low = middle + 1; else high = middle;
    }
    if (low === 0) return { next: this.states.base, held: 0, awaited: null };
    const next = this.states.next[low - 1], held = this.states.held[low - 1];
    const sent = held ? (this.byData.get(next) ?? []).filter((packet) => packet.left <= now) : [];
    const coming = sent.filter((packet) => packet.gone > now);
    return { next, held, awaited: coming[coming.length - 1] ?? null, lost: held > 0 && coming.length === 0 };
  }
}

// Returns, after each arrival, the next byte in order and the bytes held beyond it.
function states(came) {
  const t = [], next = [], held = [];
  let base = Infinity;
  for (const packet of came) base = Math.min(base, packet.data);
  let inOrder = base, beyond = 0;
  const waiting = [];
  for (const { data, bytes, arrived } of came) {
    const end = data + bytes;
    if (end > inOrder) {
      let place = waiting.length;
      while (place > 0 && waiting[place - 1][0] > data) place--;
      const double = waiting[place - 1]?.[0] === data;
      if (!double) { waiting.splice(place, 0, [data, end]); beyond += bytes; }
    }
    while (waiting.length && waiting[0][0] <= inOrder) {
      const [from, to] = waiting.shift();
      beyond -= to - from;
      inOrder = Math.max(inOrder, to);
    }
    t.push(arrived); next.push(inOrder); held.push(beyond);
  }
  return { t: Float64Array.from(t), next, held, base: Number.isFinite(base) ? base : 0 };
}
