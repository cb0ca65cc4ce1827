// A canvas of the size of its viewport that scrolls over larger content. It is drawn at most once per frame.

import { h } from "../dom.js";

/**
 * Returns {element, canvas, redraw, size}. `contentHeight(width)` returns the height of the whole content, and
 * `draw(context, width, height, top)` draws the part of it that begins at `top`.
 */
export function scrolledCanvas({ label, contentHeight, draw, maxHeight = 560, signal }) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const spacer = h("div", { class: "canvas-spacer" }, canvas);
  const element = h("div", { class: "canvas-scroll" }, spacer);
  const context = canvas.getContext("2d");
  let frame = 0;
  const times = [];

  function paint() {
    frame = 0;
    const width = element.clientWidth;
    if (!width) return;
    const total = Math.ceil(contentHeight(width));
    const height = Math.min(total, maxHeight);
    element.style.height = `${height}px`;
    spacer.style.height = `${total}px`;
    const ratio = devicePixelRatio || 1;
    const began = performance.now();
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context, width, height, element.scrollTop);
    times.push(performance.now() - began);
    if (times.length > 300) times.shift();
  }

  const redraw = () => {
    frame ||= requestAnimationFrame(paint);
  };
  element.addEventListener("scroll", redraw, { passive: true });
  const observer = new ResizeObserver(redraw);
  observer.observe(element);
  const theme = new MutationObserver(redraw);
  theme.observe(document.documentElement, { attributes: true });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);
  signal.addEventListener("abort", () => {
    observer.disconnect();
    theme.disconnect();
    dark.removeEventListener("change", redraw);
    cancelAnimationFrame(frame);
  });
  // For measurements: the milliseconds of the last frames.
  canvas.frameTimes = times;
  return { element, canvas, redraw };
}

/** Returns the current value of a colour variable of app.css. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Returns an element that shows a text next to the pointer: `show(text, x, y)`, `hide()`. */
export function tooltip(host) {
  const element = h("div", { class: "tooltip", role: "presentation", hidden: true });
  host.append(element);
  return {
    show(text, x, y) {
      element.textContent = text;
      element.hidden = false;
      const left = Math.min(x + 12, host.clientWidth - element.offsetWidth - 4);
      element.style.left = `${Math.max(0, left)}px`;
      element.style.top = `${y + 16}px`;
    },
    hide: () => (element.hidden = true),
  };
}
