// What the page remembers: choices and history in this browser, the token only until the tab closes.

const HISTORY = "mundap.history";
const MOST = 50;

function read(area, key) {
  try {
    return area().getItem(key);
  } catch {
    return null; // storage is switched off or full: the page works without
  }
}

function write(area, key, value) {
  try {
    if (value === null) area().removeItem(key);
    else area().setItem(key, value);
  } catch {
    // as above
  }
}

const local = () => localStorage;
const session = () => sessionStorage;

export const choice = (name) => read(local, `mundap.${name}`);
export const choose = (name, value) => write(local, `mundap.${name}`, value);
export const token = () => read(session, "mundap.token");
export const keepToken = (value) => write(session, "mundap.token", value);

/** Questions that were asked, newest first: {question, index, answer}. */
export function history() {
  try {
    const found = JSON.parse(read(local, HISTORY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.question === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

export function remember(entry) {
  const others = history().filter((one) => one.question !== entry.question || one.index !== entry.index);
  write(local, HISTORY, JSON.stringify([entry, ...others].slice(0, MOST)));
}

export function forget(entry) {
  const kept = entry ? history().filter((one) => one.question !== entry.question || one.index !== entry.index) : [];
  write(local, HISTORY, kept.length ? JSON.stringify(kept) : null);
}
