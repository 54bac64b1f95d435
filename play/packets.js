// The packet view: packets that move along the paths, queues that fill, and the receiver that waits.

import { digits, el, grouped, paint } from "./dom.js";
import { Journeys } from "./journey.js";
import { fitted } from "./plot.js";

const LANE = 78, HEAD = 14, SERVER = 74, QUEUE = 150, CLIENT = 92, PLOT = 220;
const KINDS = { new: "new data", retransmitted: "sent again on the same path", reinjected: "sent again on another path" };
const FATES = { queue: "dropped: the queue is full", wire: "lost on the way", cut: "lost: the path is cut" };

export class View {
  constructor(node, page) {
    Object.assign(this, { node, page, now: 0, speed: 0.1, playing: false, journeys: null, drawn: [], told: 0 });
    this.build();
    page.cursor.heard.add((at) => { if (at !== null && node.hidden) this.wanted = at; });
    new ResizeObserver(() => this.draw()).observe(this.scene);
  }

  build() {
    const button = (text, label, run, id = null) =>
      el("button", { type: "button", class: "act quiet", "aria-label": label, title: label, id, onclick: run }, text);
    this.play = button("▶", "Play", () => this.toggle(), "packets-play");
    this.clock = el("output", { class: "clock", id: "packets-clock" });
    this.seek = el("input", { type: "range", min: 0, max: 10000, value: 0, "aria-label": "Time",
      oninput: (event) => { this.pause(); this.go((Number(event.target.value) / 10000) * this.end()); } });
    this.rate = el("input", { type: "range", min: -2, max: 1, step: 0.05, value: -1, "aria-label": "Speed", id: "packets-speed",
      oninput: (event) => this.faster(10 ** Number(event.target.value)) });
    this.rateText = el("output", { class: "rate" });
    this.scene = el("canvas", { class: "scene", role: "img", "aria-label": "Packets on their way from the server to the client" });
    this.plot = el("canvas", { class: "sequence", role: "img", "aria-label": "Position in the data of each packet over time, by path" });
    this.words = el("p", { class: "help words", id: "packets-words" });
    this.scene.addEventListener("pointermove", (event) => this.hover(event));
    this.scene.addEventListener("pointerdown", (event) => this.hover(event));
    this.scene.addEventListener("pointerleave", () => { this.over = null; this.tell(true); });
    this.plot.addEventListener("click", (event) => this.click(event));
    this.node.replaceChildren(
      el("div", { class: "card" },
        el("div", { class: "player" }, button("◀", "One packet back", () => this.step(-1)), this.play,
          button("▶|", "One packet on", () => this.step(1), "packets-step"), this.clock,
          el("label", { class: "speed" }, "Speed ", this.rate, this.rateText)),
        this.seek, this.scene, this.legend(), this.words),
      el("div", { class: "card" }, el("h2", {}, "Position in the data, by path"), this.plot,
        el("p", { class: "help" }, "Each mark is a packet as it leaves, and a cross is one that is lost; the line is what the receiver has in order. "
          + "A step in the line ends a wait for the head of line. Click to go there.")));
    this.node.addEventListener("keydown", (event) => {
      if (event.target.matches("input, button") && event.key === " ") return;
      if (event.key === " ") { event.preventDefault(); this.toggle(); }
    });
    this.faster(0.1);
  }

  legend() {
    const entry = (kind, text) => el("li", {}, el("i", { class: `dot ${kind}` }), text);
    return el("ul", { class: "legend dots" }, entry("new", "packet"), entry("again", "sent again"), entry("lost", "lost"),
      entry("head", "the packet that the receiver waits for"));
  }

  show(setup, result) {
    this.setup = setup;
    this.columns = result.packets;
    this.journeys = null;
    if (!this.node.hidden) this.opened();
  }

  opened() {
    if (!this.columns) return;
    if (!this.journeys) {
      this.journeys = new Journeys(this.columns, this.setup);
      this.now = Math.min(this.wanted ?? (this.now || 1), this.end());
      this.wanted = null;
      this.scene.style.height = `${this.height()}px`;
    } else if (this.wanted) this.now = this.wanted;
    if (!this.begun && !matchMedia("(prefers-reduced-motion: reduce)").matches) { this.begun = true; this.toggle(); }
    this.draw();
  }

  end() {
    return this.journeys?.end ?? 1;
  }

  height() {
    return HEAD + LANE * this.setup.paths.length + 6;
  }

  faster(speed) {
    this.speed = speed;
    this.rateText.textContent = `× ${Number(speed.toPrecision(2))}`;
  }

  toggle() {
    if (this.playing) { this.pause(); return; }
    if (this.now >= this.end()) this.now = 0;
    this.playing = true;
    this.play.textContent = "❚❚";
    this.play.setAttribute("aria-label", "Pause");
    let before = null;
    const turn = (time) => {
      if (!this.playing) return;
      if (this.node.hidden) { this.pause(); return; }
      if (before !== null) this.go(this.now + ((time - before) / 1000) * this.speed);
      before = time;
      if (this.now >= this.end()) this.pause();
      else requestAnimationFrame(turn);
    };
    requestAnimationFrame(turn);
  }

  pause() {
    this.playing = false;
    this.play.textContent = "▶";
    this.play.setAttribute("aria-label", "Play");
    this.draw();
    this.tell(true);
  }

  step(direction) {
    this.pause();
    if (this.journeys) this.go(this.journeys.step(this.now, direction));
  }

  go(now) {
    this.now = Math.min(Math.max(now, 0), this.end());
    this.page.cursor.at = this.now;
    this.draw();
  }

  draw() {
    if (!this.journeys || !this.scene.clientWidth) return;
    this.clock.textContent = `${this.now.toFixed(this.playing ? 3 : 6)} s`;
    this.seek.value = (10000 * this.now) / this.end();
    const pen = fitted(this.scene, this.height()), wide = this.scene.clientWidth;
    const state = this.journeys.receiver.at(this.now), { found, waiting } = this.journeys.at(this.now);
    const narrow = wide < 520;
    const x = { server: narrow ? 60 : SERVER, queue: narrow ? 64 : QUEUE, client: wide - (narrow ? 62 : CLIENT) };
    this.hosts(pen, x, wide, state);
    this.setup.paths.forEach((path, n) => this.lane(pen, x, n, path, waiting[n]));
    this.drawn = found.map((one) => this.dot(pen, x, one, one.packet === state.awaited));
    this.state = state;
    this.sequence();
    this.tell(false);
  }

  hosts(pen, x, wide, state) {
    const tall = this.height() - HEAD;
    pen.font = "600 12px system-ui, sans-serif";
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const [word, from, to] of [["server", 0, x.server - 12], ["client", x.client + 12, wide]]) {
      pen.fillStyle = paint("--ground");
      pen.strokeStyle = paint("--line");
      pen.beginPath(); pen.roundRect(from + 0.5, 0.5, to - from - 1, tall, 8); pen.fill(); pen.stroke();
      pen.fillStyle = paint("--ink");
      pen.fillText(word, (from + to) / 2, 9);
    }
    pen.font = "11px system-ui, sans-serif";
    const middle = (x.client + 12 + wide) / 2;
    pen.fillText(`${(state.next / 1e6).toFixed(wide < 520 ? 1 : 2)} MB`, middle, 30);
    pen.fillStyle = paint("--soft");
    pen.fillText("in order", middle, 43);
    if (state.held > 0) {
      const share = Math.min(1, state.held / (this.setup.transport.receive_buffer * 1024)), high = tall - 104;
      pen.fillStyle = paint("--freeze");
      pen.fillText(`${digits(state.held / 1000)} kB`, middle, 62);
      pen.fillText("held", middle, 75);
      if (high > 8) {
        pen.globalAlpha = 0.3; pen.fillRect(x.client + 24, 94, wide - x.client - 36, high); pen.globalAlpha = 1;
        pen.fillRect(x.client + 24, 94 + high * (1 - share), wide - x.client - 36, Math.max(2, high * share));
      }
    }
  }

  lane(pen, x, n, path, waiting) {
    const y = HEAD + LANE * n + LANE / 2 + 6, from = x.server, to = x.server + x.queue;
    const cut = path.cuts.some(([begin, end]) => begin <= this.now && this.now < (end ?? Infinity));
    pen.strokeStyle = cut ? paint("--freeze") : paint("--line");
    pen.lineWidth = 3;
    pen.setLineDash(cut ? [3, 8] : []);
    pen.beginPath(); pen.moveTo(to, y); pen.lineTo(x.client + 10, y); pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 1;
    pen.fillStyle = paint("--ground");
    pen.strokeStyle = paint("--soft");
    pen.beginPath(); pen.roundRect(from + 0.5, y - 12.5, to - from, 25, 4); pen.fill(); pen.stroke();
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.textBaseline = "bottom";
    pen.fillStyle = paint(`--p${n}`);
    pen.fillText(path.name, from, y - 17);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = waiting >= path.queue - 2 ? paint("--freeze") : paint("--soft");
    pen.textBaseline = "top";
    const limit = path.queue_bytes || path.model ? "" : ` of ${path.queue}`;
    pen.fillText(`${waiting}${limit} in the queue`, from, y + 17);
    if (cut) { pen.fillStyle = paint("--freeze"); pen.textBaseline = "bottom"; pen.fillText("cut", to + 10, y - 8); }
  }

  dot(pen, x, { packet, share, rank, falling }, awaited) {
    const y = HEAD + LANE * packet.path + LANE / 2 + 6, front = x.server + x.queue - 8;
    const slots = Math.max(1, this.setup.paths[packet.path].queue), gap = Math.min(7, (x.queue - 14) / slots);
    const at = share === null ? Math.max(x.server + 6, front - rank * gap) : front + 8 + share * (x.client - front - 4);
    const fall = falling ? Math.min(26, 90 * Math.max(0, this.now - packet.served - 0) * 0.5 + 8) : 0;
    const lost = packet.arrived === null && (falling || packet.fate !== "wire");
    pen.fillStyle = lost ? paint("--freeze") : paint(`--p${packet.path}`);
    pen.strokeStyle = paint("--ink");
    pen.beginPath(); pen.arc(at, y + fall, awaited ? 5.5 : 4, 0, 7);
    pen.fill();
    if (packet.kind !== "new") { pen.lineWidth = 1.6; pen.stroke(); }
    if (awaited) { pen.lineWidth = 1.5; pen.beginPath(); pen.arc(at, y, 10, 0, 7); pen.stroke(); }
    if (lost) {
      pen.lineWidth = 1.5; pen.strokeStyle = paint("--card");
      pen.beginPath(); pen.moveTo(at - 2, y + fall - 2); pen.lineTo(at + 2, y + fall + 2);
      pen.moveTo(at + 2, y + fall - 2); pen.lineTo(at - 2, y + fall + 2); pen.stroke();
    }
    return { packet, at, y: y + fall };
  }

  // Draws the window of time around now: marks for packets, a line for the data in order.
  sequence() {
    const pen = fitted(this.plot, PLOT), wide = this.plot.clientWidth - 66;
    const span = Math.min(10, Math.max(0.4, 12 * Math.max(...this.journeys.least)));
    const from = Math.max(0, this.now - span * 0.6), to = from + span;
    const own = this.journeys.receiver.own.filter((packet) => packet.left >= from && packet.left <= to);
    this.window = { from, to, wide };
    let low = Infinity, high = -Infinity;
    for (const { data, bytes } of own) { low = Math.min(low, data); high = Math.max(high, data + bytes); }
    const { next } = this.state;
    low = Math.min(low, next); high = Math.max(high, next, low + 10000);
    const px = (t) => 58 + ((t - from) / span) * wide, py = (v) => PLOT - 24 - ((v - low) / (high - low)) * (PLOT - 36);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = paint("--soft");
    pen.strokeStyle = paint("--grid");
    pen.lineWidth = 1;
    for (let n = 0; n <= 4; n++) {
      const value = low + ((high - low) * n) / 4, y = Math.round(py(value)) + 0.5;
      pen.beginPath(); pen.moveTo(58, y); pen.lineTo(58 + wide, y); pen.stroke();
      pen.textAlign = "right"; pen.textBaseline = "middle";
      pen.fillText(`${(value / 1e6).toFixed(2)} MB`, 52, y);
      pen.textAlign = n === 0 ? "left" : n === 4 ? "right" : "center"; pen.textBaseline = "top";
      pen.fillText(`${(from + (span * n) / 4).toFixed(2)} s`, 58 + (wide * n) / 4, PLOT - 18);
    }
    for (const packet of own) {
      const x = px(packet.left), y = py(packet.data), size = packet.kind === "new" ? 3 : 6;
      if (packet.arrived === null) { cross(pen, x, y, size); continue; }
      pen.fillStyle = paint(`--p${packet.path}`);
      pen.fillRect(x - size / 2, y - size / 2, size, size);
    }
    this.line(pen, px, py, from, to);
    pen.strokeStyle = paint("--ink");
    pen.globalAlpha = 0.5; pen.beginPath(); pen.moveTo(px(this.now), 6); pen.lineTo(px(this.now), PLOT - 24); pen.stroke(); pen.globalAlpha = 1;
  }

  line(pen, px, py, from, to) {
    const { t, next } = this.journeys.receiver.states;
    pen.save();
    pen.beginPath(); pen.rect(58, 0, this.window.wide, PLOT - 22); pen.clip();
    pen.strokeStyle = paint("--ink");
    pen.lineWidth = 1.3;
    pen.beginPath();
    let last = null;
    for (let n = 0; n < t.length && t[n] <= to; n++) {
      if (t[n] < from - 1) continue;
      if (last === null) pen.moveTo(px(t[n]), py(next[n]));
      else { pen.lineTo(px(t[n]), py(last)); pen.lineTo(px(t[n]), py(next[n])); }
      last = next[n];
    }
    pen.stroke();
    pen.restore();
  }

  click(event) {
    const box = this.plot.getBoundingClientRect(), { from, to, wide } = this.window;
    this.pause();
    this.go(from + ((event.clientX - box.left - 58) / wide) * (to - from));
  }

  hover(event) {
    const box = this.scene.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let best = 14;
    this.over = null;
    for (const one of this.drawn) {
      const far = Math.hypot(one.at - px, one.y - py);
      if (far < best) [best, this.over] = [far, one.packet];
    }
    this.tell(true);
  }

  // Describes the packet below the pointer, or the receiver.
  tell(atOnce) {
    const time = performance.now();
    if (!this.state || (!atOnce && this.playing && time - this.told < 250)) return;
    this.told = time;
    const { over } = this;
    if (over) {
      const name = this.setup.paths[over.path].name;
      const end = over.arrived === null ? FATES[over.fate] : `arrives at ${over.arrived.toFixed(4)} s, after ${digits(1000 * (over.arrived - over.left))} ms`;
      this.words.textContent = `${name}, bytes ${grouped(over.data)} to ${grouped(over.data + over.bytes)}: ${KINDS[over.kind]}. Left at ${over.left.toFixed(4)} s; ${end}.`;
      return;
    }
    const { held, awaited, lost } = this.state;
    if (held <= 0) this.words.textContent = "The receiver has all data in order. Point at a packet to see what it carries.";
    else if (awaited) {
      const name = this.setup.paths[awaited.path].name;
      this.words.textContent = `The receiver holds ${digits(held / 1000)} kB and waits for the head of line, which is on its way over ${name}.`;
    } else this.words.textContent = `The receiver holds ${digits(held / 1000)} kB and waits for data that ${lost ? "was lost" : "has not been sent"}.`;
  }
}

// Draws a lost packet.
function cross(pen, x, y, size) {
  const half = size / 2 + 1;
  pen.strokeStyle = paint("--freeze");
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x - half, y - half); pen.lineTo(x + half, y + half);
  pen.moveTo(x + half, y - half); pen.lineTo(x - half, y + half);
  pen.stroke();
}
