// The tabs of a Framework's page. Each is {title, create(panel, page)}; create returns {update(data)}.
// data: framework, attempt (the chosen one), tasks (of that attempt), isCurrent.

import { corePath, frameworksPath, get, getText } from "../api.js";
import { button, copyButton, h, replace, setText, throttled, update } from "../dom.js";
import { age, counted, duration, time } from "../format.js";
import { link, open } from "../router.js";
import { badge, KINDS } from "../states.js";
import { countKinds, exitText, reasonText } from "../tasks.js";
import { taskGrid } from "./grid.js";
import { stragglers } from "./stragglers.js";
import { pagedTable } from "./task_table.js";
import { timeline } from "./timeline.js";

const EVENTS_MS = 5000;
const EVENTS_PAGE = 500;
const MAX_EVENT_PAGES = 4;

export const TABS = {
  tasks: { title: "Tasks", create: tasksTab },
  timeline: { title: "Timeline", create: timelineTab },
  stragglers: { title: "Stragglers", create: stragglers },
  events: { title: "Events", create: eventsTab },
  yaml: { title: "YAML", create: yamlTab },
};

/** Returns the URL of a task's page. */
export function taskLink({ namespace, name }, task) {
  return link(["frameworks", namespace, name, "tasks", task.role, String(task.index)]);
}

const runSeconds = (task) => (task.run === null ? null : ((task.end ?? Date.now()) - task.run) / 1000);

function tasksTab(panel, page) {
  let data = null;
  const asTable = () => page.query.get("view") === "table";
  const kind = () => page.query.get("kind");
  const grid = taskGrid({
    onOpen: (task) => open(taskLink(page.params, task)),
    text: (task) => [task.name, KINDS[task.kind].label, task.retries ? `attempt ${task.retries + 1}` : "", task.node ? `on ${task.node}` : "", reasonText(task)].filter(Boolean).join(" · ").slice(0, 300),
    signal: page.signal,
  });
  const table = pagedTable({
    caption: "Tasks",
    columns: [
      { name: "Task", cell: (task) => h("a", { href: taskLink(page.params, task) }, task.name), value: (task) => task.role + String(task.index).padStart(6, "0") },
      { name: "State", cell: (task) => badge(task.state, task.kind), value: (task) => task.kind },
      { name: "Attempt", number: true, cell: (task) => task.retries + 1, value: (task) => task.retries },
      { name: "Node", cell: (task) => task.node ?? "–", value: (task) => task.node },
      { name: "Runs for", number: true, cell: (task) => (task.run === null ? "–" : duration(runSeconds(task))), value: runSeconds },
      { name: "Exit", cell: (task) => exitText(task.completion) || "–", value: (task) => exitText(task.completion) },
      { name: "Why", class: "why", cell: (task) => h("span", { class: "clamp text", title: reasonText(task) }, reasonText(task)) },
    ],
  });
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Tasks by state" });
  const views = h("div", { class: "segmented", role: "group", "aria-label": "View" }, ["grid", "table"].map((view) => button(view === "grid" ? "Grid" : "Table", () => choose({ view: view === "grid" ? "" : view }), { kind: "small", data: { view } })));
  const content = h("div");
  panel.append(h("div", { class: "toolbar" }, legend, h("span", { class: "end" }, views)), content);

  function choose(changes) {
    page.setQuery(changes);
    draw();
  }

  function drawLegend(counts) {
    const kinds = Object.keys(KINDS).filter((each) => counts.get(each));
    update(legend, kinds.map((each) => h("button", {
      type: "button", class: "state-chip", "aria-pressed": String(kind() === each), data: { kind: each },
      on: { click: () => choose({ kind: kind() === each ? "" : each }) },
    }, h("span", { class: ["swatch", `fill-${each}`], "aria-hidden": "true" }, KINDS[each].sign), `${KINDS[each].label} `, h("strong", {}, counts.get(each).toLocaleString()))));
  }

  function draw() {
    if (!data) return;
    const { tasks } = data;
    drawLegend(countKinds(tasks));
    for (const each of views.children) each.setAttribute("aria-pressed", String((each.dataset.view === "table") === asTable()));
    const wanted = !tasks.length ? null : asTable() ? table.element : grid.element;
    if (!wanted) replace(content, h("p", { class: "muted" }, "No tasks have been created yet. The message above explains what the Framework waits for."));
    else if (content.firstChild !== wanted) replace(content, wanted);
    if (asTable()) table.setRows(kind() ? tasks.filter((task) => task.kind === kind()) : tasks);
    else grid.setTasks(byRole(tasks), kind());
  }

  return { update: (next) => { data = next; draw(); } };
}

/** Returns the tasks by role, each with a summary of its states. */
function byRole(tasks) {
  const roles = new Map();
  for (const task of tasks) {
    if (!roles.has(task.role)) roles.set(task.role, []);
    roles.get(task.role).push(task);
  }
  return [...roles].map(([name, each]) => {
    const counts = [...countKinds(each)].map(([kind, number]) => `${number.toLocaleString()} ${KINDS[kind].label.toLowerCase()}`);
    return { name, tasks: each, summary: `${counted(each.length, "task")}: ${counts.join(", ")}` };
  });
}

function timelineTab(panel, page) {
  const chart = timeline({ onOpen: (task) => open(taskLink(page.params, task)), signal: page.signal });
  const retries = pagedTable({
    caption: "Retries",
    noun: "retried attempt", empty: "No task was retried.",
    columns: [
      { name: "Task", cell: ({ task }) => h("a", { href: taskLink(page.params, task) }, task.name), value: ({ task }) => task.name },
      { name: "Attempt", number: true, cell: ({ attempt }) => attempt.id + 1, value: ({ attempt }) => attempt.id },
      { name: "Ended", number: true, cell: ({ attempt }) => age(attempt.completionTime), value: ({ attempt }) => time(attempt.completionTime) },
      { name: "Exit", cell: ({ attempt }) => attempt.exitCode ?? attempt.phrase, value: ({ attempt }) => attempt.exitCode ?? null },
      { name: "Reason", class: "why", cell: ({ attempt }) => h("span", { class: "clamp text", title: attempt.reason }, attempt.reason) },
      { name: "Counted", cell: ({ attempt }) => (attempt.counted ? "yes" : `no: ${attempt.uncountedReason ?? ""}`) },
    ],
    sort: 2, descending: true,
  });
  panel.append(chart.element, h("h3", { class: "sub-title" }, "Retries and their reasons"), retries.element);
  return {
    update({ attempt, tasks }) {
      const start = time(attempt?.startTime) ?? Date.now();
      chart.setTasks(tasks, start, time(attempt?.completionTime));
      retries.setRows(tasks.flatMap((task) => task.history.map((each) => ({ task, attempt: each }))));
    },
  };
}

const lastSeen = (event) => event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? event.metadata.creationTimestamp;
const newestFirst = (events) => events.map((event) => ({ ...event, last: lastSeen(event) })).sort((a, b) => (a.last < b.last ? 1 : -1));

/** Returns the events of one object, the newest first. */
export async function readEvents(namespace, kind, name, signal) {
  const query = { fieldSelector: `involvedObject.kind=${kind},involvedObject.name=${name}`, limit: EVENTS_PAGE };
  const { items } = await get(corePath("events", namespace), { query, signal });
  return newestFirst(items);
}

/**
 * Returns {events, isCut}: the events of a Framework and of its pods, as `launcher events` selects them. A selector cannot
 * name several pods, so those of all pods of the namespace are read, within a limit; isCut is true if there are more.
 */
async function readFrameworkEvents({ metadata }, signal) {
  const { namespace, name, creationTimestamp } = metadata;
  const events = await readEvents(namespace, "Framework", name, signal);
  let token = "";
  for (let i = 0; i < MAX_EVENT_PAGES; i++) {
    const query = { fieldSelector: "involvedObject.kind=Pod", limit: EVENTS_PAGE, continue: token };
    const page = await get(corePath("events", namespace), { query, signal });
    // Earlier ones are those of a deleted Framework of the same name.
    events.push(...page.items.filter((event) => taskOf(event, name) && (event.firstTimestamp ?? lastSeen(event)) >= creationTimestamp));
    token = page.metadata.continue;
    if (!token) break;
  }
  return { events: newestFirst(events), isCut: Boolean(token) };
}

/** Returns the role and index of the task whose pod the event is about; null for other objects. */
function taskOf({ involvedObject: { kind, name } }, framework) {
  if (kind !== "Pod" || !name?.startsWith(`${framework}-`)) return null;
  const match = /^([a-z0-9]+)-([0-9]+)$/.exec(name.slice(framework.length + 1));
  return match && { role: match[1], index: match[2] };
}

/** Returns a table of events; `object(event)` returns what the event is about, if that differs. */
export function eventTable(object = null) {
  return pagedTable({
    caption: "Events", noun: "event", empty: "No events.",
    columns: [
      { name: "Last seen", number: true, cell: (event) => age(event.last), value: (event) => time(event.last) },
      { name: "Type", cell: (event) => (event.type === "Warning" ? h("span", { class: "badge state-retrying" }, h("span", { class: "sign", "aria-hidden": "true" }, "!"), "Warning") : event.type ?? ""), value: (event) => event.type ?? "" },
      { name: "Reason", cell: (event) => h("span", { class: "text" }, event.reason ?? ""), value: (event) => event.reason ?? "" },
      ...(object ? [{ name: "Object", class: "nowrap", cell: object, value: (event) => event.involvedObject.name }] : []),
      { name: "Message", class: "why", cell: (event) => h("span", { class: "text wrap" }, event.message ?? "") },
      { name: "Count", number: true, cell: (event) => event.count ?? event.series?.count ?? 1, value: (event) => event.count ?? 1 },
    ],
  });
}

function eventsTab(panel, page) {
  const { name } = page.params;
  const table = eventTable((event) => {
    const task = taskOf(event, name);
    return task ? h("a", { href: taskLink(page.params, task) }, `${task.role}-${task.index}`) : "Framework";
  });
  const error = h("p", { class: "error-text", role: "alert" });
  const hint = h("p", { class: "hint" });
  panel.append(error, table.element, hint);
  let framework = null;
  const read = throttled(async () => {
    try {
      const { events, isCut } = await readFrameworkEvents(framework, page.signal);
      table.setRows(events);
      setText(error, "");
      setText(hint, isCut ? `Only the first ${(EVENTS_PAGE * MAX_EVENT_PAGES).toLocaleString()} events of pods in the namespace were read; launcher events ${name} reads all.` : "");
    } catch (failure) {
      if (failure.name !== "AbortError") setText(error, failure.message);
    }
  }, EVENTS_MS, page.signal);
  return {
    update(data) {
      framework = data.framework;
      read();
    },
  };
}

function yamlTab(panel, page) {
  const { namespace, name } = page.params;
  const parts = ["spec", "status", "all"];
  const part = () => (parts.includes(page.query.get("part")) ? page.query.get("part") : "spec");
  const text = h("pre", { class: "yaml", tabindex: "0", role: "region", "aria-label": "YAML" });
  const choice = h("div", { class: "segmented", role: "group", "aria-label": "Part" }, parts.map((each) => button(each === "all" ? "Whole object" : each, () => { page.setQuery({ part: each === "spec" ? "" : each }); show(); }, { kind: "small", data: { part: each } })));
  panel.append(h("div", { class: "toolbar" }, choice, h("span", { class: "end" }, copyButton(() => text.textContent, "Copy the YAML"))), text);
  let yaml = "";
  let version = null;

  function show() {
    for (const each of choice.children) each.setAttribute("aria-pressed", String(each.dataset.part === part()));
    setText(text, part() === "all" ? yaml : section(yaml, part()));
  }

  return {
    async update({ framework }) {
      if (framework.metadata.resourceVersion === version) return;
      version = framework.metadata.resourceVersion;
      try {
        yaml = await getText(frameworksPath(namespace, name), { accept: "application/yaml", signal: page.signal });
        show();
      } catch (error) {
        if (error.name !== "AbortError") setText(text, error.message);
      }
    },
  };
}

/** Returns the lines of a top-level key of a YAML document. */
export function section(yaml, key) {
  const lines = yaml.split("\n");
  const first = lines.findIndex((line) => line.startsWith(`${key}:`));
  if (first < 0) return `${key}: {}`;
  const length = lines.slice(first + 1).findIndex((line) => /^[^\s-]/.test(line));
  return lines.slice(first, length < 0 ? undefined : first + 1 + length).join("\n").trimEnd();
}
