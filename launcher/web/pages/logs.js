// The logs of a Framework's tasks: followed, searched, side by side or merged by time.

import { corePath, frameworksPath, get, getText } from "../api.js";
import { readRecords, taskAttempts } from "../attempts.js";
import { announce, button, h, replace, setText, throttled } from "../dom.js";
import { counted } from "../format.js";
import { shortcut } from "../keyboard.js";
import { setConnection, sleep, visible } from "../live.js";
import { LogBuffer, MAX_LINES, matches } from "../logs/buffer.js";
import { LogStream } from "../logs/stream.js";
import { LogView } from "../logs/view.js";
import { link } from "../router.js";
import { badge } from "../states.js";
import { tasksOf } from "../tasks.js";

const MAX_TASKS = 6;
/** Tasks that the list of tasks shows at once. */
const MAX_CHOICES = 60;
const UPDATE_MS = 60;
const SEARCH_MS = 200;
const COUNT_MS = 500;
/** A Framework without tasks is read this often. */
const POLL_MS = 2_000;
const MAX_DOWNLOAD_BYTES = 256 * 1024 * 1024;

export const title = ({ name }) => `Logs of ${name}`;

export async function render(root, page) {
  const framework = await get(frameworksPath(page.params.namespace, page.params.name), { signal: page.signal });
  new LogPage(root, page, framework, await readRecords(framework, page.signal)).start();
}

class LogPage {
  constructor(root, page, framework, records) {
    this.page = page;
    this.records = records;
    this.signal = page.signal;
    this.read(framework);
    const { query } = page;
    this.selected = this.initialTasks(query.getAll("task"));
    this.attempt = query.get("attempt");
    this.options = { wrap: query.get("wrap") === "true", times: query.get("times") === "true", query: query.get("search") ?? "", onlyMatches: query.get("matching") === "true", labels: 0 };
    this.split = query.get("layout") === "split";
    this.panes = [];
    this.count = throttled(() => this.showCount(), COUNT_MS, this.signal);
    this.build(root);
  }

  /** Returns the names of the tasks in the URL; without any, a failed task, or the first one. */
  initialTasks(names) {
    const known = new Set(this.tasks.map((task) => task.name));
    const chosen = names.filter((name) => known.has(name) || !this.tasks.length).slice(0, MAX_TASKS);
    if (chosen.length || !this.tasks.length) return chosen;
    return [(this.tasks.find((task) => task.kind === "failed") ?? this.tasks[0]).name];
  }

  start() {
    this.signal.addEventListener("abort", () => this.closePanes());
    this.open();
    if (!this.tasks.length) this.waitForTasks();
    const add = (key, text, action) => shortcut(key, text, action, this.signal);
    add("/", "Search in the logs", () => this.search.focus());
    add("f", "Follow new lines, or stop", () => this.setFollow(!this.isFollowing()));
    add("w", "Wrap long lines", () => this.toggle("wrap", !this.options.wrap));
    add("t", "Show times", () => this.toggle("times", !this.options.times));
    add("n", "Next match", () => this.step(1));
    add("N", "Previous match", () => this.step(-1));
  }

  read(framework) {
    this.tasks = tasksOf(framework.status?.attemptStatus);
    this.roles = framework.spec?.taskRoles ?? [];
    this.framework = framework;
  }

  /** Opens the logs of a Framework as soon as it has tasks. */
  async waitForTasks() {
    const { namespace, name } = this.page.params;
    while (!this.tasks.length) {
      await sleep(POLL_MS, this.signal);
      await visible(this.signal);
      if (this.signal.aborted) return;
      const framework = await get(frameworksPath(namespace, name), { signal: this.signal }).catch(() => null);
      if (framework) this.read(framework);
    }
    this.selected = this.initialTasks(this.page.query.getAll("task"));
    this.drawPicker();
    this.changed({});
  }

  // The parts of the page.

  build(root) {
    const { namespace, name } = this.page.params;
    this.toggles = {};
    const toggle = (key, text, isOn) => (this.toggles[key] = button(text, () => this.toggle(key, this.toggles[key].getAttribute("aria-pressed") !== "true"), { kind: "small", "aria-pressed": String(isOn) }));
    this.search = h("input", { type: "search", "aria-label": "Search in the logs", placeholder: "Search", value: this.options.query, autocomplete: "off", spellcheck: "false", on: { keydown: (event) => this.searchKey(event) } });
    this.onSearch();
    this.found = h("span", { class: "muted", role: "status" });
    this.container = h("select", { "aria-label": "Container", on: { change: () => this.changed({ container: this.container.value }) } });
    this.attempts = h("select", { "aria-label": "Attempt", on: { change: () => this.changed({ attempt: this.attempts.value }) } });
    this.picker = h("details", { class: "log-picker", on: { toggle: () => this.picker.open && this.fillPicker("") } });
    this.area = h("div", { class: "log-panes" });
    this.state = h("div", { class: "log-state muted", role: "status" });
    root.classList.add("log-page");
    root.append(
      h("div", { class: "crumbs" }, h("a", { href: link(["frameworks"]) }, "Frameworks"), "/", h("span", {}, namespace), "/", h("a", { href: link(["frameworks", namespace, name]) }, name)),
      h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, this.page.title)),
      h("div", { class: "log-toolbar", role: "group", "aria-label": "Logs" },
        this.picker, this.attempts, this.container,
        h("div", { class: "log-search" }, this.search, button("↑", () => this.step(-1), { label: "Previous match", kind: "small" }), button("↓", () => this.step(1), { label: "Next match", kind: "small" }), this.found),
        h("div", { class: "segmented log-toggles" }, toggle("follow", "Follow", true), toggle("wrap", "Wrap", this.options.wrap), toggle("times", "Times", this.options.times), toggle("onlyMatches", "Matching", this.options.onlyMatches), toggle("split", "Side by side", this.split)),
        button("Download", () => this.download(), { kind: "small" }),
      ),
      this.area, this.state,
    );
    this.drawPicker();
  }

  onSearch() {
    let timer = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        this.options.query = this.search.value;
        this.page.setQuery({ search: this.search.value });
        this.redraw();
      }, SEARCH_MS);
    });
    this.signal.addEventListener("abort", () => clearTimeout(timer));
  }

  searchKey(event) {
    if (event.key === "Enter") {
      this.options.query = this.search.value;
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.panes[0]?.view.element.focus();
    } else {
      return;
    }
    event.preventDefault();
  }

  drawPicker() {
    const text = this.selected.length ? this.selected.join(", ") : "Select tasks";
    this.choices = h("div", { class: "log-choices" });
    const filter = h("input", { type: "search", "aria-label": "Filter tasks", placeholder: "worker-1, failed, …", autocomplete: "off", on: { input: () => this.fillPicker(filter.value.trim()) } });
    replace(this.picker, h("summary", { class: "button small" }, h("span", { class: "log-picked" }, text)), h("div", { class: "log-picker-body card" }, filter, this.choices));
  }

  fillPicker(filter) {
    const found = this.tasks.filter((task) => !filter || task.name.includes(filter) || task.kind.includes(filter.toLowerCase()));
    const shown = [...found].sort((a, b) => this.selected.includes(b.name) - this.selected.includes(a.name)).slice(0, MAX_CHOICES);
    replace(this.choices,
      shown.map((task) => this.choice(task)),
      found.length > shown.length && h("p", { class: "hint" }, `${counted(found.length - shown.length, "more task")}; type a part of the name.`),
      !found.length && h("p", { class: "hint" }, "No task matches."),
    );
  }

  choice(task) {
    const isOn = this.selected.includes(task.name);
    const box = h("input", { type: "checkbox", checked: isOn, disabled: !isOn && this.selected.length >= MAX_TASKS, on: { change: () => this.select(task.name, box.checked) } });
    return h("label", { class: "check" }, box, h("span", { class: "log-choice-name" }, task.name), badge(task.state, task.kind));
  }

  select(name, isOn) {
    this.selected = isOn ? [...this.selected, name].slice(0, MAX_TASKS) : this.selected.filter((each) => each !== name);
    setText(this.picker.querySelector(".log-picked"), this.selected.join(", ") || "Select tasks");
    this.fillPicker(this.picker.querySelector("input").value.trim());
    this.changed({ task: this.selected, attempt: "" });
  }

  /** Stores a choice in the URL, and opens the logs of it. */
  changed(query) {
    this.page.setQuery(query);
    this.attempt = this.page.query.get("attempt");
    this.closePanes();
    this.open();
  }

  // The logs.

  sources() {
    return this.selected.map((name, number) => {
      const task = this.tasks.find((each) => each.name === name);
      const dash = name.lastIndexOf("-");
      const [role, index] = [name.slice(0, dash), name.slice(dash + 1)];
      const past = this.attempt ? this.pastAttempts(name).find(({ label }) => label === this.attempt) : null;
      return { number, label: name, namespace: this.page.params.namespace, pod: `${this.page.params.name}-${role}-${index}`, container: this.container.value || null, uid: past?.podUid ?? null, task };
    });
  }

  open() {
    this.drawAttempts();
    this.drawContainers();
    const sources = this.sources();
    const groups = this.split ? sources.map((source) => [source]) : sources.length ? [sources] : [];
    this.options.labels = !this.split && sources.length > 1 ? Math.max(...sources.map(({ label }) => label.length)) + 1 : 0;
    this.stop = new AbortController();
    this.signal.addEventListener("abort", () => this.stop.abort(), { once: true });
    this.panes = groups.map((group) => new Pane(group, this));
    replace(this.area, groups.length ? this.panes.map((pane) => pane.element) : this.emptyText());
    this.area.classList.toggle("split", groups.length > 1);
    this.redraw();
    this.showState();
  }

  emptyText() {
    const text = this.tasks.length ? "Select the tasks whose logs are shown." : "The Framework has no tasks yet: its logs are shown when it runs.";
    return h("div", { class: "card empty" }, h("p", {}, text), h("a", { class: "button", href: link(["frameworks", this.page.params.namespace, this.page.params.name]) }, "Back to the Framework"));
  }

  drawAttempts() {
    const past = this.selected.length === 1 ? this.pastAttempts(this.selected[0]) : [];
    this.attempts.hidden = !past.length;
    replace(this.attempts, h("option", { value: "" }, "current attempt"), past.map(({ label, exit }) => h("option", { value: label }, `attempt ${label}: ${exit}`)));
    this.attempts.value = past.some(({ label }) => label === this.attempt) ? this.attempt : "";
    this.attempt = this.attempts.value || null;
  }

  /** Returns the attempts of a task whose pods are known, without the current one. */
  pastAttempts(name) {
    return taskAttempts(this.framework, this.records, name).slice(1).filter(({ podUid }) => podUid);
  }

  drawContainers() {
    const name = this.selected[0] ?? "";
    const role = this.roles.find((each) => each.name === name.slice(0, name.lastIndexOf("-")));
    const spec = role?.task?.pod?.spec ?? {};
    const names = [...(spec.containers ?? []), ...(spec.initContainers ?? [])].map((each) => each.name);
    const wanted = this.page.query.get("container");
    this.container.hidden = names.length < 2;
    replace(this.container, names.map((each) => h("option", { value: each }, each)));
    this.container.value = names.includes(wanted) ? wanted : names[0] ?? "";
  }

  closePanes() {
    this.stop?.abort();
    for (const pane of this.panes) pane.view.close();
    this.panes = [];
  }

  redraw() {
    for (const pane of this.panes) pane.view.update();
    this.showCount();
  }

  showCount() {
    const { query } = this.options;
    const count = query ? this.panes.reduce((sum, pane) => sum + pane.buffer.lines.filter((line) => matches(line, query)).length, 0) : 0;
    setText(this.found, query ? counted(count, "line") : "");
  }

  showState() {
    const lines = this.panes.reduce((sum, pane) => sum + pane.buffer.lines.length, 0);
    const dropped = this.panes.reduce((sum, pane) => sum + pane.buffer.dropped, 0);
    const states = this.panes.flatMap((pane) => pane.states());
    setText(this.state, [counted(lines, "line"), dropped > 0 && `older lines are not kept (at most ${MAX_LINES.toLocaleString()})`, ...states].filter(Boolean).join(" · "));
    setConnection(this.panes.every((pane) => pane.isConnected()) ? "live" : "reconnecting");
  }

  // What the user does.

  isFollowing() {
    return this.toggles.follow.getAttribute("aria-pressed") === "true";
  }

  setFollow(isOn) {
    this.showFollow(isOn);
    for (const pane of this.panes) pane.view.setFollow(isOn);
  }

  showFollow(isOn) {
    this.toggles.follow.setAttribute("aria-pressed", String(isOn));
  }

  toggle(key, isOn) {
    if (key === "follow") return this.setFollow(isOn);
    this.toggles[key].setAttribute("aria-pressed", String(isOn));
    if (key === "split") {
      this.split = isOn;
      this.changed({ layout: isOn ? "split" : "" });
      return undefined;
    }
    this.options[key] = isOn;
    this.page.setQuery({ [{ wrap: "wrap", times: "times", onlyMatches: "matching" }[key]]: isOn ? "true" : "" });
    this.redraw();
    return undefined;
  }

  step(direction) {
    const pane = this.panes.find(({ view }) => view.element.contains(document.activeElement)) ?? this.panes[0];
    if (!pane || !this.options.query) return;
    const { number, count } = pane.view.showMatch(direction);
    setText(this.found, count ? `${number} of ${counted(count, "line")}` : "no line");
    announce(count ? `Match ${number} of ${count}` : "No match");
  }

  /** Saves the whole logs as files, one for each task. */
  async download() {
    for (const { source } of this.panes.flatMap((pane) => pane.streams)) {
      const query = { container: source.container, uid: source.uid, timestamps: this.options.times, limitBytes: MAX_DOWNLOAD_BYTES };
      const text = await getText(corePath("pods", source.namespace, source.pod, "log"), { query, signal: this.signal }).catch((error) => void setText(this.state, error.message));
      if (text === undefined) return;
      const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
      h("a", { href: url, download: `${source.pod}${source.container ? `.${source.container}` : ""}.log` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    }
  }
}

/** The logs of one task, or those of several merged by time. */
class Pane {
  constructor(sources, owner) {
    this.owner = owner;
    this.buffer = new LogBuffer();
    this.connections = new Map();
    this.dropped = 0;
    const label = `Log of ${sources.map((source) => source.label).join(", ")}`;
    this.view = new LogView(this.buffer, owner.options, { label, onFollow: (isOn) => owner.showFollow(isOn) });
    this.more = button("Older lines", () => this.loadOlder(), { kind: "small" });
    const heading = h("h2", { class: "log-heading" }, sources.map((source) => source.label).join(", "));
    this.element = h("div", { class: "log-pane card" }, h("div", { class: "log-pane-head" }, heading, this.more), this.view.element);
    const update = throttled(() => this.update(), UPDATE_MS, owner.stop.signal);
    this.streams = sources.map((source) => new LogStream(source, {
      signal: owner.stop.signal,
      onLines: (lines) => {
        this.dropped += this.buffer.add(lines);
        update();
      },
      onState: (text, isConnected) => {
        this.connections.set(source, { text, isConnected });
        update();
      },
    }));
    for (const stream of this.streams) stream.run();
  }

  update() {
    this.view.update(this.dropped);
    this.dropped = 0;
    if (this.owner.options.query) this.owner.count();
    this.owner.showState();
  }

  states() {
    return [...this.connections].filter(([, { text }]) => text).map(([source, { text }]) => `${source.label}: ${text}`);
  }

  isConnected() {
    return [...this.connections.values()].every(({ isConnected }) => isConnected);
  }

  /** Adds older lines of every task at the start, and keeps the position. */
  async loadOlder() {
    this.more.disabled = true;
    this.owner.setFollow(false);
    let added = 0;
    for (const stream of this.streams) {
      const held = this.buffer.lines.filter((line) => line.source === stream.source);
      const older = await stream.older(held).catch(() => []);
      const dropped = this.buffer.addOlder(older);
      added += Math.max(0, older.length - dropped);
    }
    this.view.keepPosition(added);
    this.more.disabled = false;
    announce(added ? `${added} older lines` : "There are no older lines");
    setText(this.more, added ? "Older lines" : "No older lines");
    this.owner.showState();
  }
}
