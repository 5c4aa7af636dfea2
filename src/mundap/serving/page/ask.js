// The view one comes for: a question, its answer, the passages.

import { answerCard, spoken } from "./answer.js";
import { call } from "./api.js";
import { announce, el, foreign, icon } from "./dom.js";
import { Filters, filtersOf } from "./filters.js";
import { historyList, walk } from "./history.js";
import { notice, trouble, waiting } from "./parts.js";
import { rankings, tabsOf } from "./rankings.js";
import { go, link } from "./route.js";
import { history, remember } from "./store.js";
import { t } from "./strings.js";

const PASSAGES = 10;
const ANSWERS = 3;

export class AskView {
  /** `page` knows the index in use and keeps what was found while one looks at documents. */
  constructor(page) {
    this.page = page;
    this.params = new URLSearchParams();
    this.filters = new Filters(page, (params) => this.move(params));
    this.box = el("input", {
      id: "question",
      type: "text",
      name: "q",
      autocomplete: "off",
      enterkeyhint: "search",
      "aria-label": t("question"),
      placeholder: t("question_hint"),
      oninput: () => this.popup.hidden || this.suggest(),
    });
    this.recent = el(
      "button",
      {
        type: "button",
        class: "plain icon",
        "aria-label": t("history"),
        title: t("history"),
        "aria-expanded": "false",
        "aria-controls": "popup",
        onclick: () => (this.popup.hidden ? this.suggest("") : this.hide()),
      },
      icon("clock"),
    );
    this.popup = el("div", { class: "popup card", id: "popup", hidden: true });
    this.form = el(
      "form",
      {
        class: "question",
        role: "search",
        onsubmit: (event) => this.submit(event),
        onkeydown: (event) => this.keys(event),
        onfocusout: (event) => this.form.contains(event.relatedTarget) || this.hide(),
      },
      el(
        "div",
        { class: "box" },
        icon("search"),
        this.box,
        this.recent,
        el("button", { class: "first", id: "ask" }, t("ask")),
      ),
      this.popup,
    );
    this.intro = el("div", { class: "intro" });
    this.results = el("div", { class: "results", id: "results" });
    this.shown = el(
      "div",
      { class: "ask-view" },
      this.intro,
      this.form,
      el("div", { class: "filter-line" }, this.filters.button, this.filters.chips),
      this.filters.panel,
      this.results,
    );
  }

  get title() {
    return this.params.get("q") ?? "";
  }

  show(params) {
    this.params = params;
    this.filters.show(params);
    this.hide();
    const question = params.get("q")?.trim() ?? "";
    this.box.value = question;
    this.shown.classList.toggle("start", !question);
    this.intro.replaceChildren(...(question ? [el("h1", { class: "unseen" }, t("title_ask"))] : this.welcome()));
    if (question) this.answer(question);
    else {
      this.page.stop();
      this.results.replaceChildren(this.beginning());
      this.box.focus({ preventScroll: true });
    }
  }

  welcome() {
    const { documents, passages } = this.page.index;
    return [
      el("h1", {}, t("title_ask")),
      el("p", { class: "lead" }, t("lead")),
      el("p", { class: "quiet" }, `${t("size_documents", { n: documents })} · ${t("size_passages", { n: passages })}`),
    ];
  }

  beginning() {
    if (!this.page.index.passages) {
      return notice(
        "file",
        t("empty_title"),
        t("empty_text"),
        el("a", { class: "button first", href: link("documents") }, t("upload_title")),
      );
    }
    return el("div", { class: "beginning" }, this.examples(), history().length ? this.recentQuestions() : this.tips());
  }

  /** Questions made from the index itself; nothing where there are none. */
  examples() {
    const list = el("section", { class: "examples", hidden: true });
    const { name, generation } = this.page.index;
    const key = `${name} ${generation}`;
    const fill = ({ questions }) => {
      const links = questions.map((q) => el("li", {}, el("a", { href: link("ask", { q, index: name }) }, foreign(q))));
      list.replaceChildren(el("h2", { class: "eyebrow" }, t("examples")), el("ul", {}, ...links));
      list.hidden = !links.length;
    };
    this.made ??= {};
    this.made[key] ??= call(`v1/examples?index=${encodeURIComponent(name)}`);
    this.made[key].then(fill, () => delete this.made[key]); // the page does without
    return list;
  }

  recentQuestions() {
    const list = el("section", { class: "recent" });
    const fill = () => list.replaceChildren(el("h2", { class: "eyebrow" }, t("recent")), historyList("", fill));
    fill();
    return list;
  }

  tips() {
    const tips = ["tip_ask", "tip_check", "tip_keys"];
    return el(
      "section",
      { class: "tips" },
      el("h2", { class: "eyebrow" }, t("tips")),
      el("ul", {}, ...tips.map((tip) => el("li", { class: tip === "tip_keys" ? "for-keys" : null }, t(tip)))),
    );
  }

  /** Ask and rank at the same time; what is there already is shown again. */
  async answer(question) {
    const filters = filtersOf(this.params);
    const mode = this.params.get("mode") || undefined;
    const { name: index, reader } = this.page.index;
    const key = JSON.stringify([index, question, filters, mode, this.page.index.generation]);
    const signal = this.page.start(); // whatever was asked before is not waited for any more
    if (this.page.kept.key !== key) {
      this.results.setAttribute("aria-busy", "true");
      this.results.replaceChildren(waiting());
      announce(t("loading"));
      try {
        const [asked, ranked] = await Promise.all([
          reader
            ? call("v1/ask", {
                method: "POST",
                body: { question, index, filters, mode, k: PASSAGES, n: ANSWERS },
                signal,
              })
            : null,
          call("v1/rankings", { method: "POST", body: { question, index, filters, k: PASSAGES }, signal }),
        ]);
        this.page.kept = { key, asked, ranked };
        remember({ question, index, answer: asked?.answers[0]?.text ?? "" });
        announce(spoken(asked, this.close(ranked)));
      } catch (error) {
        if (error.name !== "AbortError") {
          this.results.replaceChildren(trouble(error, () => this.answer(question)));
          this.results.removeAttribute("aria-busy");
        }
        return;
      }
    }
    this.results.removeAttribute("aria-busy");
    this.draw();
  }

  close(ranked) {
    return Math.max(...Object.values(ranked.modes).map((rows) => rows.length));
  }

  draw() {
    const { asked, ranked } = this.page.kept;
    const index = this.page.index.name;
    const tabs = tabsOf(Object.keys(ranked.modes));
    const wanted = this.params.get("tab");
    const tab = tabs.includes(wanted) ? wanted : tabs[0];
    const pick = (fact) => this.filters.add("where", fact);
    const old = this.results.querySelector(".answer");
    const same = old && this.drawn === asked; // another answer may have been chosen on it
    this.drawn = asked;
    const card = same
      ? old
      : asked
        ? answerCard(asked, index, this.close(ranked), pick)
        : notice("search", t("no_reader"), t("no_reader_text"));
    this.results.replaceChildren(
      card,
      rankings(ranked, tab, (next) => this.turn(next), index, pick),
    );
    this.results.classList.toggle("wide", tab === "compare");
  }

  /** Another tab: the address changes, but there is no step back for it. */
  turn(tab) {
    const params = new URLSearchParams(this.params);
    params.set("tab", tab);
    this.params = params;
    window.history.replaceState(null, "", `#/?${params}`);
    this.page.asked = location.hash;
    const held = document.activeElement?.role === "tab"; // drawing makes new ones
    this.draw();
    if (held) document.getElementById(`tab-${tab}`).focus();
  }

  submit(event) {
    event.preventDefault();
    const question = this.box.value.trim();
    if (!question) return this.box.focus();
    const params = new URLSearchParams(this.params);
    params.set("q", question);
    params.set("index", this.page.index.name);
    if (`#/?${params}` === location.hash) this.page.kept = {}; // asked again on purpose
    this.move(params);
    return this.box.select();
  }

  move(params) {
    go(params.size ? `#/?${params}` : "#/");
  }

  suggest(words = this.box.value) {
    this.popup.replaceChildren(
      el("h2", { class: "eyebrow" }, t("recent")),
      historyList(words, () => this.suggest(words)),
    );
    this.popup.hidden = false;
    this.recent.setAttribute("aria-expanded", "true");
  }

  hide() {
    if (this.popup.contains(document.activeElement)) this.box.focus({ preventScroll: true });
    this.popup.hidden = true;
    this.recent.setAttribute("aria-expanded", "false");
  }

  keys(event) {
    if (event.isComposing) return; // the arrows and Enter belong to whoever types Korean
    if (event.key === "Escape" && !this.popup.hidden) {
      this.hide();
      this.box.focus();
      event.stopPropagation();
      return;
    }
    if (event.key === "ArrowDown" && this.popup.hidden && document.activeElement === this.box) {
      this.suggest(this.box.value === (this.params.get("q") ?? "") ? "" : this.box.value);
    }
    const links = [...this.popup.querySelectorAll("a")];
    if (event.key === "ArrowUp" && document.activeElement === links[0]) {
      event.preventDefault();
      this.box.focus();
    } else if (!this.popup.hidden) walk(event, links);
  }

  /** Keys pressed outside of any field. */
  key(event) {
    const tabs = this.page.kept.ranked ? tabsOf(Object.keys(this.page.kept.ranked.modes)) : [];
    const tab = tabs[Number(event.key) - 1];
    if (tab && this.params.get("q")) this.turn(tab);
    else
      walk(
        event,
        [...this.results.querySelectorAll("a.hit-open")].filter((one) => one.checkVisibility()),
      );
  }

  /** Escape, when nothing is open that it would close. */
  escape() {
    if (!this.filters.panel.hidden) this.filters.toggle(false);
    else if (document.activeElement !== this.box) this.box.focus();
    else this.box.value = "";
  }
}
