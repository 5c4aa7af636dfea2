// The rankings: one at a time, or side by side, and why each found what it found.

import { el, foreign } from "./dom.js";
import { documentLink, facts, modeName, score, sourceLine } from "./parts.js";
import { t } from "./strings.js";
import { excerpt, marked } from "./text.js";

export const COMPARE = "compare";
const LONG = 280; // characters of a passage that are cut off side by side

/** The tabs an index offers. */
export function tabsOf(modes) {
  const order = ["hybrid", "bm25", "dense"].filter((one) => modes.includes(one));
  return order.length > 1 ? [...order, COMPARE] : order;
}

/** Tabs with the chosen ranking below. `choose(tab)` is called when another is wanted. */
export function rankings(ranked, chosen, choose, index, pick) {
  const tabs = tabsOf(Object.keys(ranked.modes));
  const buttons = tabs.map((tab) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${tab}`,
        "aria-controls": "ranking",
        "aria-selected": String(tab === chosen),
        tabindex: tab === chosen ? 0 : -1,
        onclick: () => choose(tab),
      },
      t(`mode_${tab}`),
    ),
  );
  const list = el(
    "div",
    {
      role: "tablist",
      class: "tabs",
      "aria-label": t("rankings"),
      onkeydown: (event) => turn(event, tabs, chosen, choose),
    },
    ...buttons,
  );
  const body = chosen === COMPARE ? sideBySide(ranked, tabs, index) : single(ranked, chosen, index, pick);
  return el(
    "section",
    { class: "rankings", "aria-labelledby": "passages-title" },
    el("div", { class: "rankings-head" }, el("h2", { id: "passages-title" }, t("passages")), list),
    el(
      "div",
      { role: "tabpanel", id: "ranking", "aria-labelledby": `tab-${chosen}` },
      el("p", { class: "quiet about" }, t(`about_${chosen}`)),
      body,
    ),
  );
}

function turn(event, tabs, chosen, choose) {
  const place = tabs.indexOf(chosen);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (next === undefined || !tabs[next]) return;
  event.preventDefault();
  choose(tabs[next]);
}

function nothing(mode) {
  return el("p", { class: "empty" }, t(mode === "bm25" ? "nothing_bm25" : "nothing_any"));
}

function single(ranked, mode, index, pick) {
  const rows = ranked.modes[mode];
  if (!rows.length) return nothing(mode);
  return el(
    "ol",
    { class: "hits" },
    ...rows.map((row) =>
      el(
        "li",
        { class: "card hit" },
        head(row, index),
        ...body(row),
        el("p", { class: "why" }, why(row, mode, ranked)),
        el(
          "div",
          { class: "foot-line" },
          scores(row, mode, ranked),
          el("span", { class: "facts" }, ...facts(row.passage.metadata, pick)),
        ),
      ),
    ),
  );
}

function head(row, index, small = false) {
  const { passage } = row;
  const title = passage.title ? marked(passage.title, row.words.title, "word") : [passage.document];
  return el(
    "div",
    { class: "hit-head" },
    el("span", { class: "rank", "aria-hidden": "true" }, String(row.rank)),
    el(
      "h3",
      {},
      el("a", { class: "hit-open", href: documentLink(index, passage) }, el("bdi", { dir: "auto" }, ...title)),
    ),
    !small && sourceLine(passage.source, passage.place),
  );
}

/** A sentence: what this ranking saw in the passage. */
function why(row, mode, ranked) {
  const shared = row.shared.length
    ? t("words_shared", { n: row.shared.length, total: ranked.terms, words: row.shared.slice(0, 8).join(", ") })
    : t("words_none");
  if (mode === "bm25") return foreign(shared);
  const near = row.scores.dense === null ? "" : t("near", { score: score(row.scores.dense) });
  if (mode === "dense") return foreign([near, shared].filter(Boolean).join(" · "));
  const place = (one) => (row.places[one] ? t("place", { n: row.places[one] }) : t("beyond", { n: ranked.depth }));
  return foreign(`${t("joined", { words: place("bm25"), meaning: place("dense") })} · ${shared}`);
}

function scores(row, mode, ranked) {
  const modes = Object.keys(ranked.modes);
  return el(
    "span",
    { class: "scores" },
    ...modes.map((one) => {
      const [place, value] = [row.places[one], row.scores[one]];
      const label = place
        ? t("score_of", { mode: t(`mode_${one}`), place, score: score(value) })
        : t("score_beyond", { mode: t(`mode_${one}`), n: ranked.depth });
      return el(
        "span",
        { class: `score ${one}${one === mode ? " own" : ""}`, title: label },
        el("span", { class: "unseen" }, label),
        el(
          "span",
          { "aria-hidden": "true" },
          `${t(`mode_${one}`)} `,
          el("b", {}, place ? t("place", { n: place }) : "–"),
          place ? ` ${score(value)}` : "",
        ),
      );
    }),
  );
}

function sideBySide(ranked, tabs, index) {
  const grid = el("div", { class: "columns", tabindex: 0, role: "group", "aria-label": t("mode_compare") });
  const light = (id) => {
    for (const card of grid.querySelectorAll(".hit"))
      card.classList.toggle("same", id !== null && card.dataset.passage === id);
  };
  for (const mode of ["bm25", "dense", "hybrid"].filter((one) => tabs.includes(one))) {
    const rows = ranked.modes[mode];
    const cards = rows.map((row) => {
      const id = row.passage.id;
      return el(
        "li",
        {
          class: "card hit small",
          "data-passage": id,
          onpointerenter: () => light(id),
          onpointerleave: () => light(null),
          onfocusin: () => light(id),
          onfocusout: () => light(null),
        },
        head(row, index, true),
        ...body(row),
        el("p", { class: "why" }, why(row, mode, ranked)),
        scores(row, mode, ranked),
      );
    });
    grid.append(
      el(
        "section",
        { class: `column ${mode}`, "aria-labelledby": `column-${mode}` },
        el("h3", { id: `column-${mode}`, class: "column-title" }, modeName(mode)),
        rows.length ? el("ol", { class: "hits" }, ...cards) : nothing(mode),
      ),
    );
  }
  return grid;
}

/** The text, and where there is little room (side by side, on a phone) only its beginning. */
function body(row) {
  const text = el("div", { class: "text clamped", dir: "auto" }, ...excerpt(row.passage, row.words.text, "word"));
  return row.passage.text.length > LONG ? [text, more(text)] : [text];
}

function more(text) {
  const button = el(
    "button",
    {
      type: "button",
      class: "plain small more",
      "aria-expanded": "false",
      onclick: () => {
        const open = text.classList.toggle("clamped") === false;
        button.textContent = t(open ? "show_less" : "show_all");
        button.setAttribute("aria-expanded", String(open));
      },
    },
    t("show_all"),
  );
  return button;
}
