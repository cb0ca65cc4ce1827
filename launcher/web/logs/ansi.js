// Escape sequences in log lines: colours become classes, everything else is removed. The output is never HTML.

/** Everything that a terminal interprets: CSI, OSC and other escape sequences. The parameters of SGR are captured. */
const SEQUENCE = /\x1b(?:\[([0-9;:]*)m|\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[ -/]*[0-~]|$)|\x9b[0-?]*[ -/]*[@-~]/g;
/** Control characters, and those that change the direction of text. */
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
const TAB_WIDTH = 8;

/** The colours 16 to 255 and RGB are shown as the nearest of these, which are readable in both themes. */
const PALETTE = [
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
  [127, 127, 127], [255, 0, 0], [0, 255, 0], [255, 255, 0], [92, 92, 255], [255, 0, 255], [0, 255, 255], [255, 255, 255],
];

/** Returns the text of a line as a terminal would show it, without colours. */
export function plainText(line) {
  return /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/.test(line) ? clean(line.replace(SEQUENCE, "")) : line;
}

/** Returns the parts of a line as [{text, classes}], whose texts are together the plain text of the line. */
export function ansiParts(line) {
  if (!line.includes("\x1b") && !line.includes("\x9b")) return [{ text: plainText(line), classes: "" }];
  const parts = [];
  const style = newStyle();
  let position = 0;
  // A carriage return overwrites the line, whatever its colours are.
  const text = line.slice(overwrittenBefore(line));
  for (const match of text.matchAll(SEQUENCE)) {
    append(parts, text.slice(position, match.index), style);
    if (match[1] !== undefined) select(style, match[1]);
    position = match.index + match[0].length;
  }
  append(parts, text.slice(position), style);
  return parts.length ? parts : [{ text: "", classes: "" }];
}

/** Returns the line with tabs expanded, so that its width can be computed. */
export function expandTabs(line) {
  if (!line.includes("\t")) return line;
  let column = 0;
  return line.replace(/\t|[^\t]+/g, (part) => {
    const text = part === "\t" ? " ".repeat(TAB_WIDTH - (column % TAB_WIDTH)) : part;
    column += text.length;
    return text;
  });
}

function clean(text) {
  return text.slice(overwrittenBefore(text)).replace(CONTROL, (character) => shown(character));
}

/** Returns the position after the last carriage return that is followed by text. */
function overwrittenBefore(text) {
  return text.replace(/[\r\s]+$/, "").lastIndexOf("\r") + 1;
}

/** Returns a visible sign for a control character; a carriage return at the end of a line has none. */
function shown(character) {
  const code = character.charCodeAt(0);
  if (code === 13) return "";
  if (code < 32) return String.fromCharCode(0x2400 + code);
  return code === 127 ? "\u2421" : "\ufffd";
}

function append(parts, raw, style) {
  const text = raw.replace(CONTROL, (character) => shown(character));
  if (text) parts.push({ text, classes: classesOf(style) });
}

const newStyle = () => ({ color: null, background: null, flags: new Set() });
const FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const OFF = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

function classesOf({ color, background, flags }) {
  const names = [...flags].map((flag) => `ansi-${flag}`);
  if (color !== null) names.push(`ansi-fg-${color}`);
  if (background !== null) names.push(`ansi-bg-${background}`);
  return names.join(" ");
}

function select(style, parameters) {
  const codes = parameters.split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) Object.assign(style, newStyle());
    else if (FLAGS[code]) style.flags.add(FLAGS[code]);
    else if (OFF[code]) OFF[code].forEach((flag) => style.flags.delete(flag));
    else if (code >= 30 && code <= 37) style.color = code - 30;
    else if (code >= 40 && code <= 47) style.background = code - 40;
    else if (code >= 90 && code <= 97) style.color = code - 82;
    else if (code >= 100 && code <= 107) style.background = code - 92;
    else if (code === 39) style.color = null;
    else if (code === 49) style.background = null;
    else if (code === 38 || code === 48) {
      const [index, used] = extendedColor(codes.slice(i + 1));
      style[code === 38 ? "color" : "background"] = index;
      i += used;
    }
  }
}

/** Returns the index of the colour in the palette, and the number of parameters that name it. */
function extendedColor([mode, ...values]) {
  if (mode === 5) return [fromTable(values[0] || 0), 2];
  if (mode === 2) return [nearest(values.slice(0, 3)), 4];
  return [null, 1];
}

function fromTable(number) {
  if (number < 16) return number;
  if (number > 231) return nearest(Array(3).fill((number - 232) * 10 + 8));
  const level = (value) => (value ? value * 40 + 55 : 0);
  const cube = number - 16;
  return nearest([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

function nearest(rgb) {
  const distances = PALETTE.map((color) => color.reduce((sum, value, i) => sum + (value - (rgb[i] || 0)) ** 2, 0));
  return distances.indexOf(Math.min(...distances));
}
