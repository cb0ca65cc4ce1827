// Objects as YAML, for people to read. Texts that YAML would read as something else are quoted.

const PLAIN = /^[A-Za-z_./$][A-Za-z0-9_./$ @%+=-]*$/;
const WORD = /^(?:true|false|yes|no|on|off|null|y|n|~)$/i;

/** Returns the YAML text of a JSON value; as in JSON, undefined members are left out. */
export function yamlText(value, indent = "") {
  if (Array.isArray(value)) return value.length ? value.map((each) => `${indent}- ${nested(each, `${indent}  `)}`).join("\n") : `${indent}[]`;
  if (value === null || typeof value !== "object") return indent + scalar(value, indent);
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return entries.length ? entries.map(([key, each]) => `${indent}${scalar(key)}:${member(each, indent)}`).join("\n") : `${indent}{}`;
}

/** Returns an item of a list: its first line follows the dash. */
const nested = (value, indent) => yamlText(value, indent).slice(indent.length);

function member(value, indent) {
  if (value !== null && typeof value === "object" && Object.keys(value).length) {
    return `\n${yamlText(value, Array.isArray(value) ? indent : `${indent}  `)}`;
  }
  return ` ${value !== null && typeof value === "object" ? (Array.isArray(value) ? "[]" : "{}") : scalar(value, indent)}`;
}

function scalar(value, indent = "") {
  if (typeof value !== "string") return String(value);
  if (/\n/.test(value) && /^[^\s][^\x00-\x08\x0b-\x1f\x7f]*$/.test(value) && !/[ \t]\n/.test(value)) {
    const lines = value.replace(/\n$/, "").split("\n");
    const chomp = value.endsWith("\n\n") ? "+" : value.endsWith("\n") ? "" : "-";
    if (chomp !== "+") return `|${chomp}\n${lines.map((line) => (line ? `${indent}  ${line}` : "")).join("\n")}`;
  }
  return PLAIN.test(value) && !WORD.test(value) && !value.endsWith(" ") ? value : JSON.stringify(value);
}
