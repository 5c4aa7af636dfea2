// Where one is: after the #, so that questions are never part of what a server logs.

const VIEWS = {
  "/": "ask",
  "/document": "document",
  "/documents": "documents",
  "/evaluate": "evaluate",
  "/api": "reference",
};

/** The view and its parameters. */
export function here() {
  const start = location.pathname.endsWith("/docs") ? "/api" : "/";
  const [path, query = ""] = split(location.hash.slice(1) || start);
  return { view: VIEWS[path] ?? "ask", params: new URLSearchParams(query) };
}

function split(text) {
  const at = text.indexOf("?");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** The address of a view; empty values are left out, lists repeat their name. */
export function link(view, values = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of [value].flat()) if (one !== null && one !== undefined && one !== "") params.append(name, one);
  }
  const path = Object.keys(VIEWS).find((one) => VIEWS[one] === view);
  const query = params.toString();
  return `#${path}${query ? `?${query}` : ""}`;
}

export function go(address) {
  if (location.hash === address) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = address;
}
