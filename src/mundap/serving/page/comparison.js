// The outcome of a comparison.

import { el, foreign, svg } from "./dom.js";
import { passageLink } from "./parts.js";
import { link } from "./route.js";
import { number, t } from "./strings.js";

const SURE = 0.05;
const PORTION = 20; // cases shown at a time
const TEXT = 240;

/** Everything about two systems. `found.names` are what people call them. */
export function comparison(found, index) {
  const [first, second] = found.names;
  const rows = Object.entries(found.figures);
  return el(
    "section",
    { class: "comparison", "aria-labelledby": "comparison-title" },
    el("h2", { id: "comparison-title" }, foreign(first), el("span", { class: "quiet" }, " → "), foreign(second)),
    el("p", { class: "verdict" }, verdict(found)),
    el(
      "div",
      { class: "card scroll", tabindex: 0, role: "group", "aria-label": t("accuracy") },
      table(rows, first, second),
    ),
    agreement(found, first, second),
    found.notes?.length
      ? el(
          "details",
          { class: "notes" },
          el("summary", {}, t("notes")),
          el("ul", {}, ...found.notes.map((one) => foreign(one, "li"))),
        )
      : "",
    cases(found, index),
  );
}

function verdict(found) {
  const at = found.figures[`top-${found.k}`];
  const values = {
    first: found.names[0],
    second: found.names[1],
    difference: number(Math.abs(at.difference), 1),
    k: found.k,
    p: at.p < 0.001 ? `p ${chance(at.p)}` : `p = ${chance(at.p)}`,
  };
  const key = at.p >= SURE ? "verdict_same" : at.difference > 0 ? "verdict_better" : "verdict_worse";
  return foreign(`${t("asked_n", { n: found.questions })}. ${t(key, values)}`);
}

const chance = (p) => (p < 0.001 ? `< ${number(0.001, 3)}` : number(p, 3));
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : "±"}${number(Math.abs(value), 1)}`;

function table(rows, first, second) {
  const reach = Math.max(1, ...rows.flatMap(([, one]) => one.interval_95.map(Math.abs)));
  const head = [t("figure"), first, second, t("difference"), t("interval"), t("chance"), ""];
  return el(
    "table",
    {},
    el("caption", {}, t("accuracy")),
    el("thead", {}, el("tr", {}, ...head.map((one) => el("th", { scope: "col" }, foreign(one))))),
    el(
      "tbody",
      {},
      ...rows.map(([name, one]) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, name),
          el("td", {}, number(one.first, 1)),
          el("td", {}, number(one.second, 1)),
          el("td", { class: "strong" }, signed(one.difference)),
          el(
            "td",
            { class: "interval" },
            whisker(one, reach),
            el("span", {}, `${signed(one.interval_95[0])} … ${signed(one.interval_95[1])}`),
          ),
          el("td", {}, chance(one.p)),
          el(
            "td",
            {},
            el("span", { class: one.p < SURE ? "badge sure" : "badge" }, t(one.p < SURE ? "sure_yes" : "sure_no")),
          ),
        ),
      ),
    ),
  );
}

/** The interval as a line with a dot, zero in the middle. */
function whisker(one, reach) {
  const place = (value) => 60 + (56 * value) / reach;
  const [low, high] = one.interval_95;
  return svg(
    "svg",
    {
      width: 120,
      height: 16,
      viewBox: "0 0 120 16",
      "aria-hidden": "true",
      class: one.p < SURE ? "whisker sure" : "whisker",
    },
    svg("line", { x1: 60, x2: 60, y1: 1, y2: 15, class: "zero" }),
    svg("line", { x1: place(low), x2: place(high), y1: 8, y2: 8, class: "reach" }),
    svg("circle", { cx: place(one.difference), cy: 8, r: 4 }),
  );
}

function agreement(found, first, second) {
  const parts = [
    ["both", t("both"), found.both],
    ["one", t("only", { name: first }), found.only_first],
    ["two", t("only", { name: second }), found.only_second],
    ["neither", t("neither"), found.neither],
  ];
  let at = 0;
  const bars = parts.map(([kind, , count]) => {
    const width = (100 * count) / Math.max(1, found.questions);
    at += width;
    return svg("rect", { x: at - width, y: 0, width, height: 10, class: kind });
  });
  return el(
    "figure",
    { class: "agreement" },
    el("figcaption", { class: "eyebrow" }, t("agreement", { k: found.k })),
    svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, ...bars),
    el(
      "ul",
      { class: "legend" },
      ...parts.map(([kind, label, count]) =>
        el("li", {}, el("i", { class: kind }), foreign(label), " ", el("b", {}, number(count))),
      ),
    ),
  );
}

function cases(found, index) {
  const sides = ["", ...found.systems];
  const label = (name) => (name ? found.names[found.systems.indexOf(name)] : t("all"));
  const list = el("ol", { class: "cases" });
  const rest = el("button", { type: "button", class: "second" });
  let side = "";
  let shown = PORTION;
  const matching = () => found.changed.filter((one) => !side || one.found_by === side);
  const fill = () => {
    const all = matching();
    list.replaceChildren(...all.slice(0, shown).map((one) => oneCase(one, label, index)));
    rest.hidden = all.length <= shown;
    rest.textContent = t("more_cases", { n: all.length - shown });
    for (const button of buttons.children) button.setAttribute("aria-pressed", String(button.dataset.side === side));
  };
  const count = (name) => found.changed.filter((one) => !name || one.found_by === name).length;
  const buttons = el(
    "div",
    { class: "tabs", role: "group", "aria-label": t("changed") },
    ...sides.map((name) =>
      el(
        "button",
        {
          type: "button",
          "data-side": name,
          onclick: () => {
            side = name;
            shown = PORTION;
            fill();
          },
        },
        name ? foreign(t("only", { name: label(name) })) : t("all"),
        ` ${number(count(name))}`,
      ),
    ),
  );
  rest.addEventListener("click", () => {
    shown += PORTION;
    fill();
  });
  fill();
  if (!found.changed.length) return el("p", { class: "empty" }, t("changed_none", { k: found.k }));
  return el("section", {}, el("div", { class: "rankings-head" }, el("h2", {}, t("changed")), buttons), list, rest);
}

function oneCase(one, label, index) {
  const lost = one.other_rank
    ? t("missed_far", { name: label(one.missed_by), rank: one.other_rank })
    : t("missed", { name: label(one.missed_by) });
  return el(
    "li",
    { class: "card case" },
    el(
      "div",
      { class: "case-head" },
      foreign(one.question || one.id, "h3"),
      el("a", { href: link("ask", { q: one.question, index }) }, t("ask_this")),
    ),
    one.answers.length
      ? foreign(t("expected", { answers: one.answers.slice(0, 3).join("; ") }), "p", { class: "quiet" })
      : "",
    el(
      "div",
      { class: "pair" },
      side(t("found_at", { name: label(one.found_by), rank: one.rank }), one.passage, index, "good"),
      side(lost, one.instead, index, "", one.instead ? t("instead", { name: label(one.missed_by) }) : ""),
    ),
  );
}

function side(title, passage, index, kind, note = "") {
  const text = [...(passage?.text ?? "").replace(/\s+/g, " ")];
  return el(
    "div",
    { class: `side ${kind}` },
    foreign(title, "p", { class: "side-title" }),
    note && foreign(note, "p", { class: "quiet" }),
    passage && el("p", {}, el("a", { href: passageLink(index, passage.id) }, foreign(passage.title || passage.id))),
    passage && foreign(text.slice(0, TEXT).join("") + (text.length > TEXT ? "…" : ""), "p", { class: "text" }),
  );
}
