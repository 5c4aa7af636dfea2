// What a search is limited to: patterns for the source, facts of the document. Kept in the address.

import { el, foreign, icon } from "./dom.js";
import { modeName } from "./parts.js";
import { number, t } from "./strings.js";

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

/** The panel. `change(params)` is called with the parameters as they should be. */
export class Filters {
  constructor(modes, change) {
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
    this.panel.append(
      this.field("source", t("source_label"), t("source_hint"), t("source_help")),
      this.field("where", t("where_label"), t("where_hint"), t("where_help")),
      this.modeField(modes),
    );
  }

  toggle(open = this.panel.hidden) {
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) this.panel.querySelector("input").focus();
  }

  field(name, label, hint, help) {
    const input = el("input", {
      id: `filter-${name}`,
      type: "text",
      placeholder: hint,
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": `filter-${name}-help`,
    });
    const note = el("small", { id: `filter-${name}-help` }, help);
    const add = (event) => {
      event.preventDefault();
      const text = input.value.trim();
      const good = text && (name !== "where" || text.indexOf("=") > 0);
      note.textContent = text && !good ? t("where_bad") : help;
      note.classList.toggle("bad-text", Boolean(text) && !good);
      if (good) {
        input.value = "";
        this.add(name, text);
      }
    };
    return el(
      "form",
      { onsubmit: add },
      el("label", { for: `filter-${name}` }, label),
      el("div", { class: "joined" }, input, el("button", { class: "second" }, t("add"))),
      note,
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
