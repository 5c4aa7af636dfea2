// A whole document, opened at the place it was found for.

import { call } from "./api.js";
import { announce, el, foreign, icon } from "./dom.js";
import { confirmed } from "./dialogs.js";
import { documentPath, facts, notice, placeName, trouble, waiting } from "./parts.js";
import { go, link } from "./route.js";
import { t } from "./strings.js";
import { units } from "./text.js";

const MOST = 500; // passages that are listed
const EXCERPT = 100; // characters of each
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

  path(kind, id) {
    return documentPath(kind, id, this.page.index.name);
  }

  back() {
    const address = this.page.asked;
    return el("a", { class: "back", href: address ?? "#/" }, icon("back"), t(address ? "back" : "back_start"));
  }

  draw(found, start, end) {
    this.title = found.title || found.id;
    document.title = `${this.title} · mundap`;
    const remove =
      this.page.index.writable &&
      el(
        "button",
        { type: "button", class: "plain danger-text", onclick: () => this.remove(found) },
        icon("trash"),
        t("remove"),
      );
    const again =
      this.page.index.writable &&
      !found.source.startsWith("upload:") &&
      el("button", { type: "button", class: "plain", onclick: () => this.again(found) }, icon("file"), t("read_again"));
    this.shown.replaceChildren(
      el(
        "div",
        { class: "document-top" },
        this.back(),
        el("div", { class: "actions" }, again, remove),
      ),
      el(
        "header",
        {},
        foreign(this.title, "h1"),
        el(
          "p",
          { class: "quiet" },
          foreign(found.source, "span", { class: "path" }),
          el("span", { class: "facts" }, ...facts(found.metadata)),
        ),
      ),
      this.passages(found),
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

  /** Where its passages are, as links into the text. */
  passages(found) {
    const list = el("ol");
    const fill = () => {
      const points = [...found.text];
      const rows = found.passages.slice(0, MOST).map(({ start, end, place, section }) => {
        const about = [placeName(place), section].filter(Boolean).join(" · ");
        const href = link("document", { index: this.page.index.name, id: found.id, start, end });
        const dots = end - start > EXCERPT ? " …" : "";
        const text = points.slice(start, Math.min(end, start + EXCERPT)).join("") + dots;
        return el(
          "li",
          {},
          el("a", { href }, foreign(text)),
          about && foreign(about, "span", { class: "quiet" }),
        );
      });
      list.replaceChildren(...rows);
    };
    const count = t("passage_count", { n: found.passages.length });
    return el(
      "details",
      { class: "passage-list", ontoggle: () => list.children.length || fill() },
      el("summary", {}, count),
      list,
    );
  }

  async again(found) {
    try {
      const report = await call(this.path("documents", found.id), { method: "POST" });
      await this.page.refresh();
      const changed = report.added || report.removed;
      await this.show(new URLSearchParams({ id: found.id }));
      this.shown.prepend(notice("check", t(changed ? "read_changed" : "read_same"), ""));
      announce(t(changed ? "read_changed" : "read_same"));
    } catch (error) {
      this.shown.prepend(trouble(error));
    }
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
