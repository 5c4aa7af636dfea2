// The answer with its source, or the honest absence of one.

import { announce, el, foreign, icon } from "./dom.js";
import { LIKELY, confidence, documentLink, facts, sourceLine, sureness } from "./parts.js";
import { number, t } from "./strings.js";
import { excerpt } from "./text.js";

/** What came of a question. `close` is how many passages are shown below. */
export function answerCard(asked, index, close, pick) {
  return asked.answers.length ? found(asked.answers, index, pick) : none(asked, index, close, pick);
}

/** The same in one sentence, for those who listen. */
export function spoken(asked, close) {
  const best = asked?.answers[0];
  if (!best) return t("said_none", { n: close });
  const values = { answer: best.text, words: sureness(best.confidence), n: Math.round(100 * best.confidence) };
  const title = best.passage.title || best.passage.document;
  return t(best.confidence < LIKELY ? "said_possible" : "said_answer", { ...values, title });
}

function found(answers, index, pick) {
  const card = el("section", { class: "card answer", "aria-labelledby": "answer-text" });
  const show = (chosen) => {
    const others = answers.filter((one) => one !== chosen);
    const possible = chosen.confidence < LIKELY;
    card.classList.toggle("possible", possible);
    card.replaceChildren(
      el(
        "div",
        { class: "answer-head" },
        el("p", { class: "eyebrow" }, t(possible ? "possible_answer" : "answer")),
        foreign(chosen.text, "h2", { id: "answer-text", tabindex: -1, class: chosen.text.length > 60 ? "long" : null }),
        confidence(chosen.confidence),
        chosen.support > 1 && el("p", { class: "quiet" }, t("support", { n: chosen.support })),
      ),
      source(chosen, index, pick),
      others.length
        ? el(
            "div",
            { class: "others" },
            el("p", { class: "eyebrow" }, t("other_answers")),
            ...others.map((one) =>
              el(
                "button",
                {
                  type: "button",
                  class: "other",
                  onclick: () => {
                    show(one);
                    card.querySelector("h2").focus();
                    announce(spoken({ answers: [one] }, 0));
                  },
                },
                foreign(one.text),
                el("span", { class: "quiet" }, t("percent", { n: Math.round(100 * one.confidence) })),
              ),
            ),
          )
        : "",
    );
  };
  show(answers[0]);
  return card;
}

function source(answer, index, pick) {
  const { passage } = answer;
  const span = [[answer.start - passage.start, answer.end - passage.start]];
  const open = documentLink(index, passage, answer.start, answer.end);
  return el(
    "figure",
    { class: "source" },
    el("blockquote", { dir: "auto" }, ...excerpt(passage, span, "span")),
    el(
      "figcaption",
      {},
      el(
        "div",
        { class: "from" },
        el("a", { class: "hit-open", href: open }, foreign(passage.title || passage.document)),
        sourceLine(passage.source, answer.place),
        el("span", { class: "facts" }, ...facts(passage.metadata, pick)),
      ),
      el(
        "div",
        { class: "actions" },
        el("a", { class: "button second", href: open, id: "open-document" }, icon("file"), t("open_document")),
        el(
          "button",
          { type: "button", class: "plain", onclick: (event) => copy(answer, event.currentTarget) },
          icon("copy"),
          t("copy"),
        ),
      ),
    ),
  );
}

async function copy(answer, button) {
  const { passage } = answer;
  let text = t("copied");
  try {
    await navigator.clipboard.writeText(`${answer.text}\n\n${passage.text}\n\n${passage.title} (${passage.source})`);
  } catch {
    text = t("copy_failed"); // no clipboard without TLS, except on this computer
  }
  announce(text);
  button.lastChild.replaceWith(text);
  setTimeout(() => button.lastChild.replaceWith(t("copy")), 2000);
}

function none(asked, index, close, pick) {
  const text = asked.note ? t("note_script") : close ? t("no_answer_text") : t("no_answer_none");
  const { guess } = asked;
  return el(
    "section",
    { class: "card answer none", "aria-labelledby": "answer-text" },
    el("div", { class: "answer-head" }, el("h2", { id: "answer-text" }, t("no_answer")), el("p", {}, text)),
    guess &&
      el(
        "details",
        { class: "guess" },
        el(
          "summary",
          {},
          el("span", {}, foreign(t("guess", { answer: guess.text }))),
          el("span", { class: "quiet" }, t("guess_note", { n: number(100 * guess.confidence) })),
        ),
        source(guess, index, pick),
      ),
  );
}
