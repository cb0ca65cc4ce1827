// The watch stream of this tab: one at a time, closed while the tab is hidden, resumed by resourceVersion.

import { ApiError, table, watchTable } from "./api.js";

const MIN_DELAY_MS = 500;
const MAX_DELAY_MS = 5000;
/** A watch that no event ends is renewed after this time, so that a connection lost without a sign is noticed. */
const WATCH_SECONDS = 300;

const listeners = new Set();
let connection = "connecting";

/** Calls `listener` with "live", "connecting", "reconnecting" or "paused", now and at each change. */
export function onConnection(listener) {
  listeners.add(listener);
  listener(connection);
}

/** Sets the state of the connection, which the header shows. */
export function setConnection(state) {
  if (state === connection) return;
  connection = state;
  for (const listener of listeners) listener(state);
}

/**
 * Keeps a table current until `signal` is aborted.
 *
 * `onList(table)` is called with the first page, and again whenever it had to be listed anew. `onEvent(type, row)` is
 * called for each change after that: ADDED, MODIFIED or DELETED. `onError(error)` is called if the list is rejected;
 * then nothing follows. Interruptions are not errors: requests are repeated until the launcher responds.
 */
export async function follow(path, { query = {}, watchQuery = query, limit = 500, signal, onList, onEvent, onError }) {
  let page = null;
  let delay = MIN_DELAY_MS;
  while (!signal.aborted) {
    await visible(signal);
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    const pause = () => document.hidden && (setConnection("paused"), stop());
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", pause);
    const began = performance.now();
    try {
      if (page === null) {
        page = await table(path, { query: { ...query, limit }, signal: attempt.signal });
        onList(page);
      }
      await watchFrom(path, page, watchQuery, attempt.signal, onEvent);
      // The server ends each watch after some time; the next one continues it.
      if (performance.now() - began > MIN_DELAY_MS) continue;
    } catch (error) {
      const expired = error instanceof ApiError && error.status === 410;
      if (isFinal(error) || (expired && page === null)) {
        if (!signal.aborted) onError(error);
        return;
      }
      if (expired) page = null;
    } finally {
      stop();
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", pause);
    }
    if (performance.now() - began > MAX_DELAY_MS) delay = MIN_DELAY_MS;
    if (signal.aborted || document.hidden) continue;
    setConnection("reconnecting");
    await sleep(delay * (0.5 + Math.random()), signal);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }
}

async function watchFrom(path, page, query, signal, onEvent) {
  const request = {
    query: { ...query, resourceVersion: page.resourceVersion, timeoutSeconds: WATCH_SECONDS },
    signal,
    onOpen: () => setConnection("live"),
  };
  for await (const { type, row } of watchTable(path, page.columns, request)) {
    page.resourceVersion = row.metadata.resourceVersion;
    if (type !== "BOOKMARK") onEvent(type, row);
  }
}

/** Whether a repetition of the request would fail in the same way. */
function isFinal(error) {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429 && error.status !== 410;
}

/** Resolves when the tab is visible or the signal is aborted. */
export function visible(signal) {
  if (!document.hidden || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
  });
}

/** Resolves after so many milliseconds, or when the signal is aborted. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
