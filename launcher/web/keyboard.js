// Keyboard shortcuts of one character. They can be switched off in the help dialog, for speech input and switches.

import { h, replace } from "./dom.js";

const OFF = "launcher-shortcuts-off";
const shortcuts = new Set();

/** Adds a shortcut until `signal` is aborted: `key` as in KeyboardEvent, and what it does, for the help. */
export function shortcut(key, description, action, signal) {
  const entry = { key, description, action };
  shortcuts.add(entry);
  signal?.addEventListener("abort", () => shortcuts.delete(entry));
}

/** Starts to handle keys. */
export function startShortcuts() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key.length === 1 && localStorage.getItem(OFF)) return;
    const entry = [...shortcuts].reverse().find(({ key }) => key === event.key);
    if (entry && entry.action(event) !== false) event.preventDefault();
  });
}

function isTyping(target) {
  return target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;
}

const NAMES = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc", " ": "Space" };

/** Shows all shortcuts of the current page. */
export function showHelp() {
  const dialog = document.getElementById("help");
  const rows = [...shortcuts].map(({ key, description }) => h("div", {}, h("dt", {}, h("kbd", {}, NAMES[key] ?? key)), h("dd", {}, description)));
  const toggle = h("input", {
    type: "checkbox", checked: !localStorage.getItem(OFF),
    on: { change: () => (toggle.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")) },
  });
  replace(
    dialog,
    h("h2", { id: "help-title" }, "Keyboard"),
    h("dl", { class: "shortcuts" }, rows),
    h("label", { class: "check" }, toggle, " Shortcuts of one character are on"),
    h("form", { method: "dialog", class: "dialog-actions" }, h("button", { class: "button primary" }, "Close")),
  );
  dialog.showModal();
}
