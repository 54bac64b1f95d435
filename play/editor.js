// A scheduler written in the page: an editor with line numbers, and its errors.

import { el } from "./dom.js";
import * as link from "./link.js";
import { verdict } from "./series.js";

const EXAMPLES = {
  "Smallest round trip": `// Sends on the subflow with the smallest round trip that has space in its window.
export function schedule(request, subflows) {
  const free = candidates(subflows).filter((one) => one.can_send);
  free.sort((one, other) => one.srtt_ms - other.srtt_ms);
  return free[0] ?? null;
}
`,
  "Subflows in turn": `// Sends a piece on each subflow in turn.
let last = -1;
export function schedule(request, subflows) {
  const free = candidates(subflows).filter((one) => one.can_send);
  const next = free.find((one) => one.id > last) ?? free[0];
  if (next) last = next.id;
  return next ?? null;
}
`,
  "First path only": `// Uses the first subflow, and another one only if the first is lost.
export function schedule(request, subflows) {
  const [first] = candidates(subflows).filter((one) => one.established && !one.stale);
  return first?.can_send ? first : null;
}
`,
};

export class View {
  constructor(node, page) {
    Object.assign(this, { node, page });
    this.text = el("textarea", {
      class: "code", id: "editor-code", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      "aria-label": "The scheduler, in JavaScript", rows: 14,
      oninput: () => this.number(), onscroll: () => { this.gutter.scrollTop = this.text.scrollTop; },
      onkeydown: (event) => this.key(event),
    });
    this.gutter = el("pre", { class: "code gutterlines", "aria-hidden": "true" });
    this.said = el("p", { class: "said", role: "status", id: "editor-said" });
    const examples = el("select", { "aria-label": "Examples", onchange: (event) => {
      if (event.target.value) this.set(EXAMPLES[event.target.value]);
    } }, el("option", { value: "" }, "Examples"), ...Object.keys(EXAMPLES).map((name) => el("option", {}, name)));
    this.back = el("button", { type: "button", class: "act quiet", id: "editor-back", onclick: () => this.leave() }, "Use the menu's scheduler");
    node.replaceChildren(el("div", { class: "card" },
      el("div", { class: "player" }, el("button", { type: "button", class: "act", id: "editor-run", onclick: () => this.run() }, "Run"),
        this.back, examples),
      el("div", { class: "editor" }, this.gutter, this.text), this.said,
      el("p", { class: "help" }, "Ctrl-Enter runs. Tab indents; Escape, then Tab leaves the editor. "
        + "The function is called until it returns null. It returns a subflow, its id, or several.")), inputs());
    this.set(page.code ? link.unpacked(page.code) : EXAMPLES["Smallest round trip"]);
  }

  opened() {
    if (this.page.code && this.page.asked) {
      this.set(link.unpacked(this.page.code));
      this.tell("This program came with the link. Read it before you run it.");
    }
    this.back.hidden = !this.page.code;
    this.number();
  }

  set(text) {
    this.text.value = text;
    this.number();
  }

  number() {
    const count = this.text.value.split("\n").length;
    this.gutter.replaceChildren(...Array.from({ length: count }, (_, n) =>
      el("span", { class: n + 1 === this.wrong ? "wrong" : null }, `${n + 1}\n`)));
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(); return; }
    if (event.key === "Escape") { this.leaving = true; return; }
    if (event.key === "Tab" && !event.shiftKey && !this.leaving) {
      event.preventDefault();
      this.text.setRangeText("  ", this.text.selectionStart, this.text.selectionEnd, "end");
      this.number();
    }
    this.leaving = false;
  }

  run() {
    this.wrong = null;
    this.number();
    this.tell("Running…");
    this.page.code = link.packed(this.text.value);
    this.page.asked = false;
    this.back.hidden = false;
    this.page.change(this.page.setup, false);
  }

  leave() {
    this.page.code = "";
    this.page.asked = false;
    this.back.hidden = true;
    this.tell("");
    this.page.change(this.page.setup, false);
  }

  show(setup, result) {
    if (!this.page.code) return;
    this.wrong = null;
    this.number();
    this.tell(`${verdict(result.metrics, setup.application.kind).text} The view “Compare” shows it beside other schedulers.`);
  }

  fault(error) {
    if (!this.page.code || this.page.asked) return;
    this.wrong = error.line;
    this.number();
    this.tell(`${error.line ? `Line ${error.line}: ` : ""}${error.message}`, true);
  }

  tell(text, bad = false) {
    this.said.textContent = text;
    this.said.classList.toggle("bad", bad);
  }
}

// The values that a scheduler gets most use of.
function inputs() {
  const rows = [
    ["one.id", "the number of the subflow"], ["one.srtt_ms", "smoothed round trip, ms"],
    ["one.can_send", "space in the window now"], ["one.can_queue", "space in the send buffer"],
    ["one.cwnd_segments", "congestion window"], ["one.in_flight_segments", "segments on their way"],
    ["one.backup", "only to be used if no other works"], ["one.stale", "no answer for long"],
    ["request.now_ms", "the time, ms"], ["request.unscheduled_bytes", "bytes that wait for a decision"],
    ["request.window_left_bytes", "what the receiver still has room for"],
    ["new Send(one, { burst_bytes })", "send so many bytes before the next question"],
    ["new Wait({ until_ms })", "wait, and be asked again then"],
  ];
  return el("details", { class: "card" }, el("summary", {}, "What a scheduler gets and may return"),
    el("table", { class: "words" }, ...rows.map(([name, text]) => el("tr", {}, el("td", {}, el("code", {}, name)), el("td", {}, text)))));
}
