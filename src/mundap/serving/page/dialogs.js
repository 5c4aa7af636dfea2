// Help, the token, and "are you sure?".

import { el, icon } from "./dom.js";
import { t } from "./strings.js";

const byId = (name) => document.getElementById(name);

function heading(name, text) {
  const close = el(
    "button",
    { type: "button", class: "plain icon", "aria-label": t("close"), onclick: () => byId(name).close() },
    icon("close"),
  );
  return el("div", { class: "dialog-head" }, el("h2", { id: `${name}-title` }, text), close);
}

export function showHelp() {
  const keys = [
    ["/", "key_focus"],
    ["↑ ↓", "key_walk"],
    ["Enter", "key_open"],
    ["1 2 3 4", "key_tabs"],
    ["Esc", "key_escape"],
    ["?", "key_help"],
  ];
  const rows = keys.map(([key, what]) =>
    el("div", {}, el("dt", {}, ...key.split(" ").flatMap((one) => [el("kbd", {}, one), " "])), el("dd", {}, t(what))),
  );
  byId("help").replaceChildren(heading("help", t("keys_title")), el("dl", { class: "keys" }, ...rows));
  byId("help").showModal();
}

let asking = null;

/** Ask for a token, once for all who need it at the moment; null if the user does not give one. */
export function askToken(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("token");
    const field = el("input", {
      id: "token-field",
      type: "password",
      autocomplete: "off",
      required: true,
      spellcheck: "false",
    });
    const form = el(
      "form",
      { method: "dialog" },
      el("p", { class: wrong ? "bad-text" : "" }, t(wrong ? "token_wrong" : "token_text")),
      el("label", { for: "token-field" }, t("token_label")),
      field,
      el("div", { class: "actions" }, el("button", { class: "first" }, t("token_send"))),
    );
    let given = null;
    form.addEventListener("submit", () => {
      given = field.value.trim() || null;
    });
    dialog.replaceChildren(heading("token", t("token_title")), form);
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        resolve(given);
      },
      { once: true },
    );
    dialog.showModal();
    field.focus();
  });
  return asking;
}

/** Whether the user means it. */
export function confirmed(title, text, yes) {
  return new Promise((resolve) => {
    const dialog = byId("confirm");
    let sure = false;
    const accept = el(
      "button",
      {
        type: "button",
        class: "danger",
        onclick: () => {
          sure = true;
          dialog.close();
        },
      },
      yes,
    );
    const refuse = el("button", { type: "button", class: "second", onclick: () => dialog.close() }, t("cancel"));
    dialog.replaceChildren(
      heading("confirm", title),
      el("p", {}, text),
      el("div", { class: "actions" }, accept, refuse),
    );
    dialog.addEventListener("close", () => resolve(sure), { once: true });
    dialog.showModal();
    refuse.focus();
  });
}
