// The lines that a log view keeps: at most 50,000, in the order of their times, found by a search text.

import { expandTabs, plainText } from "./ansi.js";

export const MAX_LINES = 50_000;
/** Longer lines are cut in the view; the download has them whole. */
export const MAX_LINE_CHARACTERS = 2_000;
/** Raw text that is kept; the oldest lines are dropped. */
const MAX_CHARACTERS = 40_000_000;

/**
 * Returns a line. `time` is the RFC 3339 text before it, or empty; `key` sorts by time.
 * `raw` has its escape sequences, `text` has not.
 */
export function logLine(source, time, raw) {
  const kept = raw.length > MAX_LINE_CHARACTERS ? raw.slice(0, MAX_LINE_CHARACTERS) : raw;
  const expanded = expandTabs(kept);
  const cut = raw.length - kept.length;
  return { source, time, key: timeKey(time), raw: expanded, text: plainText(expanded), cut };
}

/** Returns a text that sorts as the time; fractions may have different numbers of digits. */
export function timeKey(time) {
  if (!time) return "";
  if (!time.endsWith("Z")) {
    const instant = Date.parse(time);
    return Number.isNaN(instant) ? "" : `${new Date(instant).toISOString().slice(0, -1)}000000`;
  }
  const fraction = time.slice(20, -1);
  return `${time.slice(0, 19)}.${fraction.padEnd(9, "0")}`;
}

/** Splits a line of `timestamps=true` into its time and the rest. */
export function splitTime(line) {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?/.exec(line);
  return match ? [match[1], line.slice(match[0].length)] : ["", line];
}

export class LogBuffer {
  constructor() {
    this.lines = [];
    /** Lines that were dropped at the start because of the limits. */
    this.dropped = 0;
    this._characters = 0;
  }

  /** Adds lines in the order of their times, and returns the number of lines dropped at the start. */
  add(batch) {
    if (!batch.length) return 0;
    const lines = this.lines;
    const first = batch.reduce((key, line) => (line.key && (!key || line.key < key) ? line.key : key), "");
    // Lines of several tasks arrive in bursts: those after the first new one are sorted again.
    let start = lines.length;
    while (start > 0 && first && lines[start - 1].key > first) start--;
    const late = lines.splice(start);
    const isMixed = late.length > 0 || batch.some((line) => line.source !== batch[0].source);
    for (const line of isMixed ? sortByTime(late.concat(batch)) : batch) lines.push(line);
    for (const line of batch) this._characters += line.raw.length;
    return this._trim();
  }

  /** Adds older lines before all others of their source; drops the oldest if there are too many. */
  addOlder(batch) {
    this.lines = sortByTime(batch.concat(this.lines));
    for (const line of batch) this._characters += line.raw.length;
    return this._trim();
  }

  clear() {
    this.lines = [];
    this._characters = 0;
    this.dropped = 0;
  }

  _trim() {
    let count = Math.max(0, this.lines.length - MAX_LINES);
    let freed = 0;
    for (let i = 0; i < count; i++) freed += this.lines[i].raw.length;
    while (this._characters - freed > MAX_CHARACTERS && count < this.lines.length) freed += this.lines[count++].raw.length;
    if (count) this.lines.splice(0, count);
    this._characters -= freed;
    this.dropped += count;
    return count;
  }
}

/** Sorts by time; lines without one stay after the line before them. */
function sortByTime(lines) {
  let last = "";
  const keyed = lines.map((line, i) => [(last = line.key || last), i, line]);
  keyed.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));
  return keyed.map((entry) => entry[2]);
}

/** Returns the ranges [start, end) of `query` in `text`, without regard to case. */
export function matchRanges(text, query) {
  const ranges = [];
  if (!query) return ranges;
  const haystack = text.toLowerCase();
  const needle = query.toLowerCase();
  // Some characters change their length in lower case; then positions would not fit.
  if (haystack.length !== text.length) return ranges;
  for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, at + needle.length)) ranges.push([at, at + needle.length]);
  return ranges;
}

export const matches = (line, query) => line.text.toLowerCase().includes(query.toLowerCase());
