// The log of one container, followed through interruptions, restarts and retries of its task.

import { ApiError, corePath, get, lines, send } from "../api.js";
import { sleep, visible } from "../live.js";
import { logLine, splitTime, timeKey } from "./buffer.js";

export const FIRST_LINES = 1_000;
const OLDER_LINES = 5_000;
/** Lines by which the known part of a log is found in it. */
const COMPARED_LINES = 5;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 10_000;
/** While a task has no running container, its pod is read this often. */
const POLL_MS = 3_000;

/** The log of a task: `pod`, `container` (null: the only one) and, for an earlier attempt, `uid`. */
export class LogStream {
  /**
   * `onLines(lines)` is called with each part that arrives; `onState(text, isConnected)` whenever the state changes; an
   * empty text: the log is read.
   */
  constructor(source, { signal, onLines, onState }) {
    this.source = source;
    this._signal = signal;
    this._onLines = onLines;
    this._onState = onState;
    this._path = corePath("pods", source.namespace, source.pod, "log");
    /** The pod that existed before the log was requested: only the launcher itself names the pod of a log. */
    this._podUid = source.uid ?? null;
    this._reset(source.uid ?? null);
  }

  _reset(uid) {
    this._uid = uid;
    /** The time of the last line, and how many lines have it, so that a new connection repeats none. */
    this._last = { time: "", key: "", count: 0 };
    this._received = 0;
  }

  /** Follows the log until the signal is aborted or, for an earlier attempt, until its end. */
  async run() {
    let delay = RETRY_MS;
    while (!this._signal.aborted) {
      await visible(this._signal);
      try {
        const before = this._received;
        this._podUid ??= (await this._pod().catch(() => null))?.metadata.uid ?? null;
        const hasLog = await this._read();
        if (this._received > before) delay = RETRY_MS;
        if (this.source.uid) return this._onState("ended", true);
        await this._afterEnd(hasLog);
      } catch (error) {
        if (this._signal.aborted) return;
        if (this.source.uid && error instanceof ApiError && error.status === 404) return this._onState("The log is no longer kept.", true);
        this._onState(stateOf(error), error instanceof ApiError && error.status > 0);
        await sleep(delay, this._signal);
        delay = Math.min(delay * 2, MAX_RETRY_MS);
      }
    }
  }

  /** Reads until the log ends; returns false if the pod has none yet. A hidden tab closes the connection. */
  async _read() {
    const connection = new AbortController();
    const stop = () => connection.abort();
    const pause = () => document.hidden && stop();
    this._signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", pause);
    try {
      const from = this._last.time ? { sinceTime: this._last.time } : { tailLines: FIRST_LINES };
      const response = await send("GET", this._path, { query: { ...this._query(), ...from, follow: !this.source.uid }, accept: "*/*", signal: connection.signal });
      if (response.status === 204) return false;
      this._startRun(response.headers.get("Launcher-Pod-Uid") ?? this._podUid);
      this._onState("", true);
      await this._consume(response.body);
      return true;
    } catch (error) {
      if (document.hidden && error.name === "AbortError") return true;
      throw error;
    } finally {
      this._signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", pause);
    }
  }

  _query() {
    return { container: this.source.container, uid: this.source.uid, timestamps: true };
  }

  /** The log of another pod of the same task starts anew. */
  _startRun(uid) {
    if (uid && this._uid && uid !== this._uid) this._reset(uid);
    this._uid = uid ?? this._uid;
  }

  async _consume(body) {
    const skip = { ...this._last };
    let batch = [];
    let scheduled = null;
    const flush = () => {
      scheduled = null;
      const ready = batch;
      batch = [];
      if (ready.length && !this._signal.aborted) this._onLines(ready);
    };
    try {
      for await (const text of lines(body)) {
        const line = this._accept(text, skip);
        if (line) batch.push(line);
        scheduled ??= setTimeout(flush, 50);
      }
    } finally {
      clearTimeout(scheduled);
      flush();
    }
  }

  /** Returns the line; null if it was received before. */
  _accept(text, skip) {
    const [time, rest] = splitTime(text);
    const key = timeKey(time);
    if (key && skip.key && (key < skip.key || (key === skip.key && skip.count-- > 0))) return null;
    if (key) this._last = { time, key, count: key === this._last.key ? this._last.count + 1 : 1 };
    this._received += 1;
    return logLine(this.source, time, rest);
  }

  /** Returns the current pod of the task, or null. */
  _pod() {
    return get(corePath("pods", this.source.namespace, this.source.pod), { signal: this._signal }).catch(notFound);
  }

  /** Waits until the task may have more output: the container restarts, or the task is retried with another pod. */
  async _afterEnd(hasLog) {
    while (!this._signal.aborted) {
      await visible(this._signal);
      const pod = await this._pod();
      if (pod) this._podUid = pod.metadata.uid;
      if (!pod) {
        this._onState("The pod does not exist; the log continues when it is created again.", true);
      } else if (pod.metadata.uid !== this._uid || !["Succeeded", "Failed"].includes(pod.status?.phase)) {
        this._onState(hasLog ? "" : `The pod is ${(pod.status?.phase ?? "pending").toLowerCase()}.`, true);
        return void (await sleep(hasLog && pod.metadata.uid === this._uid ? RETRY_MS : POLL_MS / 2, this._signal));
      } else {
        this._onState(`ended: the pod has ${pod.status.phase.toLowerCase()}`, true);
      }
      await sleep(POLL_MS, this._signal);
    }
  }

  /** Returns up to 5,000 lines before `held`, the lines of this source; empty if there are none. */
  async older(held) {
    const query = { ...this._query(), tailLines: held.length + OLDER_LINES };
    const response = await send("GET", this._path, { query, accept: "*/*", signal: this._signal });
    const found = [];
    for await (const text of lines(response.body)) found.push(logLine(this.source, ...splitTime(text)));
    return found.slice(0, startOf(held.slice(0, COMPARED_LINES), found, found.length - held.length));
  }
}

/**
 * Returns where the lines `first` begin in `all`, at `last` or before: further lines may have been written meanwhile.
 * Times alone do not suffice, since many lines may have the same.
 */
function startOf(first, all, last) {
  const isSame = (line, i) => all[i]?.key === line.key && all[i].text === line.text;
  for (let start = last; start >= 0; start--) if (first.every((line, i) => isSame(line, start + i))) return start;
  return Math.max(0, last);
}

function stateOf(error) {
  if (error instanceof ApiError && error.status === 404) return "There is no such pod yet.";
  return error instanceof ApiError ? error.message : "The connection was interrupted.";
}

function notFound(error) {
  if (error instanceof ApiError && error.status === 404) return null;
  throw error;
}
