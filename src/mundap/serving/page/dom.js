// Building the page. Text from documents and servers only ever becomes a text node: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `props`: `class`, `on*` listeners, and attributes (null or false leaves one out). */
export function el(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** The same for drawings. */
export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const PATHS = {
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 20.5 20.5",
  arrow: "M5 12h13M12.5 6.5 18 12l-5.500 5.500",
  back: "M19 12H6M11.500 6.500 6 12l5.500 5.500",
  filter: "M4 6h16M7 12h10M10 18h4",
  close: "M6.500 6.500l11 11M17.500 6.500l-11 11",
  copy: "M9 9h10v11H9zM5 15V4h10",
  link: "M13 5h6v6M19 5l-9 9M17 14v5H5V7h5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M18.700 5.300l-1.400 1.400M6.700 17.300l-1.400 1.400",
  moon: "M19.500 14.500A8 8 0 0 1 9.500 4.500a8 8 0 1 0 10 10z",
  clock: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4.500l3 2",
  file: "M7 3.500h7l4 4V20.500H7zM14 3.500v4h4",
  upload: "M12 16V5M7.500 9.500 12 5l4.500 4.500M5 19.500h14",
  trash: "M5 7h14M9.500 7V4.500h5V7M7 7l1 13h8l1-13",
  check: "M5 12.500l4.500 4.500L19 7.500",
  warn: "M12 4 2.800 20h18.400zM12 10v5M12 17.200v.3",
};

/** A small line drawing; decoration, so assistive technology does not see it. */
export function icon(name) {
  const path = svg("path", {
    d: PATHS[name],
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.8,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
  });
  return svg("svg", { class: "drawing", viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" }, path);
}

/** Say something to those who listen to the page. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

/** Text from outside, kept apart from its neighbours whatever its direction. */
export function foreign(text, tag = "bdi", props = {}) {
  return el(tag, { dir: "auto", ...props }, text);
}
