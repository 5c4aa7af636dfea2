// The documents of an index: a list to search, sort, filter and page through. Kept in the address.

import { call } from "./api.js";
import { announce, el, foreign, icon } from "./dom.js";
import { confirmed } from "./dialogs.js";
import { factFields, factsOf, withFact } from "./filters.js";
import { documentPath, trouble } from "./parts.js";
import { go, link } from "./route.js";
import { languageName, number, t } from "./strings.js";

const PAGE = 50;
const SORTS = ["id", "title", "passages", "modified", "size"];

export class Catalog {
  constructor(page) {
    this.page = page;
    this.params = new URLSearchParams();
    this.words = el("input", {
      id: "find",
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: t("find_hint"),
    });
    this.sort = el(
      "select",
      { id: "sort", onchange: () => this.put("sort", this.sort.value) },
      ...SORTS.map((one) => el("option", { value: one }, t(`sort_${one}`))),
    );
    this.lists = el("div", { class: "fact-fields" });
    this.rows = el("div", { id: "catalog" });
    const find = (event) => {
      event.preventDefault();
      this.put("words", this.words.value.trim());
    };
    this.shown = el(
      "section",
      { class: "catalog", "aria-labelledby": "find-title" },
      el("h2", { id: "find-title" }, t("find")),
      el(
        "form",
        { role: "search", class: "joined", onsubmit: find },
        el("label", { for: "find", class: "unseen" }, t("find")),
        this.words,
        el("button", { class: "second" }, icon("search"), t("find")),
      ),
      this.lists,
      el("div", { class: "sort" }, el("label", { for: "sort" }, t("sort")), this.sort),
      this.rows,
    );
  }

  async show(params) {
    this.params = params;
    this.words.value = params.get("words") ?? "";
    this.sort.value = SORTS.includes(params.get("sort")) ? params.get("sort") : SORTS[0];
    const index = this.page.index.name;
    const first = Math.max(0, Number.parseInt(params.get("first") ?? "0", 10) || 0);
    const query = new URLSearchParams({ index, words: this.words.value, sort: this.sort.value, most: PAGE, first });
    for (const fact of params.getAll("where")) query.append("where", fact);
    const signal = this.page.start();
    this.rows.setAttribute("aria-busy", "true");
    try {
      const [facts, found] = await Promise.all([factsOf(index), call(`v1/documents?${query}`, { signal })]);
      const choose = (name, value) => this.move(withFact(this.params, name, value));
      this.lists.replaceChildren(...factFields(facts, params, choose, "only"));
      this.rows.replaceChildren(...this.table(found, first));
      this.rows.removeAttribute("aria-busy");
    } catch (error) {
      if (error.name !== "AbortError") this.rows.replaceChildren(trouble(error, () => this.show(this.params)));
    }
  }

  table({ total, documents }, first) {
    if (!documents.length) return [el("p", { class: "empty" }, t("listed_none"))];
    const names = ["title", "passages", "language", "modified", "size"];
    const head = names.map((name) => el("th", { scope: "col", class: name }, t(`column_${name}`)));
    const { writable } = this.page.index;
    if (writable) head.push(el("th", {}, el("span", { class: "unseen" }, t("remove_yes"))));
    const body = documents.map((one) => this.row(one, writable));
    const values = { first: first + 1, last: first + documents.length, total };
    return [
      el(
        "div",
        { class: "card scroll" },
        el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)),
      ),
      el(
        "div",
        { class: "actions pages" },
        el("span", { class: "quiet" }, t("listed", values)),
        first > 0 && this.turn("earlier", Math.max(0, first - PAGE)),
        values.last < total && this.turn("later", first + PAGE),
      ),
    ];
  }

  turn(name, first) {
    return el("button", { type: "button", class: "second small", onclick: () => this.put("first", first) }, t(name));
  }

  row(one, writable) {
    const title = one.title || one.id;
    const href = link("document", { index: this.page.index.name, id: one.id });
    const label = t("remove_one", { title });
    return el(
      "tr",
      {},
      el(
        "th",
        { scope: "row" },
        el("a", { href }, foreign(title)),
        title !== one.id && foreign(one.id, "span", { class: "path" }),
      ),
      el("td", { class: "passages" }, number(one.passages)),
      el("td", { class: "language" }, one.language && languageName(one.language)),
      el("td", { class: "modified" }, one.modified),
      el("td", { class: "size" }, t("kilobytes", { n: Math.ceil(one.size / 1000) })),
      writable &&
        el(
          "td",
          {},
          el(
            "button",
            { type: "button", class: "plain icon", "aria-label": label, title: label, onclick: () => this.remove(one) },
            icon("trash"),
          ),
        ),
    );
  }

  async remove(one) {
    const title = one.title || one.id;
    if (!(await confirmed(t("remove_title"), t("remove_text", { title }), t("remove_yes")))) return;
    try {
      await call(documentPath("documents", one.id, this.page.index.name), { method: "DELETE" });
      await this.page.refresh();
      announce(t("removed"));
      this.move(this.params);
    } catch (error) {
      this.rows.prepend(trouble(error));
    }
  }

  /** Another choice; it begins on the first page. */
  put(name, value) {
    const params = new URLSearchParams(this.params);
    params.delete("first");
    if (value) params.set(name, value);
    else params.delete(name);
    this.move(params);
  }

  move(params) {
    params.set("index", this.page.index.name);
    go(`#/documents?${params}`);
  }
}
