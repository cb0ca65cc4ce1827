// States of Frameworks and tasks, as people read them: a word, a sign and a colour. The colour is never the only one.

import { h } from "./dom.js";

/** The completion code of a Framework that a user has stopped. */
const STOPPED_CODE = -210;

/** The kinds of states: the word, the sign, and the class of the colour. */
export const KINDS = {
  waiting: { label: "Waiting", sign: "◷" },
  preparing: { label: "Preparing", sign: "◔" },
  running: { label: "Running", sign: "▶" },
  deleting: { label: "Deleting", sign: "⌫" },
  retrying: { label: "Retrying", sign: "↻" },
  succeeded: { label: "Succeeded", sign: "✓" },
  failed: { label: "Failed", sign: "✕" },
  stopped: { label: "Stopped", sign: "■" },
  completed: { label: "Completed", sign: "●" },
  unknown: { label: "Unknown", sign: "?" },
};

const BY_STATE = {
  AttemptCreationPending: "waiting",
  AttemptCreationRequested: "preparing",
  AttemptPreparing: "preparing",
  AttemptRunning: "running",
  AttemptDeletionPending: "deleting",
  AttemptDeletionRequested: "deleting",
  AttemptDeleting: "deleting",
  AttemptCompleted: "retrying",
  Completed: "completed",
  Succeeded: "succeeded",
  Failed: "failed",
  Stopped: "stopped",
  Terminating: "deleting",
};

/** Returns the kind of a state's name. */
export function kindOf(state) {
  if (!state) return "waiting";
  return BY_STATE[state] ?? (state.startsWith("Retrying") ? "retrying" : "unknown");
}

/** Returns a badge with the sign and the word of a state. */
export function badge(state, kind = kindOf(state)) {
  const { sign, label } = KINDS[kind];
  const word = kind === "retrying" && state?.startsWith("Retrying") ? state : kind === "unknown" ? state : label;
  return h("span", { class: ["badge", `state-${kind}`], title: state || "not planned yet" }, h("span", { class: "sign", "aria-hidden": "true" }, sign), word);
}

/** Returns the state of a row of the list; in a cluster, the result of a completed Framework is a column of its own. */
export function stateOfRow({ cells, metadata }) {
  if (cells.State === "Completed") {
    if (cells.Execution === "Stop" && cells.Result !== "Succeeded") return "Stopped";
    return cells.Result || "Completed";
  }
  return metadata.deletionTimestamp ? "Terminating" : cells.State || "";
}

/** Returns the state of a Framework object, as the list shows it. */
export function stateOfFramework({ status = {}, metadata = {} }) {
  if (status.state === "Completed") {
    const completion = status.attemptStatus?.completionStatus ?? {};
    return completion.code === STOPPED_CODE ? "Stopped" : completion.type?.name ?? "Completed";
  }
  return metadata.deletionTimestamp ? "Terminating" : status.state ?? "";
}

/** Returns the numbers of tasks by kind, from counts by state. */
export function countsByKind(counts) {
  const result = new Map();
  for (const [state, number] of Object.entries(counts)) {
    const kind = kindOf(state);
    result.set(kind, (result.get(kind) ?? 0) + number);
  }
  return result;
}

const ORDER = Object.keys(KINDS);

/** Returns a bar of the tasks by state, with the numbers as its text for screen readers. */
export function taskBar(byKind, total) {
  const entries = [...byKind].filter(([, number]) => number > 0).sort(([a], [b]) => ORDER.indexOf(b) - ORDER.indexOf(a));
  const text = entries.map(([kind, number]) => `${number} ${KINDS[kind].label.toLowerCase()}`).join(", ");
  const bar = h("span", { class: "task-bar", role: "img", "aria-label": text || "no tasks yet", title: text });
  for (const [kind, number] of entries) {
    const part = h("span", { class: `fill-${kind}` });
    part.style.flexGrow = number / Math.max(total, 1);
    bar.append(part);
  }
  return bar;
}
