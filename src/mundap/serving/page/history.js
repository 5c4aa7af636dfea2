// Earlier questions: a list on the start page, and the same list under the question box.

import { announce, el, foreign, icon } from "./dom.js";
import { link } from "./route.js";
import { forget, history } from "./store.js";
import { t } from "./strings.js";

/** Earlier questions with these words in them; `changed` is called when one was deleted. */
export function historyList(words, changed) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const entries = history();
  const found = entries.filter(({ question }) => wanted.every((word) => question.toLowerCase().includes(word)));
  if (!found.length) return el("p", { class: "quiet" }, t(entries.length ? "history_match" : "history_empty"));
  const rows = found.map((entry) => {
    const remove = el(
      "button",
      {
        type: "button",
        class: "plain icon",
        "aria-label": t("forget_one", { question: entry.question }),
        onclick: () => {
          forget(entry);
          announce(t("forgotten"));
          changed();
        },
      },
      icon("close"),
    );
    return el(
      "li",
      {},
      el(
        "a",
        { href: link("ask", { q: entry.question, index: entry.index }) },
        foreign(entry.question, "span", { class: "asked" }),
        foreign(entry.answer || t("no_answer_short"), "span", { class: entry.answer ? "given" : "given none" }),
      ),
      remove,
    );
  });
  const all = el(
    "button",
    {
      type: "button",
      class: "plain",
      onclick: () => {
        forget(null);
        announce(t("forgotten"));
        changed();
      },
    },
    t("forget_all"),
  );
  return el("div", {}, el("ul", { class: "history" }, ...rows), el("div", { class: "actions end" }, all));
}

/** Arrow keys walk through the links of a list. */
export function walk(event, links) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !links.length || event.altKey || event.ctrlKey || event.metaKey) return false;
  const place = links.indexOf(document.activeElement);
  const next = place < 0 ? (step > 0 ? 0 : links.length - 1) : place + step;
  if (next < 0 || next >= links.length) return false;
  event.preventDefault();
  links[next].focus();
  return true;
}
