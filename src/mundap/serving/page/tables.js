// Rows of tables. The server has each as a line with the names of its columns (`Item: columns; Limit: 1,600`), which is
// what was searched and read; here they become a table again.

import { el } from "./dom.js";

const NAME = /^([^:;]{1,80}): /;

/** A table of lines, each given as [start, end] in the text. `words` makes nodes of a slice of the text. */
export function rowsTable(text, lines, words) {
  const rows = lines.map(([start, end]) => parts(text, start, end));
  const names = columns(rows);
  const cells = rows.map((row) => (names.length ? named(row, names) : pair(row)));
  const head = names.length > 0 && el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name))));
  const body = cells.map((row) => el("tr", {}, ...row.map((cell) => el("td", { dir: "auto" }, ...(cell ? words(...cell) : [])))));
  return el("div", { class: "scroll" }, el("table", { class: "rows" }, head, el("tbody", {}, ...body)));
}

/** What stands between semicolons: its name, if it has one, and where its value stands. */
function parts(text, start, end) {
  const found = [];
  let from = start;
  while (from < end) {
    const mark = text.indexOf("; ", from);
    const to = mark < 0 || mark >= end ? end : mark;
    const name = NAME.exec(text.slice(from, to));
    found.push({ name: name?.[1] ?? "", from, value: from + (name?.[0].length ?? 0), to });
    from = to + 2;
  }
  return found;
}

/** The names of the columns: those that most rows have. In a table without header words, names differ from row to row. */
function columns(rows) {
  const counts = new Map();
  for (const row of rows) {
    for (const name of new Set(row.map((part) => part.name))) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  counts.delete("");
  if (rows.length === 1) return rows[0].filter((part) => part.name).length > 1 ? [...counts.keys()] : [];
  const known = [...counts.keys()].filter((name) => counts.get(name) > 1);
  return known.length > 1 || rows.every((row) => row.some((part) => known.includes(part.name))) ? known : [];
}

/** The cells of a row by the names of their columns. A part without such a name belongs to the one before it. */
function named(row, names) {
  const cells = names.map(() => null);
  let column = -1;
  for (const part of row) {
    const at = names.indexOf(part.name);
    if (at >= 0 && !cells[at]) {
      column = at;
      cells[at] = [part.value, part.to];
    } else if (column >= 0) cells[column][1] = part.to;
    else {
      column = 0;
      cells[0] = [part.from, part.to];
    }
  }
  return cells;
}

/** The cells of a row without header words: a name and its value, or whatever there is. */
function pair(row) {
  if (row[0]?.name) return [[row[0].from, row[0].value - 2], [row[0].value, row.at(-1).to]];
  return row.map((part) => [part.from, part.to]);
}
