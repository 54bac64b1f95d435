// Draws a run as it is told by /events: tiles, a table of the paths, curves. Nothing is asked of anybody else.
"use strict";
(() => {
  const KEPT = 3000, MOST_POINTS = 500, SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const make = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const colour = (place) => `p${place % 8}`;
  const shown = (value, unit = "") => {
    if (value == null) return "–";
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return value.toFixed(Number.isInteger(value) ? 0 : digits) + unit;
  };
  const percent = (share) => (share == null ? "–" : `${(100 * share).toFixed(0)} %`);
  const nice = (least) => {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((f) => f * power).find((step) => step >= least * (1 - 1e-9));
  };

  let run = null, moments = [], over = null, ended = false, lost = false, due = false;

  // What a path has, for the table; then the curves, each with what it takes of a path or of a moment.
  const columns = [
    ["throughput, Mbit/s", (p) => shown(p.throughput_mbps)],
    ["share now", (p) => percent(p.share)],
    ["share so far", (p) => percent(p.share_so_far)],
    ["cwnd, segments", (p) => shown(p.cwnd_segments)],
    ["in flight, segments", (p) => shown(p.in_flight_segments)],
    ["srtt, ms", (p) => shown(p.srtt_ms)],
    ["queue, packets", (p) => shown(p.queue_packets)],
    ["queue, kB", (p) => shown(p.queue_bytes == null ? null : p.queue_bytes / 1000)],
  ];
  const total = (moment) => moment.paths.reduce((sum, p) => sum + (p.throughput_mbps || 0), 0);
  const kinds = [
    { id: "throughput", title: "Throughput", unit: "Mbit/s", of: (p) => p.throughput_mbps, whole: total },
    { id: "share", title: "Scheduler's share", unit: "of the bytes, %", stacked: true, of: (p) => (p.share == null ? null : 100 * p.share), top: 100 },
    { id: "cwnd", title: "Congestion window", unit: "segments", of: (p) => p.cwnd_segments },
    { id: "srtt", title: "Smoothed RTT", unit: "ms", of: (p) => p.srtt_ms },
    { id: "queue", title: "Queue", unit: "packets", of: (p) => p.queue_packets },
    { id: "buffer", title: "Player's buffer", unit: "s of film", player: true, area: true, name: "buffer", of: (v) => v.buffer_s },
    { id: "discards", title: "Pictures discarded", unit: "so far", player: true, name: "discards", least: 3, of: (v) => v.discards },
  ];

  // A panel as the report has them: a legend with what is now, an axis at the left, an axis below.
  const panels = kinds.map((kind) => {
    const panel = make("div", "panel"), head = make("header"), title = make("h3", "", `${kind.title} `);
    const legend = make("ul", "legend"), frame = make("div", "frame"), y = make("div", "y"), plot = make("div", "plot");
    const svg = document.createElementNS(SVG, "svg"), x = make("div", "x");
    panel.id = `panel-${kind.id}`;
    svg.setAttribute("preserveAspectRatio", "none");
    plot.setAttribute("role", "img"); plot.setAttribute("aria-label", `${kind.title}, ${kind.unit}`);
    title.append(make("small", "", kind.unit));
    head.append(title, legend); plot.append(svg, x); frame.append(y, plot); panel.append(head, frame);
    $("panels").append(panel);
    return { kind, panel, legend, y, plot, svg, x, values: [] };
  });

  // The head, the table's rows and the legends of a run, which stay while it runs.
  const begin = () => {
    $("name").textContent = run.scenario;
    document.title = `${run.scenario} · anabranch`;
    const who = (name) => (name === "kernel" ? "this host's kernel" : "our endpoint");
    $("lead").textContent = run.lead || `${who(run.server)} serves, ${who(run.client)} asks (${run.application})`;
    $("key").textContent = run.key || "Throughput and shares are of the bytes that came out of each path in the last second; the queue is that of its links towards the client.";
    const table = $("paths"), top = make("tr", "head");
    table.textContent = "";
    for (const name of ["path", ...columns.map((c) => c[0])]) top.append(make("th", "", name));
    table.append(top);
    run.paths.forEach((name, place) => {
      const row = make("tr"), first = make("td"), label = make("span");
      label.append(make("i", `swatch ${colour(place)}`), name);
      first.append(label); row.append(first);
      for (const [label] of columns) { const cell = make("td", "", "–"); cell.dataset.label = label; row.append(cell); }
      table.append(row);
    });
    for (const one of panels) {
      one.legend.textContent = ""; one.values = [];
      const entry = (mark, name) => {
        const item = make("li"), value = make("b");
        item.append(make("i", mark), name, value); one.legend.append(item); one.values.push(value);
      };
      if (one.kind.player) entry(one.kind.area ? "stroke buffer" : "stroke discards", one.kind.name);
      else run.paths.forEach((name, place) => entry(`${one.kind.stacked ? "swatch" : "stroke"} ${colour(place)}`, name));
      if (one.kind.whole && run.paths.length > 1) entry("stroke whole", "together");
    }
  };

  const tiles = (last) => {
    const player = last.player, entries = [["throughput", shown(total(last)), "Mbit/s"]];
    if (last.connections != null) entries.push(["connections", shown(last.connections), ""]);
    if (last.bytes_read != null) entries.push(["read by the client", shown(last.bytes_read / 1e6), "MB"]);
    if (player) {
      entries.push(["player's buffer", shown(player.buffer_s), "s"], ["film shown", shown(player.position_s), "s"]);
      if (player.discards != null) entries.push(["pictures discarded", shown(player.discards), ""]);
      entries.push(["buffer underflows", shown(player.underflows), ""]);
    }
    $("tiles").textContent = "";
    for (const [name, value, unit] of entries) {
      const bad = (name === "pictures discarded" || name === "buffer underflows") && +value > 0;
      const tile = make("div", bad ? "tile bad" : "tile"), number = make("b", "", value);
      if (unit) number.append(make("small", "", ` ${unit}`));
      tile.append(make("span", "", name), number);
      $("tiles").append(tile);
    }
  };

  const state = (last) => {
    const t = last ? last.t_s : 0, at = `${t.toFixed(1)} s`, expected = run && run.expected_s;
    let kind = "waiting", words = "Waiting for the run.";
    if (over === "done") [kind, words] = ["finished", `The run is over: ${at}.`];
    else if (over === "failed") [kind, words] = ["failed", `The run ended before its time, at ${at}; the terminal says why.`];
    else if (ended) [kind, words] = ["failed", `The program has ended at ${at}.`];
    else if (lost) [kind, words] = ["lost", `Nothing is heard of the program; this was ${at} into the run.`];
    else if (last) [kind, words] = ["running", expected > t ? `Running: ${at} of about ${expected.toFixed(0)} s.` : `Running: ${at}.`];
    else if (run) words = "The run is being set up.";
    if (over === "done" && ended) words += " The program has ended too; this page is what is left.";
    $("state").className = `state ${kind}`;
    if ($("state").textContent !== words) $("state").textContent = words;
    $("done").value = over === "done" ? 1 : expected ? Math.min(t / expected, 1) : 0;
  };

  // Curves break where a value is missing; of too many points every n-th is drawn.
  const curves = (take) => {
    const step = Math.max(1, Math.ceil(moments.length / MOST_POINTS)), parts = [[]];
    moments.forEach((moment, place) => {
      if (place % step && place !== moments.length - 1) return;
      const value = take(moment);
      if (value != null) parts[parts.length - 1].push([moment.t_s, value]);
      else if (parts[parts.length - 1].length) parts.push([]);
    });
    return parts.filter((part) => part.length);
  };
  const shape = (svg, tag, kind, points) => {
    const made = document.createElementNS(SVG, tag);
    made.setAttribute("class", kind);
    made.setAttribute("points", points.map(([t, v]) => `${t.toFixed(2)},${v.toFixed(3)}`).join(" "));
    svg.append(made);
  };

  const draw = (one, from, to) => {
    const { kind, svg } = one, last = moments[moments.length - 1];
    // A gateway does not see the queues of its paths.
    const held = kind.player ? last.player && kind.of(last.player) != null : kind.id !== "queue" || last.paths.some((p) => kind.of(p) != null);
    one.panel.hidden = !held;
    if (!held) return;
    const known = run.paths.map((_, place) => (moment) => kind.of(moment.paths[place]));
    const takes = kind.player ? [(moment) => moment.player && kind.of(moment.player)] : known;
    if (kind.whole && run.paths.length > 1) takes.push(kind.whole);
    let most = kind.top || 0;
    if (!kind.top) for (const moment of moments) for (const take of takes) most = Math.max(most, take(moment) || 0);
    most = Math.max(most, kind.least || 1e-3);
    const step = nice(most / 3), top = kind.top || Math.ceil(most / step - 1e-9) * step;
    svg.setAttribute("viewBox", `${from} 0 ${to - from} ${top}`);
    svg.textContent = ""; one.y.textContent = "";
    for (let v = 0; v <= top + 1e-9; v += kind.top ? top / 4 : step) {
      const word = make("span", "", step < 1 && !kind.top ? v.toFixed(Math.ceil(-Math.log10(step) - 1e-9)) : v.toFixed(0));
      word.style.bottom = `${(100 * v) / top}%`;
      one.y.append(word);
      shape(svg, "polyline", "grid", [[from, top - v], [to, top - v]]);
    }
    takes.forEach((take, place) => {
      const name = kind.player ? kind.name : place < run.paths.length ? colour(place) : "whole";
      if (kind.stacked) {
        // What lies below: the paths before. Without bytes there are no shares.
        const below = (moment) => known.slice(0, place).reduce((sum, of) => sum + (of(moment) || 0), 0);
        const upper = curves((m) => (take(m) == null ? null : below(m) + take(m)));
        const lower = curves((m) => (take(m) == null ? null : below(m)));
        upper.forEach((part, n) => shape(svg, "polygon", `share ${name}`,
          [...part, ...lower[n].slice().reverse()].map(([t, v]) => [t, top - v])));
      } else {
        for (const part of curves(take)) {
          const points = part.map(([t, v]) => [t, top - v]);
          if (kind.area) shape(svg, "polygon", "area", [[points[0][0], top], ...points, [points[points.length - 1][0], top]]);
          else shape(svg, "polyline", `line ${name}`, points);
        }
      }
      const value = take(last);
      one.values[place].textContent = kind.stacked ? percent(value == null ? null : value / 100) : shown(value);
    });
    const tick = nice((to - from) / 8);
    one.x.textContent = "";
    for (let n = Math.ceil(from / tick - 1e-9); n * tick <= to + 1e-9; n++) {
      const mark = make("i"), word = make("span", "", `${+(n * tick).toFixed(1)} s`);
      mark.style.left = `${(100 * (n * tick - from)) / (to - from)}%`;
      mark.append(word); one.x.append(mark);
    }
  };

  const render = () => {
    due = false;
    const last = moments[moments.length - 1];
    state(last);
    $("drawn").hidden = !last;
    if (!last) return;
    tiles(last);
    [...$("paths").rows].slice(1).forEach((row, place) => columns.forEach(([, of], n) => { row.cells[n + 1].textContent = of(last.paths[place]); }));
    const from = moments.length < KEPT ? 0 : moments[0].t_s, expected = run.expected_s || 0;
    const to = Math.max(last.t_s, from + 1, !over && expected - from <= 300 ? expected : 0);
    for (const one of panels) draw(one, from, to);
  };
  const soon = () => { if (!due) { due = true; setTimeout(render, 0); } };

  const source = new EventSource("events");
  source.onmessage = (event) => {
    const told = JSON.parse(event.data);
    if (told.run && (!run || told.run.number !== run.number)) { run = told.run; moments = []; begin(); }
    moments.push(...told.moments);
    if (moments.length > KEPT) moments = moments.slice(-KEPT);
    over = told.over; ended = told.ended; lost = false;
    if (ended) source.close();
    soon();
  };
  // The browser asks again by itself.
  source.onerror = () => { lost = true; soon(); };
  render();
})();
