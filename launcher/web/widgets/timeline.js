// The timeline: tasks over time, one lane per task; above 300 tasks, bands with the number of tasks in each state.

import { button, h, update } from "../dom.js";
import { clock, duration, time } from "../format.js";
import { KINDS } from "../states.js";
import { resultKind } from "../tasks.js";
import { colour, scrolledCanvas, tooltip } from "./canvas.js";

/** More tasks are drawn as bands. */
export const MAX_LANES = 300;
const LANE = 20;
const BAND = 110;
const AXIS = 26;
const MIN_SPAN_MS = 1000;

/** Returns the parts of a task's lane, oldest first: {from, to (null: now), kind, text}. */
export function segments(task) {
  const parts = [];
  for (const attempt of task.history) {
    const [start, run, end] = [attempt.startTime, attempt.runTime, attempt.completionTime].map(time);
    if (start !== null && (run ?? end) > start) parts.push({ from: start, to: run ?? end, kind: "preparing", text: `attempt ${attempt.id + 1} waits` });
    if (run !== null) parts.push({ from: run, to: end, kind: "failed", text: `attempt ${attempt.id + 1} ${attempt.reason}`, retry: true });
    else parts.push({ from: end, to: end, kind: "failed", text: `attempt ${attempt.id + 1} ${attempt.reason}`, retry: true });
  }
  const number = `attempt ${task.retries + 1}`;
  if (task.attemptStart !== null && task.run !== task.attemptStart) {
    const waits = task.run ?? task.end;
    if (!(waits === null && task.kind === "running")) parts.push({ from: task.attemptStart, to: waits, kind: task.kind === "waiting" ? "waiting" : "preparing", text: `${number} waits` });
  }
  if (task.run !== null) {
    const kind = task.end === null ? (task.kind === "deleting" ? "deleting" : "running") : resultKind(task.completion);
    parts.push({ from: task.run, to: task.end, kind, text: `${number} ${KINDS[kind].label.toLowerCase()}` });
  }
  return parts;
}

/** Returns {element, setTasks}. */
export function timeline({ onOpen, signal }) {
  let tasks = [];
  let lanes = [];
  let bands = [];
  let range = { from: 0, to: 1 };
  let view = null;
  let live = false;

  const scrolled = scrolledCanvas({ label: "Timeline", contentHeight: () => AXIS + (bands.length ? bands.length * BAND : Math.max(lanes.length * LANE, LANE)), draw, maxHeight: 620, signal });
  const { canvas, element: scroller, redraw, place } = scrolled;
  const label = h("span", { class: "muted" });
  const legend = h("div", { class: "legend" });
  const host = h("div", { class: "canvas-host" }, scroller);
  const tip = tooltip(host);
  const element = h("div", { class: "timeline" },
    h("div", { class: "toolbar" },
      button("Zoom in", () => zoom(0.5), { kind: "small" }),
      button("Zoom out", () => zoom(2), { kind: "small" }),
      button("◀", () => pan(-0.25), { kind: "small", label: "Earlier" }),
      button("▶", () => pan(0.25), { kind: "small", label: "Later" }),
      button("Whole attempt", () => { view = null; redraw(); }, { kind: "small" }),
      label),
    legend,
    host);

  const shown = () => view ?? range;

  function zoom(factor, at = 0.5) {
    const { from, to } = shown();
    const span = Math.max((to - from) * factor, MIN_SPAN_MS);
    const centre = from + (to - from) * at;
    view = span >= range.to - range.from ? null : clamp(centre - span * at, span);
    redraw();
  }

  function pan(part) {
    const { from, to } = shown();
    view = clamp(from + (to - from) * part, to - from);
    redraw();
  }

  function clamp(from, span) {
    const start = Math.min(Math.max(from, range.from), Math.max(range.to - span, range.from));
    return { from: start, to: start + span };
  }

  function labelWidth(context) {
    context.font = "12px system-ui, sans-serif";
    return Math.min(160, Math.max(60, ...lanes.slice(0, 40).map(({ task }) => context.measureText(task.name).width + 12), ...bands.map(({ role }) => context.measureText(role).width + 12)));
  }

  function draw(context, width, height, top) {
    if (live) range.to = Math.max(range.to, Date.now());
    const { from, to } = shown();
    const left = labelWidth(context);
    const x = (at) => left + ((at - from) / (to - from)) * (width - left - 8);
    const colours = { text: colour("text"), muted: colour("muted"), line: colour("line"), surface: colour("surface") };
    // Below the bars.
    drawAxis(context, x, from, to, left, width, height, colours);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    if (bands.length) drawBands(context, x, left, width, top, colours);
    else drawLanes(context, x, left, width, height, top, colours);
    context.restore();
    label.textContent = `${clock(from)} – ${clock(to)}, ${duration((to - from) / 1000)}`;
  }

  function drawAxis(context, x, from, to, left, width, height, { muted, line }) {
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const ticks = Math.max(2, Math.floor((width - left) / 110));
    const step = niceStep((to - from) / ticks);
    context.strokeStyle = line;
    context.fillStyle = muted;
    context.lineWidth = 1;
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const position = Math.round(x(at)) + 0.5;
      context.beginPath();
      context.moveTo(position, AXIS - 4);
      context.lineTo(position, height);
      context.globalAlpha = 0.6;
      context.stroke();
      context.globalAlpha = 1;
      context.fillText(clock(at), Math.min(position + 3, width - 54), AXIS / 2);
    }
  }

  function drawLanes(context, x, left, width, height, top, { text, surface }) {
    const now = Date.now();
    const first = Math.floor(top / LANE);
    const last = Math.min(lanes.length, Math.ceil((top + height) / LANE));
    for (let i = first; i < last; i++) {
      const { task, parts } = lanes[i];
      const y = AXIS + i * LANE - top;
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillStyle = text;
      context.fillText(task.name, 0, y + LANE / 2, left - 6);
      context.save();
      context.beginPath();
      context.rect(left, y, width - left, LANE);
      context.clip();
      for (const part of parts) {
        const begin = x(part.from);
        const size = Math.max(x(part.to ?? now) - begin, 2);
        context.fillStyle = colour(`${part.kind}-fill`);
        if (part.kind === "waiting" || part.kind === "preparing") {
          // A thin line: the task waits.
          context.fillRect(begin, y + LANE / 2 - 1.5, size, 3);
        } else {
          context.fillRect(begin, y + 4, size, LANE - 8);
          if (size > 16) {
            context.fillStyle = surface;
            context.font = "10px system-ui, sans-serif";
            context.fillText(KINDS[part.kind].sign, begin + 4, y + LANE / 2 + 0.5);
          }
        }
      }
      for (const part of parts.filter((each) => each.retry)) {
        // Above the bars of both attempts.
        context.fillStyle = surface;
        context.beginPath();
        context.arc(x(part.to), y + LANE / 2, 8, 0, 2 * Math.PI);
        context.fill();
        context.fillStyle = colour("retrying");
        context.font = "600 13px system-ui, sans-serif";
        context.textAlign = "center";
        context.fillText("↻", x(part.to), y + LANE / 2 + 0.5);
        context.textAlign = "start";
      }
      context.restore();
    }
  }

  function drawBands(context, x, left, width, top, { text, muted }) {
    const { from, to } = shown();
    const buckets = Math.max(1, Math.floor((width - left - 8) / 3));
    const span = (to - from) / buckets;
    bands.forEach((band, i) => {
      const y = AXIS + i * BAND - top;
      const base = y + BAND - 18;
      const full = BAND - 34;
      context.font = "600 12px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillStyle = text;
      context.fillText(band.role, 0, y + 16, left - 6);
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = muted;
      context.fillText(`${band.tasks.length} tasks`, 0, y + 32, left - 6);
      const counts = density(band.parts, from, span, buckets);
      for (let bucket = 0; bucket < buckets; bucket++) {
        let bottom = base;
        for (const kind of ["running", "failed", "succeeded", "stopped", "deleting", "preparing", "waiting"]) {
          const number = counts[kind]?.[bucket] ?? 0;
          if (!number) continue;
          const size = (number / band.tasks.length) * full;
          context.fillStyle = colours(kind);
          // Without a gap to the next one.
          context.fillRect(x(from + bucket * span), bottom - size, x(from + span) - x(from) + 0.6, size);
          bottom -= size;
        }
      }
    });
  }

  function drawLegend() {
    const present = new Set(lanes.flatMap(({ parts }) => parts.map(({ kind }) => kind)));
    update(legend, Object.keys(KINDS).filter((kind) => present.has(kind)).map((kind) => h("span", { class: "legend-item" }, h("span", { class: ["swatch", `fill-${kind}`], "aria-hidden": "true" }, KINDS[kind].sign), KINDS[kind].label)));
  }

  const cache = new Map();
  function colours(kind) {
    if (!cache.has(kind)) cache.set(kind, colour(`${kind}-fill`));
    return cache.get(kind);
  }

  function timeAt(event) {
    const { x, width } = place(event);
    const left = labelWidth(canvas.getContext("2d"));
    const { from, to } = shown();
    return from + ((x - left) / (width - left - 8)) * (to - from);
  }

  function partAt(event) {
    const y = place(event).y - AXIS;
    const lane = bands.length ? null : lanes[Math.floor(y / LANE)];
    if (!lane || y < 0) return null;
    const at = timeAt(event);
    const part = lane.parts.find((each) => each.from <= at && at <= (each.to ?? Date.now()));
    return { task: lane.task, part };
  }

  /** Returns the numbers of tasks by state in the band and at the time below the pointer, or null. */
  function bandText(event) {
    const { y } = place(event);
    const band = bands[Math.floor((y - AXIS) / BAND)];
    const at = timeAt(event);
    if (!band || y < AXIS || at < range.from || at > range.to) return null;
    const counts = density(band.parts, at, 1, 1);
    const numbers = Object.entries(counts).filter(([, [number]]) => number > 0).map(([kind, [number]]) => `${number.toLocaleString()} ${KINDS[kind].label.toLowerCase()}`);
    return `${band.role} at ${clock(at)}: ${numbers.join(", ") || "no tasks"}`;
  }

  function laneText(event) {
    const found = partAt(event);
    if (!found) return null;
    const { task, part } = found;
    return part ? `${task.name}: ${part.text}, ${clock(part.from)} – ${part.to === null ? "now" : clock(part.to)} (${duration(((part.to ?? Date.now()) - part.from) / 1000)})` : task.name;
  }

  canvas.addEventListener("pointermove", (event) => {
    const text = bands.length ? bandText(event) : laneText(event);
    if (!text) return tip.hide();
    const box = host.getBoundingClientRect();
    return tip.show(text, event.clientX - box.left, event.clientY - box.top);
  });
  canvas.addEventListener("pointerleave", tip.hide);
  canvas.addEventListener("click", (event) => {
    const found = partAt(event);
    if (found) onOpen(found.task);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const { x, width } = place(event);
    zoom(event.deltaY < 0 ? 0.8 : 1.25, x / width);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const action = { "+": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1), ArrowDown: () => (scroller.scrollTop += LANE * 3), ArrowUp: () => (scroller.scrollTop -= LANE * 3) }[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
  const timer = setInterval(() => live && !document.hidden && redraw(), 1000);
  signal.addEventListener("abort", () => clearInterval(timer));

  return {
    element,
    canvas,
    setTasks(next, start, end) {
      tasks = next;
      cache.clear();
      lanes = tasks.map((task) => ({ task, parts: segments(task) }));
      drawLegend();
      bands = [];
      if (tasks.length > MAX_LANES) {
        const roles = new Map();
        for (const lane of lanes) {
          if (!roles.has(lane.task.role)) roles.set(lane.task.role, []);
          roles.get(lane.task.role).push(lane);
        }
        bands = [...roles].map(([role, each]) => ({ role, tasks: each, parts: each.flatMap(({ parts }) => parts) }));
        lanes = [];
      }
      live = end === null;
      range = { from: start, to: Math.max(end ?? Date.now(), start + MIN_SPAN_MS) };
      canvas.setAttribute("aria-label", `Timeline of ${tasks.length} tasks. Plus and minus zoom, arrow keys move. The table below lists the attempts.`);
      redraw();
    },
  };
}

/** Returns, for each kind, the number of parts that overlap the start of each bucket. */
export function density(parts, from, span, buckets) {
  const now = Date.now();
  const counts = {};
  for (const part of parts) {
    const row = (counts[part.kind] ??= new Float64Array(buckets + 1));
    const begin = Math.max(0, Math.ceil((part.from - from) / span));
    const end = Math.min(buckets, Math.max(begin + 1, Math.ceil(((part.to ?? now) - from) / span)));
    if (begin >= buckets || end <= 0) continue;
    row[begin] += 1;
    row[end] -= 1;
  }
  for (const row of Object.values(counts)) for (let i = 1; i <= buckets; i++) row[i] += row[i - 1];
  return counts;
}

function niceStep(milliseconds) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400].map((seconds) => seconds * 1000);
  return steps.find((step) => step >= milliseconds) ?? Math.ceil(milliseconds / 86_400_000) * 86_400_000;
}
