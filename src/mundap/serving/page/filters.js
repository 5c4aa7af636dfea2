// What a search is limited to: patterns for the source, facts of the document. Kept in the address.

import { call } from "./api.js";
import { el, foreign, icon } from "./dom.js";
import { modeName } from "./parts.js";
import { known, languageName, number, t } from "./strings.js";

const FIRST = ["language", "type", "folder", "modified"]; // facts that every index may have; its own come after them

/** Filters of an address, as the server takes them; undefined if there are none. */
export function filtersOf(params) {
  const sources = params.getAll("source");
  const pairs = params
    .getAll("where")
    .map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)]);
  const where = Object.fromEntries(pairs.filter(([name]) => name));
  if (!sources.length && !pairs.length) return undefined;
  return { ...(sources.length ? { sources } : {}), ...(pairs.length ? { where } : {}) };
}

/** The facts of an index with their values and how many passages have each. */
export async function factsOf(index) {
  return (await call(`v1/facts?index=${encodeURIComponent(index)}`)).facts;
}

/** Lists to choose facts from. `choose(name, value)` is called with what is wanted, or "" for any. */
export function factFields(facts, params, choose, prefix) {
  const chosen = filtersOf(params)?.where ?? {};
  const names = [...FIRST, ...Object.keys(facts).filter((name) => !FIRST.includes(name))];
  return names.filter((name) => facts[name]).map((name) => {
    const options = Object.entries(facts[name]).map(([value, n]) => {
      const label = `${shortened(name, value)} (${number(n)})`;
      return el("option", { value, selected: chosen[name] === value, title: value }, label);
    });
    const id = `${prefix}-${name}`;
    const select = el(
      "select",
      { id, onchange: () => choose(name, select.value) },
      el("option", { value: "" }, t("fact_any")),
      ...options,
    );
    return el("div", {}, el("label", { for: id }, known(`fact_${name}`) ? t(`fact_${name}`) : name), select);
  });
}

function shortened(name, value) {
  if (name === "language") return languageName(value);
  const parts = value.split("/");
  return name === "folder" && parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : value;
}

/** The parameters with another value for a fact. */
export function withFact(params, name, value) {
  const changed = new URLSearchParams(params);
  const others = params.getAll("where").filter((text) => !text.startsWith(`${name}=`));
  changed.delete("where");
  for (const text of others) changed.append("where", text);
  if (value) changed.append("where", `${name}=${value}`);
  return changed;
}

/** The panel. `change(params)` is called with the parameters as they should be. */
export class Filters {
  constructor(page, change) {
    this.page = page;
    this.change = change;
    this.params = new URLSearchParams();
    this.panel = el("div", { class: "filters", id: "filters", hidden: true });
    this.button = el(
      "button",
      {
        type: "button",
        class: "plain small",
        "aria-expanded": "false",
        "aria-controls": "filters",
        onclick: () => this.toggle(),
      },
      icon("filter"),
      el("span", {}, t("filters")),
    );
    this.chips = el("div", { class: "chips" });
    this.lists = el("div", { class: "fact-fields" });
    this.panel.append(this.lists, this.sourceField(), this.modeField(page.index.modes));
  }

  toggle(open = this.panel.hidden) {
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) this.list();
  }

  /** The lists of facts; they are asked for when somebody wants to see them. */
  async list() {
    const { name, generation } = this.page.index;
    const key = `${name} ${generation}`;
    try {
      if (this.key !== key) this.facts = await factsOf(name);
      this.key = key;
    } catch {
      this.facts = {}; // the other filters work without
    }
    const choose = (fact, value) => this.change(withFact(this.params, fact, value));
    this.lists.replaceChildren(...factFields(this.facts, this.params, choose, "filter"));
  }

  sourceField() {
    const input = el("input", {
      id: "filter-source",
      type: "text",
      placeholder: t("source_hint"),
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": "filter-source-help",
    });
    const add = (event) => {
      event.preventDefault();
      const text = input.value.trim();
      input.value = "";
      if (text) this.add("source", text);
    };
    return el(
      "form",
      { onsubmit: add },
      el("label", { for: "filter-source" }, t("source_label")),
      el("div", { class: "joined" }, input, el("button", { class: "second" }, t("add"))),
      el("small", { id: "filter-source-help" }, t("source_help")),
    );
  }

  modeField(modes) {
    this.mode = el(
      "select",
      { id: "filter-mode", onchange: () => this.put("mode", this.mode.value) },
      el("option", { value: "" }, t("mode_default")),
      ...modes.map((one) => el("option", { value: one }, modeName(one))),
    );
    return el("div", {}, el("label", { for: "filter-mode" }, t("mode_label")), this.mode);
  }

  /** Show what the address says. */
  show(params) {
    this.params = params;
    if (!this.panel.hidden) this.list();
    this.mode.value = params.get("mode") ?? "";
    const listed = ["source", "where"].flatMap((name) => params.getAll(name).map((text) => [name, text]));
    const active = listed.length + (params.get("mode") ? 1 : 0);
    this.button.lastChild.textContent = active ? `${t("filters")} · ${number(active)}` : t("filters");
    this.button.setAttribute("aria-label", active ? t("filters_on", { n: active }) : t("filters"));
    const chips = listed.map(([name, text]) =>
      el(
        "span",
        { class: "chip" },
        foreign(text),
        el(
          "button",
          {
            type: "button",
            "aria-label": t("remove_filter", { filter: text }),
            onclick: () => this.remove(name, text),
          },
          icon("close"),
        ),
      ),
    );
    if (listed.length > 1)
      chips.push(
        el("button", { type: "button", class: "plain small", onclick: () => this.clear() }, t("clear_filters")),
      );
    this.chips.replaceChildren(...chips);
  }

  add(name, text) {
    if (!this.params.getAll(name).includes(text)) this.edit((params) => params.append(name, text));
  }

  remove(name, text) {
    this.edit((params) => params.delete(name, text));
  }

  clear() {
    this.edit((params) => {
      params.delete("source");
      params.delete("where");
    });
  }

  put(name, value) {
    this.edit((params) => (value ? params.set(name, value) : params.delete(name)));
  }

  edit(work) {
    const params = new URLSearchParams(this.params);
    work(params);
    this.change(params);
  }
}
