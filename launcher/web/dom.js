// Elements are built here and nowhere else. Texts of users become text nodes, so that none is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["checked", "disabled", "hidden", "indeterminate", "value"]);

/**
 * Returns an element. `props` are attributes, and:
 * `on` (listeners by event), `data` (data-* attributes), `class` (a string, or a list with empty items).
 * Values null, undefined and false leave an attribute out. Children may be nodes, strings, numbers, lists and null.
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Returns an SVG element, like `h`. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** Replaces all children of `element`. */
export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/**
 * Makes the children of `element` equal to `children`. What is equal stays the same element, with its focus: a click on
 * an element that is replaced between the press and the release of the button would be lost. So a listener of a child
 * may depend only on what the attributes of the child show.
 */
export function update(element, ...children) {
  updateNodes(element, nodes(children).map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return element;
}

function updateNodes(element, wanted) {
  wanted.forEach((node, i) => {
    const existing = element.childNodes[i];
    if (!existing) element.append(node);
    else if (existing.isEqualNode(node)) return;
    else if (existing.cloneNode(false).isEqualNode(node.cloneNode(false)) && existing.childNodes.length) updateNodes(existing, [...node.childNodes]);
    else existing.replaceWith(node);
  });
  while (element.childNodes.length > wanted.length) element.lastChild.remove();
}

/** Sets the text of `element` if it differs, so that an unchanged element is not repainted. */
export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      for (const [key, each] of Object.entries(value)) element.dataset[key] = each;
    } else if (name === "class") {
      const names = Array.isArray(value) ? value.filter(Boolean).join(" ") : value;
      if (names) element.setAttribute("class", names);
    } else if (PROPERTIES.has(name)) {
      element[name] = value;
    } else if (value !== null && value !== undefined && value !== false) {
      if (/^(on|style$|srcdoc$)/.test(name)) throw new Error(`${name} is not an attribute that may be set`);
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Returns a button; `label` is its name for screen readers if the text alone does not suffice. */
export function button(text, onClick, { label, kind = "", ...props } = {}) {
  return h("button", { type: "button", class: ["button", kind], "aria-label": label, on: { click: onClick }, ...props }, text);
}

/** Returns a button that copies the result of `text` to the clipboard and confirms it. */
export function copyButton(text, label = "Copy") {
  const element = button("Copy", async () => {
    const copied = await copyText(text());
    setText(element, copied ? "Copied" : "Press Ctrl+C");
    announce(copied ? "Copied" : "The text is selected: press Ctrl+C");
    setTimeout(() => setText(element, "Copy"), 2000);
  }, { label, kind: "small" });
  return element;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without HTTPS there is no clipboard; the user copies the selection.
    const area = h("textarea", { class: "visually-hidden", readonly: true, "aria-label": "Text to copy" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

/** Reports `text` to screen readers. */
export function announce(text) {
  const region = document.getElementById("announcements");
  if (region) region.textContent = text;
}

/** Calls `update` at most once per frame and `interval` milliseconds, however often the result is called. */
export function throttled(update, interval, signal) {
  let timer = 0;
  let last = -Infinity;
  return () => {
    if (timer || signal.aborted) return;
    timer = setTimeout(() => {
      requestAnimationFrame(() => {
        timer = 0;
        last = performance.now();
        if (!signal.aborted) update();
      });
    }, Math.max(0, last + interval - performance.now()));
  };
}
