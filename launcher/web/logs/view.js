// A scrolling view of the lines of a buffer. Only the lines that are visible have elements, whatever the number of lines.

import { h, replace } from "../dom.js";
import { ansiParts } from "./ansi.js";
import { matches, matchRanges } from "./buffer.js";

const EXTRA_ROWS = 20;
/** Distance from the end at which the view follows new lines. */
const END_PIXELS = 4;
/** Here the dates of lines are not shown. */
const NARROW = matchMedia("(max-width: 720px)");

export class LogView {
  /** `options` ({wrap, times, query, onlyMatches, labels}) are read at each `update`; `onFollow(isOn)` reports scrolling. */
  constructor(buffer, options, { label, onFollow, onScrollStart }) {
    this._buffer = buffer;
    this._options = options;
    this._onFollow = onFollow;
    this.follows = true;
    this._window = h("div", { class: "log-window" });
    this._spacer = h("div", { class: "log-spacer" }, this._window);
    this._probe = h("span", { class: "log-probe", "aria-hidden": "true" }, "0".repeat(100));
    this.element = h("div", { class: "log-lines", tabindex: "0", role: "region", "aria-label": label, on: { scroll: () => this._scrolled(), keydown: (event) => this._key(event) } }, this._spacer, this._probe);
    this._onScrollStart = onScrollStart;
    this._current = null;
    /** Rows before each line of `_shown`, and in all; null if each line is one row. */
    this._offsets = null;
    this._shown = buffer.lines;
    this._observer = new ResizeObserver(() => this.update());
    this._observer.observe(this.element);
  }

  close() {
    this._observer.disconnect();
  }

  /** Shows the current lines and options; `dropped` lines were removed at the start since the last call. */
  update(dropped = 0) {
    const height = this._rowHeight();
    const removed = dropped && !this.follows ? this._rowsBefore(Math.min(dropped, this._shown.length)) * height : 0;
    const { wrap, query, onlyMatches } = this._options;
    this._shown = onlyMatches && query ? this._buffer.lines.filter((line) => matches(line, query)) : this._buffer.lines;
    this._offsets = wrap ? this._wrappedOffsets() : null;
    this.element.classList.toggle("wrap", wrap);
    this._spacer.style.height = `${this._rows() * height}px`;
    if (this.follows) this._toEnd();
    else if (removed) this.element.scrollTop = Math.max(0, this.element.scrollTop - removed);
    this._render();
  }

  /** Keeps the same lines visible after `count` lines were added at the start. */
  keepPosition(count) {
    const height = this._rowHeight();
    this.update();
    this.element.scrollTop += this._rowsBefore(Math.min(count, this._shown.length)) * height;
    this._render();
  }

  setFollow(isOn) {
    this.follows = isOn;
    if (isOn) this._toEnd();
    this._render();
  }

  /** Scrolls to the match after (`step` 1) or before (-1) the current one, and returns its number, from 1, and the count. */
  showMatch(step) {
    const { query } = this._options;
    const found = [];
    this._shown.forEach((line, i) => query && matches(line, query) && found.push(i));
    if (!found.length) return { number: 0, count: 0 };
    const current = this._current ? this._shown.indexOf(this._current) : -1;
    let position = found.findIndex((i) => (step > 0 ? i > current : i >= current));
    if (step > 0) position = position < 0 ? 0 : position;
    else position = position < 0 ? found.length - 1 : (position - 1 + found.length) % found.length;
    this._current = this._shown[found[position]];
    this._stopFollowing();
    this.element.scrollTop = this._rowsBefore(found[position]) * this._rowHeight() - this.element.clientHeight / 3;
    this._render();
    return { number: position + 1, count: found.length };
  }

  _rowHeight() {
    return this._probe.getBoundingClientRect().height || 18;
  }

  _columns() {
    const width = this._probe.getBoundingClientRect().width / 100 || 8;
    const prefix = (this._options.times ? (NARROW.matches ? 13 : 24) : 0) + this._options.labels;
    return Math.max(10, Math.floor((this.element.clientWidth - 24) / width) - prefix);
  }

  _wrappedOffsets() {
    const columns = this._columns();
    const offsets = new Float64Array(this._shown.length + 1);
    this._shown.forEach((line, i) => (offsets[i + 1] = offsets[i] + Math.max(1, Math.ceil(line.text.length / columns))));
    return offsets;
  }

  _rows() {
    return this._offsets ? this._offsets[this._shown.length] : this._shown.length;
  }

  _rowsBefore(index) {
    return this._offsets ? this._offsets[Math.min(index, this._offsets.length - 1)] : index;
  }

  /** Returns the line at so many rows from the start. */
  _lineAt(row) {
    if (!this._offsets) return Math.max(0, Math.min(Math.floor(row), this._shown.length));
    let low = 0;
    let high = this._shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this._offsets[middle + 1] <= row) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  _render() {
    const height = this._rowHeight();
    const top = this.element.scrollTop / height;
    const first = this._lineAt(Math.max(0, top - EXTRA_ROWS));
    const last = Math.min(this._shown.length, this._lineAt(top + this.element.clientHeight / height + EXTRA_ROWS) + 1);
    this._window.style.transform = `translateY(${this._rowsBefore(first) * height}px)`;
    replace(this._window, this._shown.slice(first, last).map((line) => this._row(line)));
  }

  _row(line) {
    const { times, labels, query } = this._options;
    return h("div", { class: ["log-line", line === this._current && "current"] },
      times && h("span", { class: "log-time" }, shownTime(line.time)),
      labels > 0 && h("span", { class: `log-source source-${line.source.number % 6}` }, line.source.label.padEnd(labels - 1), " "),
      h("span", { class: "log-text" }, content(line, query)),
      line.cut > 0 && h("span", { class: "log-cut" }, ` … ${line.cut.toLocaleString()} more characters; download the log to see them`),
    );
  }

  _toEnd() {
    this.element.scrollTop = this.element.scrollHeight;
  }

  _stopFollowing() {
    if (!this.follows) return;
    this.follows = false;
    this._onFollow(false);
  }

  _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    const atEnd = scrollTop + clientHeight >= scrollHeight - END_PIXELS;
    if (scrollTop < (this._lastTop ?? 0) && !atEnd) this._stopFollowing();
    else if (atEnd && !this.follows && scrollTop > (this._lastTop ?? 0)) {
      this.follows = true;
      this._onFollow(true);
    }
    if (scrollTop === 0 && (this._lastTop ?? 0) > 0) this._onScrollStart?.();
    this._lastTop = scrollTop;
    this._render();
  }

  _key(event) {
    if (event.key === "Home" || (event.key === "ArrowUp" && event.ctrlKey)) {
      this._stopFollowing();
      this.element.scrollTop = 0;
    } else if (event.key === "End") {
      this._toEnd();
    } else {
      return;
    }
    event.preventDefault();
  }
}

/** Returns the text of a line with its colours, and with its matches highlighted. */
function content(line, query) {
  const ranges = matchRanges(line.text, query);
  let position = 0;
  return ansiParts(line.raw).map(({ text, classes }) => {
    const start = position;
    position += text.length;
    const pieces = highlighted(text, start, ranges);
    return classes ? h("span", { class: classes }, pieces) : pieces;
  });
}

function highlighted(text, start, ranges) {
  const end = start + text.length;
  const pieces = [];
  let at = start;
  for (const [from, to] of ranges) {
    if (to <= start || from >= end) continue;
    if (from > at) pieces.push(text.slice(at - start, from - start));
    pieces.push(h("mark", {}, text.slice(Math.max(from, start) - start, Math.min(to, end) - start)));
    at = Math.min(to, end);
  }
  pieces.push(text.slice(at - start));
  return pieces;
}

/** Returns the date and the time with milliseconds, in the zone of the browser: 2026-01-31 12:00:00.123. */
function shownTime(time) {
  const instant = new Date(time);
  const pad = (value, length = 2) => String(value).padStart(length, "0");
  const isKnown = Boolean(time) && !Number.isNaN(instant.getTime());
  const day = isKnown ? `${instant.getFullYear()}-${pad(instant.getMonth() + 1)}-${pad(instant.getDate())} ` : " ".repeat(11);
  const clock = isKnown ? `${pad(instant.getHours())}:${pad(instant.getMinutes())}:${pad(instant.getSeconds())}.${pad(instant.getMilliseconds(), 3)} ` : " ".repeat(13);
  return [h("span", { class: "log-date" }, day), clock];
}
