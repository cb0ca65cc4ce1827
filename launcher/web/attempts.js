// The attempts of tasks: in the current attempt of their Framework, and in earlier ones, which FrameworkAttempts record.

import { get, GROUP, path } from "./api.js";
import { time } from "./format.js";
import { exitText, reasonText, tasksOf } from "./tasks.js";

const MAX_RECORDS = 100;

/** Returns the number of the Framework's current attempt, from 1. */
export const currentAttempt = (framework) => (framework.status?.attemptStatus?.id ?? 0) + 1;

/** Returns the FrameworkAttempts of the Framework, oldest first; none if the user may not read them. */
export async function readRecords(framework, signal) {
  const { namespace, name, uid } = framework.metadata;
  if (currentAttempt(framework) === 1) return [];
  try {
    const query = { labelSelector: `FC_FRAMEWORK_NAME=${name}`, limit: MAX_RECORDS };
    const { items } = await get(path(GROUP, "namespaces", namespace, "frameworkattempts"), { query, signal });
    // Others are those of a deleted Framework of the same name.
    const own = (record) => record.metadata.ownerReferences?.some((owner) => owner.uid === uid);
    return items.filter(own).sort((a, b) => a.attempt - b.attempt);
  } catch (error) {
    if (error.status !== 403 && error.status !== 404) throw error;
    return [];
  }
}

/**
 * Returns the attempts of a task, the newest first. `label` is the number that `launcher attempts` prints: 2, or 3.2 for the
 * second one in the third attempt of the Framework. Times are milliseconds since 1970 or null.
 */
export function taskAttempts(framework, records, name) {
  const current = currentAttempt(framework);
  const label = (attempt, number) => (current === 1 ? String(number) : `${attempt}.${number}`);
  const all = [...records.map(({ attempt, attemptStatus }) => [attempt, attemptStatus]), [current, framework.status?.attemptStatus]];
  return all.reverse().flatMap(([attempt, status]) => {
    const task = tasksOf(status).find((each) => each.name === name);
    if (!task) return [];
    return [lastOf(task, label(attempt, task.retries + 1)), ...task.history.map((each) => earlier(each, label(attempt, each.id + 1))).reverse()];
  });
}

function lastOf(task, label) {
  return {
    label, kind: task.kind, exit: exitText(task.completion), reason: reasonText(task), node: task.node, podUid: task.podUid,
    start: task.attemptStart, run: task.run, end: task.end, ledger: "",
  };
}

function earlier(attempt, label) {
  const left = attempt.retriesLeft === undefined ? "" : `${attempt.retriesLeft} left`;
  const counted = attempt.counted ? "counted" : `not counted${attempt.uncountedReason ? `: ${attempt.uncountedReason}` : ""}`;
  return {
    label,
    kind: "failed",
    exit: attempt.exitCode === undefined ? attempt.phrase : `${attempt.exitCode}${attempt.signal ? ` (signal ${attempt.signal})` : ""}`,
    reason: attempt.failureRule ? `${attempt.reason} (rule ${attempt.failureRule})` : attempt.reason,
    node: attempt.podNodeName ?? null,
    podUid: attempt.podUID ?? null,
    start: time(attempt.startTime),
    run: time(attempt.runTime),
    end: time(attempt.completionTime),
    ledger: [attempt.retryReason, counted, left].filter(Boolean).join("; "),
  };
}
