// A canvas of the size of its viewport that scrolls over larger content. It is drawn at most once per frame.

import { h } from "../dom.js";

/** A larger picture of the whole content is not kept; some browsers have no canvas of more pixels. */
const MAX_PICTURE_PIXELS = 16_000_000;

/** Lengths on a canvas are pixels of a page with this font size; on a page with larger texts they are larger too. */
const FONT_PIXELS = 14;
const scale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / FONT_PIXELS;

/**
 * Returns {element, canvas, redraw, repaint, amend, place, reveal}. `contentHeight(width)` returns the height of the whole content,
 * and `draw(context, width, height, top)` draws the part of it that begins at `top`. `place(event)` returns the position of
 * the pointer in the content, and `reveal(top, bottom)` scrolls to a part of it.
 *
 * With `mark(context, top)` the content is drawn once, and scrolling copies a part of the picture, on which `mark` then
 * draws what changes more often. `redraw` draws everything anew, `repaint` only the marks, and `amend(drawChanges)` only
 * what `drawChanges(context)` draws over the picture.
 */
export function scrolledCanvas({ label, contentHeight, draw, mark, maxHeight = 560, signal }) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const spacer = h("div", { class: "canvas-spacer" }, canvas);
  const element = h("div", { class: "canvas-scroll" }, spacer);
  const context = canvas.getContext("2d");
  const picture = h("canvas");
  const pictured = picture.getContext("2d");
  let isCurrent = false;
  let frame = 0;
  const times = [];

  function paint() {
    frame = 0;
    const unit = scale();
    const width = element.clientWidth / unit;
    if (!width) return;
    const total = Math.ceil(contentHeight(width));
    const height = Math.min(total, maxHeight);
    element.style.height = `${height * unit}px`;
    spacer.style.height = `${total * unit}px`;
    const ratio = (devicePixelRatio || 1) * unit;
    const began = performance.now();
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width * unit}px`;
      canvas.style.height = `${height * unit}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const top = element.scrollTop / unit;
    if (mark && width * total * ratio * ratio <= MAX_PICTURE_PIXELS) copyPicture(width, height, total, top, ratio);
    else draw(context, width, height, top);
    mark?.(context, top);
    times.push(performance.now() - began);
    if (times.length > 300) times.shift();
  }

  function copyPicture(width, height, total, top, ratio) {
    const [across, down] = [Math.round(width * ratio), Math.round(total * ratio)];
    if (!isCurrent || picture.width !== across || picture.height !== down) {
      Object.assign(picture, { width: across, height: down });
      pictured.setTransform(ratio, 0, 0, ratio, 0, 0);
      draw(pictured, width, total, 0);
      isCurrent = true;
    }
    context.drawImage(picture, 0, top * ratio, across, height * ratio, 0, 0, width, height);
  }

  const repaint = () => {
    frame ||= requestAnimationFrame(paint);
  };
  const redraw = () => {
    isCurrent = false;
    repaint();
  };
  const amend = (drawChanges) => {
    if (!isCurrent) return redraw();
    drawChanges(pictured);
    return repaint();
  };
  element.addEventListener("scroll", repaint, { passive: true });
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
  return { element, canvas, redraw, repaint, amend, place, reveal };

  function place(event) {
    const box = canvas.getBoundingClientRect();
    const unit = scale();
    return { x: (event.clientX - box.left) / unit, y: (event.clientY - box.top + element.scrollTop) / unit, width: box.width / unit };
  }

  function reveal(top, bottom) {
    const unit = scale();
    if (top * unit < element.scrollTop) element.scrollTop = top * unit;
    else if (bottom * unit > element.scrollTop + element.clientHeight) element.scrollTop = bottom * unit - element.clientHeight;
  }
}

const colours = new Map();
const probe = h("span", { hidden: true });
document.body.append(probe);
new MutationObserver(() => colours.clear()).observe(document.documentElement, { attributes: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.clear());

/** Returns the colour of a variable of app.css in the current theme. */
export function colour(name) {
  if (!colours.has(name)) {
    // The variable has the colours of both themes; only that of a property is resolved.
    probe.style.color = `var(--${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
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
