// What the index holds, and adding to it.

import { call, stream } from "./api.js";
import { Catalog } from "./catalog.js";
import { announce, el, foreign, icon } from "./dom.js";
import { notice, path, progress } from "./parts.js";
import { link } from "./route.js";
import { languageName, number, t } from "./strings.js";

const ROWS = /\.(jsonl?|ndjson|[ct]sv)$/i;

export class DocumentsView {
  constructor(page) {
    this.page = page;
    this.queue = Promise.resolve();
    this.shown = el("div", { class: "documents-view" });
    this.title = t("documents_title");
    this.list = el("ul", { class: "uploads", "aria-label": t("upload_title") });
    this.catalog = new Catalog(page);
    this.skipped = el("div", {});
  }

  show(params) {
    const { index } = this.page;
    this.params = params ?? this.params;
    this.shown.replaceChildren(
      el("h1", {}, t("documents_title")),
      el("p", { class: "lead" }, t("documents_lead")),
      this.facts(index),
      index.writable ? this.target() : notice("file", t("read_only_title"), t("read_only_text")),
      this.list,
      this.catalog.shown,
      this.skipped,
    );
    this.catalog.show(this.params);
    this.tellSkipped(index.name);
  }

  /** What could not be read, and why. */
  async tellSkipped(index) {
    const { total, skipped } = await call(`v1/skipped?most=200&index=${encodeURIComponent(index)}`).catch(() => ({}));
    const rows = (skipped ?? []).map((one) =>
      el("li", {}, path(one.source), foreign(one.reason, "span", { class: "quiet" })),
    );
    const told = total && el(
      "details",
      { class: "card skipped" },
      el("summary", {}, icon("warn"), t("skipped_files", { n: total })),
      el("ul", {}, ...rows),
    );
    this.skipped.replaceChildren(...(told ? [told] : []));
  }

  facts(index) {
    const listed = [
      ["fact_documents", number(index.documents)],
      ["fact_passages", number(index.passages)],
      ["fact_rankings", index.modes.map((one) => t(`mode_${one}`)).join(", ")],
      ["fact_languages", index.languages.map(languageName).join(", ") || t("fact_none")],
      ["fact_generation", number(index.generation)],
    ];
    return el(
      "dl",
      { class: "figures" },
      ...listed.map(([name, value]) => el("div", {}, el("dt", {}, t(name)), el("dd", {}, value))),
    );
  }

  target() {
    const input = el("input", {
      id: "files",
      type: "file",
      multiple: true,
      class: "unseen",
      onchange: () => {
        this.add(input.files);
        input.value = "";
      },
    });
    return el(
      "section",
      { class: "target" },
      icon("upload"),
      el("h2", {}, t("upload_title")),
      el("p", { class: "quiet" }, t("upload_text")),
      input,
      el("label", { for: "files", class: "button first" }, t("upload_choose")),
    );
  }

  /** Files one after another: an index has one writer. */
  add(files) {
    const index = this.page.index.name; // another may be chosen before it is a file's turn
    for (const file of files) {
      const bar = progress(t("stage_waiting"));
      const row = el("li", { class: "card" }, icon("file"), el("div", {}, foreign(file.name, "b"), bar.shown));
      this.list.prepend(row);
      this.queue = this.queue.then(() => this.send(file, row, bar, index));
    }
  }

  async send(file, row, bar, index) {
    const form = new FormData();
    form.append("files", file, file.name);
    let last = {};
    try {
      bar.set(t("stage_sending"), 0, 1);
      await stream(
        `v1/documents?index=${encodeURIComponent(index)}`,
        form,
        (line) => {
          last = line;
          bar.set(t("stage_working"), line.done ?? 0, line.total ?? 0);
        },
        {
          sent: (share) =>
            bar.set(share < 1 ? t("stage_sending") : t("stage_working"), share < 1 ? share : 0, share < 1 ? 1 : 0),
        },
      );
      await this.page.refresh();
      this.finished(row, file, last, index);
    } catch (error) {
      this.failed(row, file, error.message || t(error.status === 0 ? "trouble_0" : "trouble"));
    }
  }

  finished(row, file, last, index) {
    const [skipped] = last.skipped ?? [];
    const why = skipped && `${t("stage_skipped")}: ${skipped.reason}`;
    if (skipped && !last.added) return this.failed(row, file, why);
    const whole = !ROWS.test(file.name); // of a file of rows, each row is a document
    const open = whole && el("a", { href: link("document", { index, id: file.name }) }, t("open_document"));
    row.replaceChildren(
      icon("check"),
      el(
        "div",
        {},
        foreign(file.name, "b"),
        el(
          "p",
          { class: "quiet" },
          last.added === 0 ? t("stage_unchanged") : `${t("stage_done")}: ${t("size_passages", { n: last.added ?? 0 })}`,
        ),
        why && foreign(why, "p", { class: "bad-text" }),
        open,
      ),
    );
    row.classList.add("good");
    announce(`${file.name}: ${t("stage_done")}`);
    if (this.shown.isConnected) this.show();
    return null;
  }

  failed(row, file, reason) {
    row.replaceChildren(
      icon("warn"),
      el("div", {}, foreign(file.name, "b"), foreign(`${t("stage_failed")}. ${reason}`, "p", { class: "bad-text" })),
    );
    row.classList.add("bad");
    announce(`${file.name}: ${t("stage_failed")}`);
  }

  key() {}

  escape() {}
}

/** Files may be dropped anywhere on the page; `take(files)` gets them. Only while `allowed()`. */
export function dropping(allowed, take) {
  const veil = document.getElementById("drop");
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault(); // the browser would open the file instead of this page
    event.dataTransfer.dropEffect = allowed() ? "copy" : "none";
    veil.hidden = !allowed();
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) veil.hidden = true;
  });
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    veil.hidden = true;
    if (allowed()) take(event.dataTransfer.files);
  });
}
