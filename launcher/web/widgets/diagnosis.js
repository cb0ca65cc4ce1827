// The diagnosis panel: findings with evidence, and the next step to copy.

import { copyButton, h, update } from "../dom.js";
import { counted } from "../format.js";

const SEVERITIES = {
  Error: { sign: "✕", word: "Error", kind: "failed" },
  Warning: { sign: "!", word: "Warning", kind: "retrying" },
  Info: { sign: "i", word: "Info", kind: "running" },
};
const WAITING = { Never: "Waiting does not help.", MayHelp: "Waiting may help.", Helps: "This can end by itself." };
/** More findings are shown on request. */
const SHOWN = 3;

/** Shows a Diagnosis in `element`. */
export function showDiagnosis(element, diagnosis) {
  const { findings = [], missingEvidence = [] } = diagnosis;
  const opened = new Set([...element.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  const items = findings.map((each) => finding(each, opened));
  const rest = items.slice(SHOWN);
  update(element,
    items.length ? items.slice(0, SHOWN) : h("p", { class: "muted" }, "Nothing to explain: no problem was found."),
    rest.length ? h("details", { data: { key: "rest" }, open: opened.has("rest") }, h("summary", {}, `${counted(rest.length, "more finding")}`), rest) : null,
    missingEvidence.length ? h("p", { class: "hint" }, "Not readable with your rights: ", missingEvidence.map((each) => each.resource ?? Object.values(each).join(": ")).join(", ")) : null,
  );
}

function finding({ id, severity, summary, waiting, nextStep, evidence = [], taskNames = [], tasks }, opened) {
  const { sign, word, kind } = SEVERITIES[severity] ?? SEVERITIES.Info;
  const key = `${id} ${summary}`;
  // The listener of the button depends on the next step.
  return h("div", { class: ["finding", `finding-${kind}`], data: { step: nextStep ?? "" } },
    h("div", { class: "finding-head" },
      h("span", { class: ["badge", `state-${kind}`] }, h("span", { class: "sign", "aria-hidden": "true" }, sign), word),
      h("strong", { class: "text" }, summary),
      h("code", { class: "muted" }, id),
    ),
    nextStep ? h("div", { class: "command" }, h("pre", { class: "text" }, nextStep), copyButton(() => nextStep, "Copy the next step")) : null,
    evidence.length ? h("details", { data: { key }, open: opened.has(key) },
      h("summary", {}, `${WAITING[waiting] ?? ""} Evidence (${evidence.length})`),
      h("dl", { class: "evidence" }, evidence.map((each) => h("div", {}, h("dt", {}, `${each.object} ${each.field}`), h("dd", { class: "text" }, each.value)))),
      tasks > 1 ? h("p", { class: "hint" }, `Tasks: ${taskNames.join(", ")}${tasks > taskNames.length ? ", …" : ""}`) : null,
    ) : h("p", { class: "hint" }, WAITING[waiting] ?? ""),
  );
}
