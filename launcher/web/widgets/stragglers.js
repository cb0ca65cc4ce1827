// Stragglers: tasks that start later, run longer or are silent for longer than the others of their role.

import { corePath, getText } from "../api.js";
import { button, h, replace, setText } from "../dom.js";
import { counted, duration, time } from "../format.js";
import { link } from "../router.js";
import { badge } from "../states.js";
import { pagedTable } from "./task_table.js";

/** A task must exceed the median by this factor and so many seconds. */
const FACTOR = 1.5;
const SECONDS = 5;
/** The last output is read for so many running tasks, so many at a time. */
const MAX_LOGS = 50;
const CONCURRENT = 6;

/** Returns the median; null of nothing. */
export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Returns for each task its seconds from creation to start and of its run, and how they compare with its role. */
export function compare(tasks, now, lastOutput = new Map()) {
  const roles = Map.groupBy ? Map.groupBy(tasks, (task) => task.role) : new Map([["", tasks]]);
  return [...roles.values()].flatMap((group) => {
    const rows = group.map((task) => ({
      task,
      start: task.attemptStart === null || (task.run === null && task.end !== null) ? null : ((task.run ?? now) - task.attemptStart) / 1000,
      run: task.run === null ? null : ((task.end ?? now) - task.run) / 1000,
      silent: task.end === null && lastOutput.has(task.name) ? (now - lastOutput.get(task.name)) / 1000 : null,
    }));
    const medians = Object.fromEntries(["start", "run", "silent"].map((name) => [name, median(rows.map((row) => row[name]).filter((value) => value !== null))]));
    return rows.map((row) => {
      const late = ["start", "run", "silent"].filter((name) => isLate(row[name], medians[name]));
      const score = Math.max(0, ...late.map((name) => row[name] - medians[name]));
      return { ...row, medians, late, score };
    });
  });
}

function isLate(value, middle) {
  return value !== null && middle !== null && value > middle * FACTOR && value > middle + SECONDS;
}

/** The tab. */
export function stragglers(panel, page) {
  let data = null;
  const lastOutput = new Map();
  const summary = h("p", { class: "muted" });
  const check = button("Read the last output of running tasks", () => readOutputs(), { kind: "small" });
  const compared = (name) => ({ late, medians, ...row }) => {
    if (row[name] === null) return "–";
    const text = `${duration(row[name])} (median ${duration(medians[name])})`;
    return late.includes(name) ? h("strong", {}, `${text} ▲`) : text;
  };
  const table = pagedTable({
    caption: "Stragglers",
    empty: "No task differs much from the others of its role.",
    columns: [
      { name: "Task", cell: ({ task }) => h("a", { href: link(["frameworks", page.params.namespace, page.params.name, "tasks", task.role, String(task.index)]) }, task.name), value: ({ task }) => task.name },
      { name: "State", cell: ({ task }) => badge(task.state, task.kind), value: ({ task }) => task.kind },
      { name: "Node", cell: ({ task }) => task.node ?? "–", value: ({ task }) => task.node },
      { name: "Until start", number: true, cell: compared("start"), value: (row) => row.start },
      { name: "Run", number: true, cell: compared("run"), value: (row) => row.run },
      { name: "Since last output", number: true, cell: compared("silent"), value: (row) => row.silent },
      { name: "Behind by", number: true, cell: (row) => duration(row.score), value: (row) => row.score },
    ],
    sort: 6, descending: true,
  });
  panel.append(h("div", { class: "toolbar" }, summary, h("span", { class: "end" }, check)), table.element);

  function draw() {
    const rows = compare(data.tasks, Date.now(), lastOutput);
    const late = rows.filter((row) => row.score > 0);
    setText(summary, `${counted(late.length, "task")} of ${rows.length.toLocaleString()}: more than ${FACTOR} times the median of the role, and at least ${SECONDS}s.`);
    check.hidden = !data.isCurrent || !data.tasks.some((task) => task.kind === "running");
    table.setRows(late);
  }

  async function readOutputs() {
    check.disabled = true;
    // Those that run longest come first.
    const running = data.tasks.filter((task) => task.kind === "running").sort((a, b) => a.run - b.run).slice(0, MAX_LOGS);
    const queue = [...running];
    await Promise.all(Array.from({ length: CONCURRENT }, async () => {
      while (queue.length && !page.signal.aborted) await readOutput(queue.shift());
    }));
    check.disabled = false;
    replace(check, "Read the last output again");
    if (!page.signal.aborted) draw();
  }

  async function readOutput(task) {
    const { namespace, name } = page.params;
    const role = data.framework.spec.taskRoles.find((each) => each.name === task.role);
    const container = role?.task?.pod?.spec?.containers?.[0]?.name;
    try {
      const line = await getText(corePath("pods", namespace, `${name}-${task.name}`, "log"), { query: { container, tailLines: 1, timestamps: "true" }, signal: page.signal });
      const at = time(line.split(" ", 1)[0]);
      if (at !== null) lastOutput.set(task.name, at);
    } catch {
      // The pod has just ended, or its log may not be read.
    }
  }

  return { update: (next) => { data = next; draw(); } };
}
