// The API, from the server's own description of it. (The usual pages for that load their scripts from elsewhere.)

import { call } from "./api.js";
import { el } from "./dom.js";
import { trouble, waiting } from "./parts.js";
import { trial } from "./trial.js";
import { token } from "./store.js";
import { t } from "./strings.js";

const METHODS = ["get", "post", "put", "delete"];

export class ReferenceView {
  constructor(page) {
    this.page = page;
    this.title = t("api_title");
    this.shown = el("div", { class: "reference-view" });
  }

  async show() {
    const signal = this.page.start();
    this.shown.replaceChildren(waiting());
    try {
      const found = await call("openapi.json", { signal });
      const all = endpoints(found);
      const groups = [...new Set(all.map((one) => one.group))].map((group) => [
        group,
        all.filter((one) => one.group === group),
      ]);
      // A link carries no token.
      const address = token() ? el("code", {}, "openapi.json") : el("a", { href: "openapi.json" }, "openapi.json");
      this.shown.replaceChildren(
        el("h1", {}, t("api_title")),
        el("p", { class: "lead" }, t("api_lead"), " ", address),
        ...groups.map(([group, listed]) =>
          el("section", { lang: "en" }, group && el("h2", {}, group), ...listed.map((one) => card(one, found))),
        ),
      );
    } catch (error) {
      if (error.name !== "AbortError") this.shown.replaceChildren(trouble(error, () => this.show()));
    }
  }

  key() {}

  escape() {}
}

function endpoints(found) {
  return Object.entries(found.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => method in item).map((method) => ({
      method,
      path,
      group: item[method].tags?.[0] ?? "",
      ...item[method],
    })),
  );
}

function card(one, found) {
  const bodies = Object.entries(one.requestBody?.content ?? {});
  const fields = bodies.flatMap(([, { schema }]) => rows(resolved(schema, found), found));
  const asked = (one.parameters ?? []).map((given) => [
    given.name,
    kind(given.schema, found),
    given.description ?? told(given.schema, found),
    given.required,
  ]);
  const all = [...asked, ...fields];
  return el(
    "details",
    { class: "card endpoint" },
    el(
      "summary",
      {},
      el("span", { class: `method ${one.method}` }, one.method.toUpperCase()),
      el("code", {}, one.path),
      el("span", { class: "quiet" }, one.description?.split("\n")[0] ?? one.summary),
    ),
    el(
      "div",
      {},
      one.description?.includes("\n") && el("p", {}, one.description.split("\n").slice(1).join(" ").trim()),
      bodies.length ? el("p", { class: "quiet" }, bodies.map(([type]) => type).join(", ")) : "",
      all.length
        ? el(
            "dl",
            { class: "fields" },
            ...all.map(([name, type, text, needed]) =>
              el(
                "div",
                {},
                el(
                  "dt",
                  {},
                  el("code", {}, name),
                  needed ? el("b", { title: t("api_required") }, "*") : "",
                  el("span", { class: "quiet" }, ` ${type}`),
                ),
                el("dd", {}, text),
              ),
            ),
          )
        : "",
      el(
        "p",
        { class: "quiet" },
        Object.entries(one.responses ?? {})
          .map(([code, { description }]) => `${code} ${description}`)
          .join(" · "),
      ),
      trial(one, (schema) => resolved(schema, found)),
    ),
  );
}

function rows(schema, found) {
  return Object.entries(schema.properties ?? {}).map(([name, value]) => [
    name,
    kind(value, found),
    told(value, found),
    schema.required?.includes(name),
  ]);
}

function resolved(schema, found) {
  const name = schema?.$ref?.split("/").pop();
  return name ? (found.components.schemas[name] ?? {}) : (schema ?? {});
}

function told(schema, found) {
  return (
    schema?.description ??
    [schema, ...(schema?.anyOf ?? [])].map((one) => resolved(one, found).description).find(Boolean) ??
    ""
  );
}

function kind(schema, found) {
  const real = resolved(schema, found);
  if (real.anyOf)
    return real.anyOf
      .filter((one) => one.type !== "null")
      .map((one) => kind(one, found))
      .join(" | ");
  if (real.enum) return real.enum.join(" | ");
  if (real.type === "array") return `[${kind(real.items, found)}]`;
  return real.type ?? "";
}
