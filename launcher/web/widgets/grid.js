// The task grid: one cell per task on a canvas, by role. Sign and colour show the state.

import { announce, h } from "../dom.js";
import { KINDS } from "../states.js";
import { colour, scrolledCanvas, tooltip } from "./canvas.js";

const HEAD = 26;
const GAP = 2;
const ROLE_GAP = 14;

/** Returns {element, setTasks, redraw}. `onOpen(task)` is called for a click or Enter, `text(task)` describes a task. */
export function taskGrid({ onOpen, text, signal }) {
  let roles = [];
  let total = 0;
  let filter = null;
  let layout = null;
  let selected = -1;
  let cells = [];

  const scrolled = scrolledCanvas({ label: "Tasks", contentHeight: (width) => arrange(width).height, draw, mark, signal });
  const { canvas, element, redraw, repaint, amend, place, reveal } = scrolled;
  const host = h("div", { class: "canvas-host" }, element);
  const tip = tooltip(host);

  function cellSize() {
    return total <= 60 ? 34 : total <= 300 ? 26 : total <= 2000 ? 18 : 12;
  }

  function arrange(width) {
    if (layout?.width === width && layout.roles === roles) return layout;
    const size = cellSize();
    const columns = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
    let top = 0;
    const blocks = roles.map((role) => {
      const rows = Math.ceil(role.tasks.length / columns);
      const block = { role, top, cellsTop: top + HEAD, rows };
      top += HEAD + rows * (size + GAP) + ROLE_GAP;
      return block;
    });
    layout = { width, roles, size, columns, blocks, height: Math.max(top - ROLE_GAP, 1) };
    return layout;
  }

  function draw(context, width, height, top) {
    const { blocks, size, columns } = arrange(width);
    const palette = colours();
    const step = size + GAP;
    for (const block of blocks) {
      if (block.top > top + height || block.cellsTop + block.rows * step < top) continue;
      drawHead(context, block, top, palette);
      const first = Math.max(0, Math.floor((top - block.cellsTop) / step));
      const last = Math.min(block.rows, Math.ceil((top + height - block.cellsTop) / step));
      const end = Math.min(last * columns, block.role.tasks.length);
      for (let i = first * columns; i < end; i++) drawTask(context, block, i, top, palette);
    }
  }

  /** Draws the heads of the roles, and the tasks that look different from those before. */
  function drawChanges(context, before) {
    const palette = colours();
    const { blocks, size, width } = layout;
    let number = 0;
    for (const block of blocks) {
      context.clearRect(0, block.top, width, HEAD);
      drawHead(context, block, 0, palette);
      block.role.tasks.forEach((task, i) => {
        const old = before[number++];
        if (old.kind === task.kind && !old.retries === !task.retries) return;
        const { x, y } = cellAt(block, i);
        context.clearRect(x - GAP / 2, y - GAP / 2, size + GAP, size + GAP);
        drawTask(context, block, i, 0, palette);
      });
    }
  }

  function colours() {
    const fills = {};
    for (const kind of Object.keys(KINDS)) fills[kind] = colour(`${kind === "completed" || kind === "unknown" ? "stopped" : kind}-fill`);
    return { fills, ink: colour("text"), muted: colour("muted"), surface: colour("surface") };
  }

  function drawHead(context, block, top, { ink, muted }) {
    context.fillStyle = ink;
    context.font = "600 13px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillText(block.role.name, 0, block.top + 12 - top);
    const nameWidth = context.measureText(block.role.name).width;
    context.fillStyle = muted;
    context.font = "12px system-ui, sans-serif";
    context.fillText(block.role.summary, nameWidth + 10, block.top + 12 - top);
  }

  function drawTask(context, block, i, top, { fills, surface, ink }) {
    const task = block.role.tasks[i];
    const { x, y } = cellAt(block, i);
    context.globalAlpha = filter && task.kind !== filter ? 0.15 : 1;
    drawCell(context, task, x, y - top, layout.size, fills[task.kind], surface, ink);
    context.globalAlpha = 1;
  }

  /** Returns the place of a role's task in the content. */
  function cellAt(block, i) {
    const step = layout.size + GAP;
    return { x: (i % layout.columns) * step, y: block.cellsTop + Math.floor(i / layout.columns) * step };
  }

  /** Draws a frame around the selected task. */
  function mark(context, top) {
    const cell = selected >= 0 && placeOf(selected);
    if (!cell || document.activeElement !== canvas) return;
    context.strokeStyle = colour("focus");
    context.lineWidth = 2.5;
    context.strokeRect(cell.x - 1.5, cell.y - top - 1.5, layout.size + 3, layout.size + 3);
  }

  function placeOf(number) {
    let before = 0;
    for (const block of layout.blocks) {
      const i = number - before;
      if (i < block.role.tasks.length) return cellAt(block, i);
      before += block.role.tasks.length;
    }
    return null;
  }

  function taskAt(event) {
    const { x, y, width } = place(event);
    const { blocks, size, columns } = layout ?? arrange(width);
    const step = size + GAP;
    for (const block of blocks) {
      const row = Math.floor((y - block.cellsTop) / step);
      const column = Math.floor(x / step);
      if (row < 0 || row >= block.rows || column >= columns) continue;
      return block.role.tasks[row * columns + column] ?? null;
    }
    return null;
  }

  canvas.addEventListener("pointermove", (event) => {
    const task = taskAt(event);
    canvas.style.cursor = task ? "pointer" : "default";
    const box = host.getBoundingClientRect();
    if (task) tip.show(text(task), event.clientX - box.left, event.clientY - box.top);
    else tip.hide();
  });
  canvas.addEventListener("pointerleave", tip.hide);
  canvas.addEventListener("click", (event) => {
    const task = taskAt(event);
    if (task) onOpen(task);
  });
  canvas.addEventListener("focus", () => {
    if (selected < 0 && cells.length) selected = 0;
    repaint();
  });
  canvas.addEventListener("blur", repaint);
  canvas.addEventListener("keydown", (event) => {
    const columns = layout?.columns ?? 1;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -Infinity, End: Infinity, PageDown: columns * 10, PageUp: -columns * 10 }[event.key];
    if (event.key === "Escape") return tip.hide();
    if (event.key === "Enter" && cells[selected]) return onOpen(cells[selected]);
    if (step === undefined || !cells.length) return undefined;
    event.preventDefault();
    selected = Math.min(Math.max(selected + step, 0), cells.length - 1);
    const { y } = placeOf(selected);
    reveal(y - HEAD, y + layout.size + 4);
    announce(text(cells[selected]));
    repaint();
    return undefined;
  });

  return {
    element: host,
    canvas,
    redraw,
    setTasks(groups, shownKind) {
      const isSame = layout && filter === shownKind && groups.length === roles.length && groups.every((role, i) => role.name === roles[i].name && role.tasks.length === roles[i].tasks.length);
      const before = cells;
      roles = groups;
      cells = groups.flatMap((role) => role.tasks);
      total = cells.length;
      filter = shownKind;
      layout = isSame ? { ...layout, roles, blocks: layout.blocks.map((block, i) => ({ ...block, role: groups[i] })) } : null;
      selected = Math.min(selected, cells.length - 1);
      canvas.setAttribute("aria-label", `${total} tasks. Arrow keys select a task, Enter opens it. The table shows the same tasks.`);
      // Most updates change few of the tasks.
      if (isSame) amend((context) => drawChanges(context, before));
      else redraw();
    },
  };
}

function drawCell(context, task, x, y, size, fill, surface, ink) {
  context.fillStyle = fill;
  const waits = task.kind === "waiting" || task.kind === "preparing";
  if (waits) {
    // Only an outline: nothing runs yet.
    context.lineWidth = size > 14 ? 2 : 1.5;
    context.strokeStyle = fill;
    context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    if (task.kind === "preparing") context.fillRect(x + 1, y + size / 2, size - 2, size / 2 - 1);
  } else {
    context.fillRect(x, y, size, size);
  }
  if (size >= 18) {
    context.fillStyle = waits ? ink : surface;
    context.font = `${size >= 26 ? "600 12px" : "9px"} system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const sign = KINDS[task.kind].sign;
    context.fillText(sign, x + size / 2, y + size / 2 + 0.5);
    context.textAlign = "start";
  } else if (task.kind === "failed") {
    context.strokeStyle = surface;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x + 2.5, y + 2.5);
    context.lineTo(x + size - 2.5, y + size - 2.5);
    context.moveTo(x + size - 2.5, y + 2.5);
    context.lineTo(x + 2.5, y + size - 2.5);
    context.stroke();
  } else if (task.kind === "succeeded") {
    context.fillStyle = surface;
    context.fillRect(x + size / 2 - 1, y + size / 2 - 1, 2, 2);
  }
  if (task.retries) {
    // A retried task has a notch.
    context.fillStyle = surface;
    context.beginPath();
    context.moveTo(x + size, y);
    context.lineTo(x + size - size / 3, y);
    context.lineTo(x + size, y + size / 3);
    context.fill();
  }
}
