// A form for an operation of the API: what to send, and what comes back.

import { request } from "./api.js";
import { confirmed } from "./dialogs.js";
import { announce, el, foreign } from "./dom.js";
import { trouble } from "./parts.js";
import { t } from "./strings.js";

const JSON_TYPE = "application/json";
const CHANGING = ["/v1/documents", "/v1/documents/{id}"];
const LONGEST = 100_000; // characters of a response that are shown
let forms = 0;

/** The form. `resolved(schema)` follows a reference in the description. */
export function trial(one, resolved) {
  forms += 1;
  const id = `try-${forms}`;
  const content = one.requestBody?.content ?? {};
  const schema = content[JSON_TYPE]?.schema;
  if (one.requestBody && !schema) return el("p", { class: "quiet" }, t("api_file"));
  const inputs = (one.parameters ?? []).map((given) => {
    const input = el("input", { id: `${id}-${given.name}`, type: "text", autocomplete: "off", spellcheck: "false" });
    return { given, input, field: el("div", {}, el("label", { for: input.id }, given.name), input) };
  });
  const body = schema && el("textarea", { id: `${id}-body`, rows: 6, spellcheck: "false" });
  if (body) body.value = JSON.stringify(example(resolved(schema), resolved), null, 2);
  const result = el("div", { "aria-live": "polite" });
  const send = async (event) => {
    event.preventDefault();
    const changes = one.method !== "get" && CHANGING.includes(one.path);
    if (changes && !(await confirmed(t("api_try"), t("api_change"), t("api_send")))) return;
    const started = performance.now();
    try {
      const sent = { method: one.method.toUpperCase(), body: body ? body.value : null };
      const { response, text } = await request(address(one.path, inputs), sent);
      const told = t("api_took", { status: String(response.status), ms: Math.round(performance.now() - started) });
      result.replaceChildren(el("p", { class: "quiet" }, told), foreign(readable(text).slice(0, LONGEST), "pre"));
      announce(told);
    } catch (error) {
      result.replaceChildren(trouble(error));
    }
  };
  return el(
    "form",
    { class: "try", onsubmit: send },
    el("h3", {}, t("api_try")),
    inputs.length ? el("div", { class: "fact-fields" }, ...inputs.map(({ field }) => field)) : "",
    body && el("div", {}, el("label", { for: body.id }, t("api_body")), body),
    el("button", { class: "second" }, t("api_send")),
    result,
  );
}

function address(path, inputs) {
  const query = new URLSearchParams();
  let filled = path.slice(1);
  for (const { given, input } of inputs) {
    const value = input.value.trim();
    if (given.in === "path") filled = filled.replace(`{${given.name}}`, encodeURIComponent(value));
    else if (value) query.append(given.name, value);
  }
  return query.size ? `${filled}?${query}` : filled;
}

/** A body with what is required in it, and the first of the other texts where nothing is. */
function example(schema, resolved) {
  const fields = Object.entries(schema.properties ?? {});
  const needed = fields.filter(([name]) => schema.required?.includes(name));
  const chosen = needed.length ? needed : fields.slice(0, 1);
  return Object.fromEntries(chosen.map(([name, one]) => [name, value(one, resolved)]));
}

function value(schema, resolved) {
  const real = resolved(schema);
  const [first] = real.examples ?? [];
  if (first !== undefined) return first;
  if (real.default !== undefined && real.default !== null) return real.default;
  if (real.anyOf) return value(real.anyOf[0], resolved);
  if (real.enum) return real.enum[0];
  if (real.type === "array") return [value(real.items, resolved)];
  if (real.type === "object" || real.properties) return example(real, resolved);
  return { integer: 1, number: 1, boolean: false }[real.type] ?? "text";
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
