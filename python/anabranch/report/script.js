// Values at the cursor, and a closer look at a part of the session. Without it the figure is whole.
"use strict";
(() => {
  const plots = document.querySelector(".plots");
  if (!plots) return;
  const until = +plots.dataset.until;
  const told = document.querySelector(".over output"), hint = told.textContent;
  const reset = document.querySelector(".over button");
  let from = 0, to = until, at = null;

  const nice = (least) => {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((f) => f * power).find((step) => step >= least * (1 - 1e-9));
  };
  const shown = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

  // A band's boxes are "Mx y h w ...": from and to are read back from the path.
  const boxes = (path) => [...path.getAttribute("d").matchAll(/M([\d.]+) [\d.]+h([\d.]+)/g)].map((m) => [+m[1], +m[1] + +m[2]]);
  const panels = [...plots.querySelectorAll(".panel")].map((panel) => {
    const plot = panel.querySelector(".plot"), cursor = document.createElement("div"), drag = document.createElement("div");
    cursor.className = "cursor"; drag.className = "drag";
    cursor.hidden = drag.hidden = true;
    plot.append(cursor, drag);
    plot.tabIndex = 0;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", panel.getAttribute("aria-label"));
    return {
      panel, plot, cursor, drag, svg: plot.querySelector("svg"), axis: plot.querySelector(".x"),
      curves: [...plot.querySelectorAll("polyline, polygon")].map((curve) => ({
        name: curve.dataset.name,
        points: curve.getAttribute("points").split(" ").filter(Boolean).map((pair) => pair.split(",").map(Number))
          .filter((_, place, all) => curve.tagName !== "polygon" || (place > 0 && place < all.length - 1)),
      })),
      bands: [...plot.querySelectorAll(".band")].map((band) => ({
        name: band.dataset.name, says: band.dataset.says || band.classList[1], boxes: boxes(band),
      })),
      marks: [...panel.querySelectorAll("[data-at]")],
    };
  });

  // The value of a curve at a moment, between the two points beside it; none before its begin and after its end.
  const value = (points, t) => {
    if (!points.length || t < points[0][0] || t > points[points.length - 1][0]) return null;
    let low = 0, high = points.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (points[middle][0] <= t) low = middle; else high = middle; }
    const [a, b] = [points[low], points[high]];
    return b[0] === a[0] ? b[1] : a[1] + ((b[1] - a[1]) * (t - a[0])) / (b[0] - a[0]);
  };

  const point = (t) => {
    at = t;
    const words = [];
    for (const one of panels) {
      one.cursor.hidden = t === null;
      if (t !== null) one.cursor.style.left = `${(100 * (t - from)) / (to - from)}%`;
      for (const entry of one.panel.querySelectorAll(".legend [data-of]")) {
        // Of a path that was joined several times, what carries now.
        const found = t === null ? null : one.curves.filter((curve) => curve.name === entry.dataset.of)
          .map((curve) => value(curve.points, t)).filter((v) => v !== null).pop();
        entry.querySelector("b").textContent = found == null ? "" : shown(found);
      }
      for (const band of t === null ? [] : one.bands)
        if (band.boxes.some(([a, b]) => t >= a && t < b)) words.push(band.name && band.name !== band.says ? `${band.name} ${band.says}` : band.says);
    }
    told.textContent = t === null ? hint : `${t.toFixed(to - from < 20 ? 2 : 1)} s  ${[...new Set(words)].slice(0, 4).join(" · ")}`;
  };

  const zoom = (a, b) => {
    from = Math.max(0, a); to = Math.min(until, b);
    if (to - from < 0.2) { to = Math.min(until, from + 0.2); from = Math.max(0, to - 0.2); }
    reset.hidden = from <= 0 && to >= until;
    const step = nice((to - from) / 8), decimals = step < 1 ? Math.ceil(-Math.log10(step) - 1e-9) : 0;
    for (const one of panels) {
      const box = one.svg.getAttribute("viewBox").split(" ");
      one.svg.setAttribute("viewBox", `${from} 0 ${to - from} ${box[3]}`);
      one.axis.textContent = "";
      for (let n = Math.ceil(from / step - 1e-9); n * step <= to + 1e-9; n++) {
        const tick = document.createElement("i"), word = document.createElement("span");
        tick.style.left = `${(100 * (n * step - from)) / (to - from)}%`;
        word.textContent = `${(n * step).toFixed(decimals)} s`;
        tick.append(word); one.axis.append(tick);
      }
      for (const mark of one.marks) {
        const t = +mark.dataset.at;
        mark.hidden = t < from || t > to;
        mark.style.left = `${(100 * (t - from)) / (to - from)}%`;
      }
    }
    point(at === null || at < from || at > to ? null : at);
  };

  for (const one of panels) {
    let begun = null;
    const time = (event) => {
      const box = one.svg.getBoundingClientRect();
      return from + (to - from) * Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    };
    one.plot.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      begun = time(event);
      one.plot.setPointerCapture(event.pointerId);
    });
    one.plot.addEventListener("pointermove", (event) => {
      const t = time(event);
      point(t);
      if (begun === null) return;
      one.drag.hidden = false;
      one.drag.style.left = `${(100 * (Math.min(begun, t) - from)) / (to - from)}%`;
      one.drag.style.width = `${(100 * Math.abs(t - begun)) / (to - from)}%`;
    });
    one.plot.addEventListener("pointerup", (event) => {
      const t = time(event), a = begun;
      begun = null; one.drag.hidden = true;
      if (a !== null && Math.abs(t - a) > (to - from) / 50) zoom(Math.min(a, t), Math.max(a, t)); else point(t);
    });
    one.plot.addEventListener("pointercancel", () => { begun = null; one.drag.hidden = true; });
    one.plot.addEventListener("pointerleave", () => { if (begun === null) point(null); });
    one.plot.addEventListener("dblclick", () => zoom(0, until));
    one.plot.addEventListener("blur", () => point(null));
    one.plot.addEventListener("keydown", (event) => {
      const wide = to - from, here = at === null ? from + wide / 2 : at;
      if (event.key === "ArrowLeft") point(Math.max(from, here - wide / 100));
      else if (event.key === "ArrowRight") point(Math.min(to, here + wide / 100));
      else if (event.key === "+") zoom(here - wide / 4, here + wide / 4);
      else if (event.key === "-") zoom(here - wide, here + wide);
      else if (event.key === "Escape") { point(null); zoom(0, until); }
      else return;
      event.preventDefault();
    });
  }
  reset.addEventListener("click", () => zoom(0, until));
})();
