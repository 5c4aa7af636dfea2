// A whole document, opened at the place it was found for.

import { call } from "./api.js";
import { announce, el, foreign, icon } from "./dom.js";
import { confirmed } from "./dialogs.js";
import { facts, notice, trouble, waiting } from "./parts.js";
import { go, link } from "./route.js";
import { t } from "./strings.js";
import { units } from "./text.js";

const BLOCK = 4000; // characters laid out at a time: long documents stay quick

export class DocumentView {
  constructor(page) {
    this.page = page;
    this.shown = el("article", { class: "document-view" });
    this.title = t("document");
  }

  async show(params) {
    const signal = this.page.start();
    this.title = params.get("id") ?? t("document");
    this.shown.replaceChildren(this.back(), waiting());
    try {
      const at = params.has("passage") ? await call(this.path("passages", params.get("passage")), { signal }) : null;
      const found = await call(this.path("documents", at?.document ?? params.get("id") ?? ""), { signal });
      this.draw(found, at?.start ?? Number(params.get("start") ?? NaN), at?.end ?? Number(params.get("end") ?? NaN));
    } catch (error) {
      if (error.name === "AbortError") return;
      const gone = error.status === 404;
      this.shown.replaceChildren(
        this.back(),
        gone ? notice("file", t("trouble_404"), t("document_gone")) : trouble(error, () => this.show(params)),
      );
    }
  }

  /** An id may have anything in it. Its slashes may stay, unless the browser would take .. for a step up. */
  path(kind, id) {
    const climbs = /(^|\/)\.{1,2}(\/|$)/.test(id);
    const name = climbs ? encodeURIComponent(id) : id.split("/").map(encodeURIComponent).join("/");
    return `v1/${kind}/${name}?index=${encodeURIComponent(this.page.index.name)}`;
  }

  back() {
    const address = this.page.asked;
    return el("a", { class: "back", href: address ?? "#/" }, icon("back"), t(address ? "back" : "back_start"));
  }

  draw(found, start, end) {
    this.title = found.title || found.id;
    document.title = `${this.title} · mundap`;
    const count = t("passage_count", { n: found.passages.length });
    const remove =
      this.page.index.writable &&
      el(
        "button",
        { type: "button", class: "plain danger-text", onclick: () => this.remove(found) },
        icon("trash"),
        t("remove"),
      );
    this.shown.replaceChildren(
      el("div", { class: "document-top" }, this.back(), remove || ""),
      el(
        "header",
        {},
        foreign(this.title, "h1"),
        el(
          "p",
          { class: "quiet" },
          foreign(found.source, "span", { class: "path" }),
          el("span", { class: "facts" }, el("span", {}, count), ...facts(found.metadata)),
        ),
      ),
      el("div", { class: "document-text", dir: "auto" }, ...blocks(found.text, start, end)),
    );
    const mark = this.shown.querySelector("mark");
    if (mark) {
      mark.tabIndex = -1;
      mark.focus({ preventScroll: true });
      settle(mark, 4);
    } else scrollTo(0, 0);
    announce(this.title);
  }

  async remove(found) {
    if (!(await confirmed(t("remove_title"), t("remove_text", { title: this.title }), t("remove_yes")))) return;
    try {
      await call(this.path("documents", found.id), { method: "DELETE" });
      await this.page.refresh();
      announce(t("removed"));
      go(link("documents"));
    } catch (error) {
      this.shown.prepend(trouble(error));
    }
  }

  key() {}

  escape() {
    go(this.page.asked ?? "#/");
  }
}

/** Scroll there, and again: what comes into sight on the way turns out to be higher or lower than was thought. */
function settle(mark, times) {
  mark.scrollIntoView({ block: "center", behavior: "instant" });
  if (times) requestAnimationFrame(() => settle(mark, times - 1));
}

/** The text in blocks that break at line ends, the span marked (in every block it reaches into). */
function blocks(text, start, end) {
  const [from, to] = end > start ? units(text, [start, end]) : [0, 0];
  const made = [];
  let begin = 0;
  while (begin < text.length) {
    const line = text.indexOf("\n", begin + BLOCK);
    const stop = line < 0 ? text.length : line + 1;
    const [left, right] = [Math.max(begin, from), Math.min(stop, to)];
    const inside =
      right > left
        ? [text.slice(begin, left), el("mark", { class: "span" }, text.slice(left, right)), text.slice(right, stop)]
        : [text.slice(begin, stop)];
    made.push(el("div", { class: "block" }, ...inside));
    begin = stop;
  }
  return made;
}
