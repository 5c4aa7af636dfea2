// The page itself: which index, which view, which language; keys; the token.

import { Failure, call, onToken } from "./api.js";
import { AskView } from "./ask.js";
import { askToken, showHelp } from "./dialogs.js";
import { DocumentView } from "./document.js";
import { DocumentsView, dropping } from "./documents.js";
import { el, icon } from "./dom.js";
import { EvaluateView } from "./evaluate.js";
import { trouble, waiting } from "./parts.js";
import { ReferenceView } from "./reference.js";
import { go, here, link } from "./route.js";
import { choice, choose } from "./store.js";
import { otherLanguage, t, useLanguage } from "./strings.js";

const VIEWS = {
  ask: AskView,
  document: DocumentView,
  documents: DocumentsView,
  evaluate: EvaluateView,
  reference: ReferenceView,
};
const byId = (name) => document.getElementById(name);

/** What the views share. */
const page = {
  indexes: [],
  index: null,
  views: {},
  kept: {}, // the last answer, so that coming back from a document asks nothing again
  asked: null, // where it was asked
  running: null,

  /** A signal for new work; what was going on before is given up. */
  start() {
    this.stop();
    this.running = new AbortController();
    return this.running.signal;
  },

  stop() {
    this.running?.abort();
    this.running = null;
  },

  /** Look again what the server has. */
  async refresh() {
    this.indexes = (await call("v1/indexes")).indexes;
    this.use(this.index?.name);
  },

  /** Work with the index of this name, or the first one. */
  use(name) {
    const found = this.indexes.find((one) => one.name === name) ?? this.indexes[0];
    if (found?.name !== this.index?.name) this.views = {};
    this.index = found;
    byId("picker").hidden = this.indexes.length < 2;
    byId("index").replaceChildren(
      ...this.indexes.map((one) => el("option", { selected: one.name === found.name }, one.name)),
    );
  },
};

function draw() {
  const { view, params } = here();
  if (params.has("index")) page.use(params.get("index"));
  if (view === "ask" && params.get("q")) page.asked = location.hash;
  if (page.index.error) {
    byId("main").replaceChildren(trouble(new Failure(503, page.index.error), begin));
    return;
  }
  const shown = (page.views[view] ??= new VIEWS[view](page));
  for (const one of byId("nav").children) {
    if (one.dataset.view === view) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (byId("main").firstChild !== shown.shown) {
    byId("main").replaceChildren(shown.shown);
    if (view !== "document") scrollTo(0, 0);
  }
  byId("main").dataset.view = view;
  shown.show(params);
  document.title = shown.title ? `${shown.title} · mundap` : "mundap";
}

/** Put the words of the language in place. */
function translate() {
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-t-label]"))
    node.setAttribute("aria-label", t(node.dataset.tLabel));
  for (const node of document.querySelectorAll("[data-t-title]")) node.title = t(node.dataset.tTitle);
  byId("language").textContent = otherLanguage() === "ko" ? "한국어" : "English";
  byId("language").lang = otherLanguage();
  byId("language").title = t("switch_language");
  const dark = document.documentElement.dataset.theme === "dark";
  byId("theme").replaceChildren(icon(dark ? "sun" : "moon"));
  byId("theme").setAttribute("aria-label", t(dark ? "to_light" : "to_dark"));
  byId("theme").title = t(dark ? "to_light" : "to_dark");
}

function keys(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  const view = page.views[here().view];
  if (event.key === "Escape") view?.escape();
  else if (typing) return;
  else if (event.key === "/") {
    event.preventDefault();
    if (here().view !== "ask") go(page.asked ?? "#/");
    setTimeout(() => {
      byId("question")?.focus();
      byId("question")?.select();
    });
  } else if (event.key === "?") showHelp();
  else view?.key(event);
}

function wire() {
  addEventListener("hashchange", () => page.index && draw());
  addEventListener("keydown", keys);
  byId("skip").addEventListener("click", () => byId("main").focus());
  byId("help-open").addEventListener("click", showHelp);
  byId("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    choose("theme", next);
    document.documentElement.dataset.theme = next;
    translate();
  });
  new MutationObserver(translate).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  byId("language").addEventListener("click", () => {
    choose("language", otherLanguage());
    useLanguage(otherLanguage());
    translate();
    page.views = {};
    if (page.index) draw();
    else begin();
  });
  byId("index").addEventListener("change", (event) => {
    const { view, params } = here();
    const next = { index: event.target.value, q: view === "ask" ? params.get("q") : null };
    go(link(view === "document" ? "ask" : view, next));
  });
  dropping(
    () => Boolean(page.index?.writable),
    (files) => {
      go(link("documents", { index: page.index.name }));
      setTimeout(() => page.views.documents.add(files));
    },
  );
}

async function begin() {
  byId("main").replaceChildren(waiting());
  try {
    await page.refresh();
    draw();
  } catch (error) {
    byId("main").replaceChildren(trouble(error, begin));
  }
}

onToken(askToken);
useLanguage(choice("language"));
translate();
wire();
begin();
