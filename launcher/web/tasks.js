// The tasks in a Framework's status. Those of large Frameworks are folded: many tasks share one entry.

import { time } from "./format.js";
import { kindOf } from "./states.js";

/**
 * Returns all tasks of an attempt (`status.attemptStatus`, or that of a FrameworkAttempt), by role and index.
 * Times are milliseconds since 1970 or null.
 */
export function tasksOf(attempt) {
  const start = time(attempt?.startTime) ?? 0;
  return (attempt?.taskRoleStatuses ?? []).flatMap((role) => {
    const tasks = (role.taskStatuses ?? []).map((entry) => fullTask(role.name, entry));
    for (const entry of role.foldedTasks ?? []) unfold(role, entry, start, tasks);
    return tasks.sort((a, b) => a.index - b.index);
  });
}

function fullTask(role, entry) {
  const attempt = entry.attemptStatus ?? {};
  return task(role, entry.index, entry.state, {
    message: entry.message ?? "",
    start: time(entry.startTime),
    attemptStart: time(attempt.startTime),
    run: time(attempt.runTime),
    end: time(attempt.completionTime),
    completion: attempt.completionStatus ?? null,
    node: attempt.podNodeName ?? null,
    podUid: attempt.podUID ?? null,
    retries: entry.retryPolicyStatus?.totalRetriedCount ?? 0,
    history: entry.attemptHistory ?? [],
    entry,
  });
}

/** Completion codes of tasks that ended because the Framework did, or because they were removed. */
const CONSEQUENCES = new Set([-210, -220, -230]);

/** Returns the kind of a completed attempt. */
export function resultKind(completion) {
  if (completion?.type?.name === "Succeeded") return "succeeded";
  return CONSEQUENCES.has(completion?.code) ? "stopped" : "failed";
}

function task(role, index, state, values) {
  const kind = state !== "Completed" ? kindOf(state) : resultKind(values.completion);
  return { role, index, name: `${role}-${index}`, state, kind, ...values };
}

function unfold(role, entry, attemptStart, tasks) {
  const seconds = entry.secondsAfterAttemptStart ?? {};
  const at = (value, i) => (Array.isArray(value) ? value[i] : value);
  const timeAt = (name, i) => (seconds[name] === undefined ? null : attemptStart + at(seconds[name], i) * 1000);
  // A list holds positions in the role's table; anything else is the value of all tasks.
  const lookup = (value, values, i) => (Array.isArray(value) ? values[value[i]] : value);
  indexes(entry.indexes).forEach((index, i) => {
    tasks.push(task(role.name, index, entry.state, {
      message: lookup(entry.message ?? "", role.foldedMessages ?? [], i) ?? "",
      start: timeAt("startTime", i),
      attemptStart: timeAt("attemptStartTime", i),
      run: timeAt("attemptRunTime", i),
      end: timeAt("attemptCompletionTime", i),
      completion: lookup(entry.completionStatus ?? null, role.foldedCompletionStatuses ?? [], i) ?? null,
      node: null,
      podUid: at(entry.podUID ?? null, i),
      retries: at(entry.retryPolicyStatus?.totalRetriedCount ?? 0, i),
      history: [],
      entry: null,
    }));
  });
}

/** Returns the indexes in a text such as "0-3,7". */
export function indexes(text) {
  return text.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** Returns the numbers of tasks by kind. */
export function countKinds(tasks) {
  const counts = new Map();
  for (const { kind } of tasks) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

/** Returns the exit code of a completed task's container as text: "0", "137 (signal 9)", or empty. */
export function exitText(completion) {
  if (!completion) return "";
  const container = completion.pod?.containers?.find((each) => each.code !== 0) ?? completion.pod?.containers?.[0];
  const code = container?.code ?? (completion.code >= 0 ? completion.code : null);
  if (code === null) return completion.phrase || String(completion.code);
  return container?.signal ? `${code} (signal ${container.signal})` : String(code);
}

/** Returns why a task is in its state, in one line. */
export function reasonText(task) {
  if (task.message) return task.message;
  const completion = task.completion;
  if (!completion) return "";
  return completion.diagnostics || (completion.type?.name === "Succeeded" ? "" : completion.phrase || "");
}
