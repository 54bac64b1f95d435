// Small helpers for elements, numbers and words.

export const $ = (id) => document.getElementById(id);

// Returns a new element with attributes, and children that are elements or texts.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Returns a number with commas between thousands. The browser's own formats take far longer to make.
export function grouped(value) {
  const [whole, part] = String(value).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
}

// Returns a number with about three digits.
export function digits(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const places = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2;
  return grouped(Number(value.toFixed(places)));
}

export const seconds = (value) => (value === null || value === undefined ? "–" : `${digits(value)} s`);

const colours = new Map();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.clear());

// Returns the value of a colour of the style sheet, for a canvas. The values are kept, because to read one may cost a layout.
export function paint(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

let timer = null;

// Shows a short message for 2.5 s.
export function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { $("toast").hidden = true; }, 2500);
}

// Returns a function of which several calls in one turn of the page are one.
export function once(run) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; run(); }, 0);
  };
}

// Puts a text on the clipboard; without permission it is shown for copying by hand.
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied: ${what}`);
  } catch {
    window.prompt(`Copy the ${what}:`, text);
  }
}
