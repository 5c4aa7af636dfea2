// Offsets of the server count code points (as Python does); strings here count UTF-16 units. An emoji is one of the
// former and two of the latter.

import { el } from "./dom.js";
import { rowsTable } from "./tables.js";

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
  return slice(text, 0, text.length, pairs(text, spans), kind);
}

/** Spans in code points as spans in a string. */
function pairs(text, spans) {
  const places = units(text, spans.flat());
  return spans.map((_, n) => [places[2 * n], places[2 * n + 1]]);
}

/** A slice of a text as nodes. */
function slice(text, start, end, spans, kind) {
  const nodes = [];
  let done = start;
  for (const [first, last] of spans) {
    const [from, to] = [Math.max(first, done), Math.min(last, end)];
    if (to <= from) continue;
    if (from > done) nodes.push(...paragraphs(text.slice(done, from)));
    nodes.push(el("mark", { class: kind }, text.slice(from, to)));
    done = to;
  }
  if (end > done) nodes.push(...paragraphs(text.slice(done, end)));
  return nodes;
}

/** Blank lines become a gap of half a line: passages are short, and many stand below each other. */
function paragraphs(text) {
  return text.split(/(\s*\n\s*\n\s*)/).map((part, n) => (n % 2 ? el("span", { class: "gap" }, part) : part));
}

/** A passage: a slice of a document, with dots where it was cut off, and rows of tables as tables. */
export function excerpt(passage, spans, kind) {
  const dots = () => el("span", { class: "cut", "aria-hidden": "true" }, "…");
  const { text, rows = [] } = passage;
  const tables = together(text, pairs(text, rows));
  const inTable = tables.at(-1)?.at(-1)[1] === text.length;
  const whole = inTable || /[.!?。！？…:"'”’)\]»]\s*$/u.test(text);
  const marks = pairs(text, spans);
  const words = (from, to) => slice(text, from, to, marks, kind);
  const nodes = [];
  let done = 0;
  for (const lines of tables) {
    nodes.push(...words(done, lines[0][0]), rowsTable(text, lines, words));
    done = lines.at(-1)[1];
  }
  nodes.push(...words(done, text.length));
  return [passage.start > 0 && !(tables.length && rows[0][0] === 0) && dots(), ...nodes, !whole && dots()];
}

/** Rows that follow each other line by line are one table. */
function together(text, rows) {
  const tables = [];
  let end = -1;
  for (const row of rows) {
    if (end >= 0 && text.slice(end, row[0]) === "\n") tables.at(-1).push(row);
    else tables.push([row]);
    end = row[1];
  }
  return tables;
}
