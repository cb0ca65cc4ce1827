// Texts of times, durations and numbers.

import { h, setText } from "./dom.js";

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** Returns a duration in at most two units, as kubectl prints ages: 45s, 3m10s, 2h5m, 4d. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  for (let i = 0; i < UNITS.length; i++) {
    const [unit, size] = UNITS[i];
    if (whole < size * (size === 86400 ? 2 : 1)) continue;
    const count = Math.floor(whole / size);
    const next = UNITS[i + 1];
    const rest = next ? Math.floor((whole % size) / next[1]) : 0;
    return rest && count < 10 ? `${count}${unit}${rest}${next[0]}` : `${count}${unit}`;
  }
  return `${whole}s`;
}

/** Returns milliseconds since 1970 of an RFC 3339 time, or null. */
export function time(text) {
  const value = text ? Date.parse(text) : NaN;
  return Number.isNaN(value) ? null : value;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** Returns date, time and zone. */
export const fullTime = (milliseconds) => FULL.format(milliseconds);

/** Returns hours, minutes and seconds in the zone of the browser. */
export const clock = (milliseconds) => CLOCK.format(milliseconds);

/** Returns {name, offset} of the time zone of the browser; the name is empty if it has none of its own. */
export function timeZone() {
  const { timeZone: name } = Intl.DateTimeFormat().resolvedOptions();
  const offset = -new Date().getTimezoneOffset();
  const sign = offset < 0 ? "−" : "+";
  const hours = String(Math.floor(Math.abs(offset) / 60)).padStart(2, "0");
  const minutes = String(Math.abs(offset) % 60).padStart(2, "0");
  const utc = offset === 0 ? "UTC" : `UTC${sign}${hours}:${minutes}`;
  return { name: name && name !== "UTC" ? name : "", offset: utc };
}

/** Returns the age of a time as an element that `refreshAges` keeps current. */
export function age(text) {
  const value = time(text);
  if (value === null) return h("span", { class: "muted" }, "–");
  return h("time", { class: "age", datetime: text, title: fullTime(value) }, duration((Date.now() - value) / 1000));
}

/** Sets the text of all ages within `root` to the current one. */
export function refreshAges(root) {
  for (const element of root.querySelectorAll("time.age")) {
    setText(element, duration((Date.now() - Date.parse(element.dateTime)) / 1000));
  }
}

/** Returns "1 task", "2 tasks", with the number in the user's notation. */
export function counted(number, noun) {
  return `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;
}
