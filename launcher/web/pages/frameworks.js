// The list of Frameworks: live, filtered by the server, at most 500 rows per page.

import { allowed, frameworksPath, hasToken } from "../api.js";
import { announce, button, copyButton, h, replace, throttled, update } from "../dom.js";
import { age, counted, refreshAges } from "../format.js";
import { shortcut } from "../keyboard.js";
import { follow } from "../live.js";
import { link, open } from "../router.js";
import { badge, countsByKind, stateOfRow, taskBar } from "../states.js";
import { confirmBulk } from "../widgets/actions.js";
import { frameworkFilter, isFiltered, selectorsOf, userOf } from "../widgets/framework_filter.js";

const PAGE_ROWS = 500;
const UPDATE_MS = 250;
/** The nodes of a Framework are not part of a watch: with that filter, a change lists the page again. */
const RELOAD_MS = 2000;

export const title = () => "Frameworks";

export async function render(root, page) {
  new FrameworkList(root, page).start();
}

class FrameworkList {
  constructor(root, page) {
    this.page = page;
    this.signal = page.signal;
    this.rows = new Map();
    this.elements = new Map();
    this.selected = new Set();
    this.active = null;
    /** The continue tokens of this page and of those before it; the first page has none. */
    this.tokens = [null];
    this.stream = null;
    this.update = throttled(() => this.draw(), UPDATE_MS, this.signal);
    this.reload = throttled(() => this.load(), RELOAD_MS, this.signal);
    this.build(root);
  }

  start() {
    this.signal.addEventListener("abort", () => this.stream?.abort());
    this.load();
    const timer = setInterval(() => refreshAges(this.body), 5000);
    this.signal.addEventListener("abort", () => clearInterval(timer));
    this.addShortcuts();
  }

  // The parts of the page.

  build(root) {
    this.filter = frameworkFilter(this.page, () => this.filterChanged());
    this.body = h("tbody");
    this.foot = h("div", { class: "table-foot" });
    this.bulk = h("div", { class: "bulk", hidden: true });
    this.all = h("input", { type: "checkbox", "aria-label": "Select all rows of this page", on: { change: () => this.selectAll(this.all.checked) } });
    this.table = h("table", { class: "stacked" },
      h("thead", {}, h("tr", {},
        h("th", { class: "check-cell" }, this.all),
        this.heading("name", "Name"),
        this.heading("state", "State"),
        h("th", { scope: "col" }, "Tasks"),
        this.heading("retries", "Retries", "number"),
        this.heading("created", "Age", "number"),
        this.heading("user", "User"),
        h("th", { scope: "col" }, "Why"),
      )),
      this.body,
    );
    this.notice = h("div", { role: "alert" });
    this.content = h("div", { class: "card" }, this.bulk, h("div", { class: "table-wrap" }, this.table), this.foot);
    root.append(
      h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Frameworks")),
      this.filter.element,
      this.notice,
      this.content,
    );
  }

  heading(key, text, kind) {
    const sort = h("button", { type: "button", class: "sort", on: { click: () => this.sortBy(key) } }, text);
    return h("th", { scope: "col", class: kind, data: { key } }, sort);
  }

  filterChanged() {
    this.tokens = [null];
    this.load();
  }

  // Data.

  async load() {
    this.stream?.abort();
    this.stream = new AbortController();
    const { signal } = this.stream;
    const { query } = this.page;
    this.content.setAttribute("aria-busy", "true");
    const selectors = await selectorsOf(query);
    if (signal.aborted) return;
    follow(frameworksPath(query.get("namespace")), {
      query: { ...selectors, nameContains: query.get("name"), nodeName: query.get("node"), continue: this.tokens.at(-1) },
      watchQuery: selectors,
      limit: PAGE_ROWS,
      signal,
      onList: (list) => this.setList(list),
      onEvent: (type, row) => this.apply(type, row),
      onError: (error) => this.showError(error),
    });
  }

  setList(list) {
    replace(this.notice);
    this.content.hidden = false;
    this.rows = new Map(list.rows.map((row) => [row.metadata.uid, row]));
    this.next = list.continue;
    this.remaining = list.remaining;
    this.selected = new Set([...this.selected].filter((uid) => this.rows.has(uid)));
    this.content.removeAttribute("aria-busy");
    this.draw();
    performance.mark("list-shown");
    announce(`${counted(this.rows.size, "Framework")} listed`);
  }

  apply(type, row) {
    const { uid, name } = row.metadata;
    const { query } = this.page;
    if (query.get("node")) return this.reload();
    // A watch cannot select by a part of the name.
    if (!name.includes(query.get("name") ?? "")) return;
    const known = this.rows.has(uid);
    if (type === "DELETED") {
      this.rows.delete(uid);
      this.selected.delete(uid);
    } else if (known || (this.tokens.length === 1 && !this.next && this.rows.size < PAGE_ROWS)) {
      this.rows.set(uid, row);
    } else if (type === "ADDED" && !known) {
      this.remaining = this.remaining === null || this.remaining === undefined ? null : this.remaining + 1;
    }
    this.update();
  }

  showError(error) {
    this.content.hidden = error.status !== 410;
    if (error.status === 410) {
      // The continue token of an older page has expired: the list begins anew.
      this.tokens = [null];
      this.load();
      return;
    }
    const hint = error.status === 403 ? " Select a namespace that you may read: add &namespace=NAME to the URL." : "";
    replace(this.notice, h("p", { class: "notice error" }, error.message, hint));
  }

  // The table.

  sortBy(key) {
    const { query, setQuery } = this.page;
    const current = query.get("sort") ?? "-created";
    setQuery({ sort: current === key ? `-${key}` : current === `-${key}` ? key : key === "created" || key === "retries" ? `-${key}` : key });
    this.draw();
  }

  sorted() {
    const sort = this.page.query.get("sort") ?? "-created";
    const descending = sort.startsWith("-");
    const key = descending ? sort.slice(1) : sort;
    const value = {
      name: ({ metadata }) => metadata.name,
      state: stateOfRow,
      retries: ({ cells }) => cells.Retries ?? 0,
      created: ({ metadata }) => metadata.creationTimestamp,
      user: ({ metadata }) => userOf(metadata),
    }[key] ?? (({ metadata }) => metadata.name);
    for (const heading of this.table.querySelectorAll("th[data-key]")) {
      // A later creation is a lower age.
      if (heading.dataset.key === key) heading.setAttribute("aria-sort", descending === (key !== "created") ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    const direction = descending ? -1 : 1;
    return [...this.rows.values()].sort((a, b) => direction * compare(value(a), value(b)) || compare(a.metadata.name, b.metadata.name));
  }

  draw() {
    const rows = this.sorted();
    const elements = rows.map((row) => this.element(row));
    const known = new Set(rows.map((row) => row.metadata.uid));
    const focused = document.activeElement;
    for (const [uid, { element }] of this.elements) {
      if (known.has(uid)) continue;
      element.remove();
      this.elements.delete(uid);
    }
    // Only rows whose position changes are moved: a row that is moved while it is pressed gets no click.
    elements.forEach((element, i) => this.body.children[i] !== element && this.body.insertBefore(element, this.body.children[i] ?? null));
    if (this.body.contains(focused)) focused.focus({ preventScroll: true });
    this.table.hidden = rows.length === 0;
    this.drawFoot(rows.length);
    this.drawBulk();
  }

  /** Returns the element of a row: the same one as long as the Framework exists, so that no click on it is lost. */
  element(row) {
    const { uid, resourceVersion } = row.metadata;
    const existing = this.elements.get(uid);
    if (existing?.version === resourceVersion) return existing.element;
    const element = existing ? update(existing.element, this.cells(row)) : h("tr", { data: { uid } }, this.cells(row));
    this.elements.set(uid, { version: resourceVersion, element });
    return element;
  }

  cells(row) {
    const { metadata, cells } = row;
    const state = stateOfRow(row);
    const { byKind, total, completed } = taskCounts(cells);
    const message = cells.Message ?? "";
    return [
      h("td", { class: "check-cell" }, h("input", {
        type: "checkbox", checked: this.selected.has(metadata.uid), "aria-label": `Select ${metadata.name}`,
        on: { change: (event) => this.select(metadata.uid, event.target.checked) },
      })),
      h("td", { class: "name-cell" },
        h("a", { class: "name", href: link(["frameworks", metadata.namespace, metadata.name]) }, metadata.name),
        h("span", { class: "sub" }, metadata.namespace)),
      h("td", { class: "state-cell" }, badge(state)),
      h("td", { class: "nowrap wide-cell", data: { label: "Tasks" } }, taskBar(byKind, total), " ", h("span", { class: "muted" }, total ? `${completed}/${total}` : "")),
      h("td", { class: "number", data: { label: "Retries" } }, cells.Retries || 0),
      h("td", { class: "number", data: { label: "Age" } }, age(metadata.creationTimestamp)),
      h("td", { data: { label: "User" } }, h("span", { class: "text" }, userOf(metadata) || "–")),
      h("td", { class: "why wide-cell" }, message ? h("span", { class: "clamp text", title: message }, message) : null),
    ];
  }

  drawFoot(shown) {
    const { tokens } = this;
    if (!shown && tokens.length === 1) {
      update(this.foot, isFiltered(this.page.query) ? this.noMatch() : emptyState());
      return;
    }
    const remaining = this.remaining ? `, ${this.remaining.toLocaleString()} more` : this.next ? ", more follow" : "";
    const pages = tokens.length > 1 || this.next;
    update(this.foot,
      h("span", {}, `${counted(shown, "Framework")}${tokens.length > 1 ? ` on page ${tokens.length}` : ""}${remaining}`),
      pages ? h("span", { class: "end" },
        button("Previous", () => { this.tokens.pop(); this.load(); }, { kind: "small", disabled: tokens.length === 1 }),
        button("Next", () => { this.tokens.push(this.next); this.load(); }, { kind: "small", disabled: !this.next })) : null,
    );
  }

  noMatch() {
    return h("div", { class: "empty" }, h("p", {}, "No Framework matches the filter."), button("Clear the filter", () => this.filter.clear()));
  }

  // Selection.

  select(uid, selected) {
    if (selected) this.selected.add(uid);
    else this.selected.delete(uid);
    this.drawBulk();
  }

  selectAll(selected) {
    this.selected = new Set(selected ? this.rows.keys() : []);
    for (const box of this.body.querySelectorAll("input[type=checkbox]")) box.checked = selected;
    this.drawBulk();
  }

  drawBulk() {
    const number = this.selected.size;
    this.bulk.hidden = number === 0;
    this.all.checked = number > 0 && number === this.rows.size;
    this.all.indeterminate = number > 0 && number < this.rows.size;
    if (!number) return;
    const chosen = () => [...this.selected].map((uid) => this.rows.get(uid)).filter(Boolean);
    const done = () => this.selectAll(false);
    update(this.bulk,
      h("strong", {}, `${counted(number, "Framework")} selected`),
      button("Stop", () => confirmBulk("stop", chosen(), done), { kind: "small" }),
      button("Delete", () => confirmBulk("delete", chosen(), done), { kind: "small danger" }),
      button("Clear selection", done, { kind: "small quiet" }),
    );
    this.hideForbidden(chosen());
  }

  async hideForbidden(rows) {
    const namespaces = [...new Set(rows.map((row) => row.metadata.namespace))];
    const [stop, remove] = this.bulk.querySelectorAll(".button");
    for (const [element, verb] of [[stop, "patch"], [remove, "delete"]]) {
      const answers = await Promise.all(namespaces.map((namespace) => allowed(verb, "frameworks", namespace)));
      element.hidden = !answers.every(Boolean);
    }
  }

  // Keyboard.

  addShortcuts() {
    const add = (key, description, action) => shortcut(key, description, action, this.signal);
    add("/", "Filter by name", () => this.filter.focus());
    add("ArrowDown", "Next row", () => this.move(1));
    add("ArrowUp", "Previous row", () => this.move(-1));
    add("x", "Select the row", () => this.current()?.querySelector("input")?.click());
    add("l", "Logs of the row", () => this.openRow((metadata) => link(["logs", metadata.namespace, metadata.name])));
    add("w", "Why: the diagnosis of the row", () => this.openRow((metadata) => link(["frameworks", metadata.namespace, metadata.name], { focus: "why" })));
    this.filter.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" && event.key !== "ArrowDown") return;
      event.preventDefault();
      this.move(0);
    });
    this.body.addEventListener("focusin", (event) => this.activate(event.target.closest("tr")));
  }

  current() {
    return this.active && this.elements.get(this.active)?.element;
  }

  activate(row) {
    this.current()?.classList.remove("active");
    this.active = row?.dataset.uid ?? null;
    row?.classList.add("active");
  }

  move(step) {
    const rows = [...this.body.children];
    if (!rows.length) return false;
    const position = rows.indexOf(this.current());
    const next = rows[Math.min(Math.max(position + step, 0), rows.length - 1)];
    next.querySelector("a").focus();
    next.scrollIntoView({ block: "nearest" });
    return true;
  }

  openRow(target) {
    const row = this.active && this.rows.get(this.active);
    if (!row) return false;
    open(target(row.metadata));
    return true;
  }
}

/** Returns the tasks of a row by kind of state; a cluster with an older CRD has only two of the numbers. */
function taskCounts(cells) {
  let counts = {};
  if (cells["Task States"]) counts = JSON.parse(cells["Task States"]);
  else if (cells.Running || cells.Done) counts = { AttemptRunning: cells.Running ?? 0, Completed: cells.Done ?? 0 };
  const byKind = countsByKind(counts);
  const total = [...byKind.values()].reduce((sum, number) => sum + number, 0);
  const completed = counts.Completed ?? 0;
  // All tasks of a succeeded Framework are shown as such.
  if (cells.State === "Succeeded" || cells.Result === "Succeeded") {
    byKind.set("succeeded", byKind.get("completed") ?? 0);
    byKind.delete("completed");
  }
  return { byKind, total, completed };
}

function emptyState() {
  const token = hasToken() ? "-H \"Authorization: Bearer $TOKEN\" " : "";
  const command = `curl ${token}-H 'Content-Type: application/yaml' --data-binary @examples/hello.yaml \\\n  ${location.origin}${location.pathname}${frameworksPath("default")}`;
  return h("div", { class: "empty" },
    h("h2", {}, "There are no Frameworks yet"),
    h("p", { class: "muted" }, "Submit a first one; it appears here at once:"),
    h("div", { class: "command" }, h("pre", {}, command), copyButton(() => command, "Copy the command")),
  );
}
