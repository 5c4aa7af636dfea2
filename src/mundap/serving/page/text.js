// Offsets of the server count code points (as Python does); strings here count UTF-16 units. An emoji is one of the
// former and two of the latter.

import { el } from "./dom.js";

/** Where code point offsets, in rising order, lie in a string. */
export function units(text, points) {
  const found = [];
  let point = 0;
  let unit = 0;
  for (const wanted of points) {
    while (point < wanted && unit < text.length) {
      unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
      point += 1;
    }
    found.push(unit);
  }
  return found;
}

/** A text as nodes, with the spans ([start, end] in code points, apart and in order) in <mark>s of a class. */
export function marked(text, spans, kind) {
  const places = units(text, spans.flat());
  const nodes = [];
  let end = 0;
  for (let n = 0; n < places.length; n += 2) {
    const [from, to] = [places[n], places[n + 1]];
    if (from > end) nodes.push(...paragraphs(text.slice(end, from)));
    if (to > from) nodes.push(el("mark", { class: kind }, text.slice(from, to)));
    end = Math.max(end, to);
  }
  if (end < text.length) nodes.push(...paragraphs(text.slice(end)));
  return nodes;
}

/** Blank lines become a gap of half a line: passages are short, and many stand below each other. */
function paragraphs(text) {
  return text.split(/(\s*\n\s*\n\s*)/).map((part, n) => (n % 2 ? el("span", { class: "gap" }, part) : part));
}

/** A passage: a slice of a document, with dots where it was cut off. */
export function excerpt(passage, spans, kind) {
  const dots = () => el("span", { class: "cut", "aria-hidden": "true" }, "…");
  const whole = /[.!?。！？…:"'”’)\]»]\s*$/u.test(passage.text);
  return [passage.start > 0 && dots(), ...marked(passage.text, spans, kind), !whole && dots()];
}
