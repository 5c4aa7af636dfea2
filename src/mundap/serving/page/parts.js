// Pieces that several views show.

import { el, foreign, icon, svg } from "./dom.js";
import { link } from "./route.js";
import { known, number, t } from "./strings.js";

const DOTS = 10;

/** Below this an answer is a possibility. */
export const LIKELY = 0.5;

/** How sure an answer is, in words: the figure alone invites too much trust. */
export function sureness(value) {
  if (value >= 0.75) return t("sure_high");
  if (value >= LIKELY) return t("sure_good");
  return value >= 0.2 ? t("sure_fair") : t("sure_low");
}

/** Confidence as ten short strokes, words and a figure. */
export function confidence(value) {
  const percent = Math.round(100 * value);
  const strokes = Array.from({ length: DOTS }, (_, n) =>
    svg("rect", {
      x: n * 9,
      y: 0,
      width: 6,
      height: 12,
      rx: 2,
      class: n < Math.max(1, Math.round(DOTS * value)) ? "on" : "off",
    }),
  );
  return el(
    "div",
    { class: "confidence" },
    el(
      "span",
      {
        role: "meter",
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-valuenow": percent,
        "aria-label": t("confidence", { words: sureness(value), n: percent }),
      },
      svg("svg", { width: 87, height: 12, viewBox: "0 0 87 12", "aria-hidden": "true" }, ...strokes),
    ),
    el("span", { "aria-hidden": "true" }, `${sureness(value)} `, el("b", {}, t("percent", { n: percent }))),
  );
}

/** What went wrong and what to do about it. */
export function trouble(failure, retry) {
  const status = failure.status ?? -1;
  const title = known(`trouble_${status}`) ? t(`trouble_${status}`) : t("trouble");
  const advice = known(`trouble_${status}_text`) ? t(`trouble_${status}_text`, { n: Number(failure.wait) || 5 }) : "";
  if (status === -1) console.error(failure); // a fault of this page
  return el(
    "section",
    { class: "notice bad", role: "alert" },
    icon("warn"),
    el(
      "div",
      {},
      el("h2", {}, title),
      advice && el("p", {}, advice),
      failure.message && foreign(failure.message, "p", { class: "detail" }),
      retry && el("button", { type: "button", class: "second", onclick: retry }, t("retry")),
    ),
  );
}

/** Something that is as it should be, but needs a word. */
export function notice(drawing, title, text, ...more) {
  return el(
    "section",
    { class: "notice" },
    icon(drawing),
    el("div", {}, el("h2", {}, title), el("p", {}, text), ...more),
  );
}

/** Grey shapes where text will be. */
export function waiting() {
  return el(
    "div",
    { class: "waiting", "aria-hidden": "true" },
    ...["wide", "", "", "short"].map((size) => el("i", { class: size })),
  );
}

/** Where the server has a document or passage. An id may have anything in it. */
export function documentPath(kind, id, index) {
  const climbs = /(^|\/)\.{1,2}(\/|$)/.test(id); // which the browser would take for a step up
  const name = climbs ? encodeURIComponent(id) : id.split("/").map(encodeURIComponent).join("/");
  return `v1/${kind}/${name}?index=${encodeURIComponent(index)}`;
}

/** The address of a document, at a place in it. */
export function documentLink(index, passage, start = passage.start, end = passage.end) {
  return link("document", { index, id: passage.document, start, end });
}

/** Where in a file something stands: `page 212` of the server, in the words of the page. */
export function placeName(place) {
  const [kind, n] = (place ?? "").split(" ");
  return known(`place_${kind}`) ? t(`place_${kind}`, { n: Number(n) }) : (place ?? "");
}

/** A source and the place in it. */
export function sourceLine(source, place) {
  return el("span", { class: "source-line" }, path(source), place && el("b", { class: "place" }, placeName(place)));
}

const ELSEWHERE = ["folder", "line", "page", "section"]; // shown as source, place and title

/** Facts of a document as buttons that filter by them. */
export function facts(metadata, pick) {
  const entries = Object.entries(metadata ?? {})
    .filter(([name]) => !ELSEWHERE.includes(name))
    .slice(0, 8);
  return entries.map(([name, value]) => {
    const fact = `${name}=${value}`;
    const label = known(`chip_${name}`) ? t(`chip_${name}`) : name;
    const shown = foreign(`${label}: ${value}`);
    return pick
      ? el(
          "button",
          { type: "button", class: "fact", title: t("only_these", { fact }), onclick: () => pick(fact) },
          shown,
        )
      : el("span", { class: "fact" }, shown);
  });
}

/** A path: its end is what tells, so a long one loses its beginning. */
export function path(text) {
  const parts = text.split("/");
  const short = text.length > 48 && parts.length > 3 ? `…/${parts.slice(-3).join("/")}` : text;
  return foreign(short, "span", { class: "path", title: text });
}

/** A score with as many digits as it needs. */
export const score = (value) => number(value, Math.abs(value) < 10 ? 2 : 1);

const TECHNICAL = { bm25: "BM25", dense: "dense" };

/** What a ranking is called, with the name by which experts know it. */
export function modeName(mode) {
  return TECHNICAL[mode] ? `${t(`mode_${mode}`)} (${TECHNICAL[mode]})` : t(`mode_${mode}`);
}

/** A progress bar with words. Without a total it only moves. */
export function progress(label) {
  const bar = el("progress", { "aria-label": label });
  const words = el("span", {}, label);
  const shown = el("div", { class: "progress" }, bar, words);
  return {
    shown,
    set(text, done, total) {
      words.textContent = text;
      if (total > 0) {
        bar.max = total;
        bar.value = Math.min(done, total);
      } else bar.removeAttribute("value");
    },
  };
}

/** The address of a passage in its document, where only the passage's id is known. */
export function passageLink(index, id) {
  return link("document", { index, passage: id });
}
