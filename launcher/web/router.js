// Pages, by the part of the URL after "#". It needs no support by the server, so it works below any path prefix.
//
// Conventions for pages (launcher/web/pages/NAME.js):
// - A page is a module, loaded when it is first shown, that exports
//     title(params)              the title of the document and the text of its <h1>
//     async render(root, page)   builds its content in `root`, an empty element
//   `page` has: params (parts of the path), query (URLSearchParams), signal (aborted when the page is left; every
//   listener, timer and stream of the page ends with it), setQuery(changes) (see below).
// - The state of a page (filters, tab, selection) is in its query, so that a reload and a link show the same. A page
//   whose query changes is rendered anew, except by its own setQuery(changes), which only replaces the URL.
// - Links are made by `link(path, query)`, elements by `h` of dom.js, and texts of users are its children, never markup.
// - Requests go through api.js; a list that stays current, through `follow` of live.js: one stream per tab.
// - An error that ends the page is thrown by render or passed to `page.fail(error)`.
// - Shortcuts: `shortcut(key, description, action, page.signal)` of keyboard.js; the help lists them.
// - Styles are in app.css, which has the variables of both themes; there are no inline styles.

import { announce, h, replace } from "./dom.js";
import { ApiError } from "./api.js";
import { setConnection, sleep } from "./live.js";

/** Marks a tab that was reloaded because a module could not be loaded. */
const RELOADED = "launcher-reloaded";
const RETRY_MS = 1000;

const ROUTES = [
  ["frameworks", () => import("./pages/frameworks.js")],
  ["frameworks/:namespace/:name", () => import("./pages/framework.js")],
  ["frameworks/:namespace/:name/tasks/:role/:index", () => import("./pages/task.js")],
  ["logs/:namespace/:name", () => import("./pages/logs.js")],
  ["nodes", () => import("./pages/nodes.js")],
  ["submit", () => import("./pages/submit.js")],
];

/** Returns the URL of a page: `link(["frameworks", namespace, name], {tab: "events"})`. */
export function link(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "") search.append(name, each);
  }
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Shows the page at a URL that `link` returned. */
export function open(hash) {
  location.hash = hash;
}

let current = null;
/** The URL of the shown page, which setQuery changes; the event of that change is ignored. */
let ownHash = null;

/** Shows the page of the URL, now and whenever it changes. */
export function startRouter() {
  addEventListener("hashchange", () => {
    if (location.hash === ownHash) return;
    show(true);
  });
  if (!location.hash) history.replaceState(null, "", link(["frameworks"]));
  show(false);
}

async function show(moveFocus) {
  current?.abort();
  const controller = (current = new AbortController());
  const { signal } = controller;
  ownHash = location.hash;
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const main = document.getElementById("main");
  // Logs are those of a Framework.
  markNavigation(parts[0] === "logs" ? "frameworks" : parts[0]);
  const fail = (error) => !signal.aborted && showError(main, error);
  const route = ROUTES.map(([pattern, load]) => ({ params: match(pattern.split("/"), parts), load })).find(({ params }) => params);
  if (!route) {
    setTitle("Page not found");
    replace(main, h("h1", { tabindex: "-1" }, "Page not found"), h("p", {}, h("a", { href: link(["frameworks"]) }, "All Frameworks")));
    return;
  }
  try {
    const module = await route.load().catch((error) => loadAgain(error, signal));
    if (signal.aborted) return;
    sessionStorage.removeItem(RELOADED);
    const title = module.title(route.params);
    setTitle(title);
    const root = h("div", { class: "page" });
    replace(main, root);
    const query = new URLSearchParams(search);
    const setQuery = (changes) => !signal.aborted && changeQuery(parts, query, changes);
    if (moveFocus) announce(title);
    const rendered = module.render(root, { params: route.params, query, setQuery, signal, fail, title });
    // At once, if the heading exists: the user may go on with the keyboard while the page reads its data.
    const focused = moveFocus && focusHeading(root);
    await rendered;
    if (moveFocus && !focused && !signal.aborted && document.activeElement === document.body) focusHeading(root);
  } catch (error) {
    fail(error);
  }
}

/**
 * Reloads the tab as soon as the launcher responds: a browser does not request a module again whose request was
 * interrupted. Raises `error` if that has not helped.
 */
async function loadAgain(error, signal) {
  const isReachable = () => fetch(import.meta.url, { cache: "no-store" }).then(({ ok }) => ok, () => false);
  if (sessionStorage.getItem(RELOADED)) {
    sessionStorage.removeItem(RELOADED);
    throw error;
  }
  setConnection("reconnecting");
  while (!signal.aborted && !(await isReachable())) await sleep(RETRY_MS, signal);
  if (signal.aborted) return null;
  sessionStorage.setItem(RELOADED, "true");
  location.reload();
  return new Promise(() => {});
}

/** Returns whether there is a heading, which gets the focus. */
function focusHeading(root) {
  const heading = root.querySelector("h1");
  heading?.focus();
  return heading !== null;
}

function changeQuery(parts, query, changes) {
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "" && each !== false) query.append(name, each);
  }
  // The user has followed a link, and its event has not been handled yet.
  if (location.hash !== ownHash) return;
  const entries = {};
  for (const name of new Set(query.keys())) entries[name] = query.getAll(name);
  const hash = link(parts, entries);
  if (location.hash !== hash) history.replaceState(null, "", hash);
  ownHash = location.hash;
}

function match(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (let i = 0; i < parts.length; i++) {
    if (pattern[i].startsWith(":")) params[pattern[i].slice(1)] = parts[i];
    else if (pattern[i] !== parts[i]) return null;
  }
  return params;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function setTitle(title) {
  document.title = `${title} · Framework Launcher`;
}

function markNavigation(section) {
  for (const anchor of document.querySelectorAll("nav a[data-section]")) {
    if (anchor.dataset.section === section) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}

function showError(main, error) {
  if (error?.name === "AbortError") return;
  const known = error instanceof ApiError;
  if (!known) console.error(error);
  // A page that is not shown has no stream; the launcher has responded.
  else if (error.status) setConnection("live");
  const heading = known && error.status === 404 ? "Not found" : known && error.status === 403 ? "Not allowed" : "This page cannot be shown";
  replace(
    main,
    h("div", { class: "page" },
      h("h1", { tabindex: "-1" }, heading),
      h("p", { class: "error-text", role: "alert" }, error?.message ?? String(error)),
      h("p", {}, h("a", { class: "button", href: link(["frameworks"]) }, "All Frameworks")),
    ),
  );
}
