// Talking to the server this page came from, and to no other.

import { keepToken, token } from "./store.js";

/** A failure: `status` 0 means that no server answered. */
export class Failure extends Error {
  constructor(status, message, wait = null) {
    super(message);
    this.status = status;
    this.wait = wait;
  }
}

let askToken = async () => null;

/** Who asks the user for a token: resolves to one, or to null. */
export function onToken(asker) {
  askToken = asker;
}

/** A JSON answer. A missing token is asked for, and the call repeated. */
export async function call(path, { method = "GET", body, signal } = {}) {
  const json = body === undefined ? null : JSON.stringify(body);
  const { response, text } = await request(path, { method, body: json, signal });
  if (!response.ok) throw failure(response.status, text, response.headers.get("Retry-After"));
  return text ? JSON.parse(text) : null;
}

/** Any response and its text. `body` is JSON, or null. */
export async function request(path, { method = "GET", body = null, signal } = {}) {
  for (;;) {
    const headers = body === null ? {} : { "Content-Type": "application/json" };
    const known = token();
    if (known) headers.Authorization = `Bearer ${known}`;
    let response;
    try {
      response = await fetch(path, { method, headers, signal, body });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure(0, "");
    }
    if (response.status === 401 && (await newToken(known))) continue;
    return { response, text: await response.text() };
  }
}

async function newToken(rejected) {
  const given = await askToken(Boolean(rejected));
  if (given) keepToken(given);
  return Boolean(given);
}

function failure(status, text, wait) {
  let message = "";
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // not our server's own words: a proxy's, perhaps
  }
  return new Failure(status, String(message ?? ""), wait);
}

/** Send a form and read lines of JSON as they come. `sent` is told the share of the form that is on its way. */
export async function stream(path, form, line, { sent, signal } = {}) {
  for (;;) {
    const known = token();
    const status = await sendForm(path, form, line, known, sent, signal);
    if (status !== 401) return;
    if (!(await newToken(known))) throw new Failure(401, "");
  }
}

function sendForm(path, form, line, known, sent, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch cannot say how much of a body was sent
    let read = 0;
    const lines = (last) => {
      const text = request.responseText;
      for (;;) {
        const end = text.indexOf("\n", read);
        if (end < 0 && !(last && read < text.length)) return;
        const row = text.slice(read, end < 0 ? text.length : end);
        read = end < 0 ? text.length : end + 1;
        if (!row.trim()) continue;
        const item = JSON.parse(row);
        if (item.error) throw new Failure(item.error.status ?? 500, String(item.error.message ?? ""));
        line(item);
      }
    };
    const good = () => request.status >= 200 && request.status < 300;
    request.open("POST", path);
    if (known) request.setRequestHeader("Authorization", `Bearer ${known}`);
    request.upload.addEventListener(
      "progress",
      (event) => event.lengthComputable && sent?.(event.loaded / event.total),
    );
    request.addEventListener("progress", () => guarded(() => good() && lines(false)));
    request.addEventListener("error", () => reject(new Failure(0, "")));
    request.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    request.addEventListener("load", () =>
      guarded(() => {
        if (good()) lines(true);
        else if (request.status !== 401) {
          throw failure(request.status, request.responseText, request.getResponseHeader("Retry-After"));
        }
        resolve(request.status);
      }),
    );
    const guarded = (work) => {
      try {
        work();
      } catch (error) {
        reject(error);
        request.abort();
      }
    };
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
