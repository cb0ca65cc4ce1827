// Submit: paste or drop a manifest; its errors, pods and simulated course are shown before it is submitted.

import { ApiError, GROUP, allowed, create, path as pathOf, send } from "../api.js";
import { announce, button, copyButton, h, replace, setText } from "../dom.js";
import { counted, duration } from "../format.js";
import { setConnection } from "../live.js";
import { link, open } from "../router.js";
import { kindOf, badge } from "../states.js";
import { yamlText } from "../yaml.js";

const TYPING_MS = 400;
/** The limit of the preview. */
const MAX_BYTES = 256 * 1024;
const YAML = "application/yaml";
const DRAFT = "launcher-draft";
const SHOWN_STEPS = 60;
const EXAMPLE = `apiVersion: launcher.microsoft.com/v1
kind: Framework
metadata:
  name: hello
spec:
  taskRoles:
  - name: worker
    taskNumber: 2
    task:
      pod:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: busybox
            command: [sh, -c, "echo hello from $(hostname)"]
`;

export const title = () => "Submit";

/** Shows this page with the manifest of `object`. */
export function openManifest(object) {
  sessionStorage.setItem(DRAFT, `${yamlText(object)}\n`);
  open(link(["submit"], { namespace: object.metadata.namespace }));
}

export async function render(root, page) {
  new SubmitPage(root, page).start();
}

class SubmitPage {
  constructor(root, page) {
    this.page = page;
    this.signal = page.signal;
    this.documents = [];
    this.text = h("textarea", {
      class: "editor", rows: 24, spellcheck: "false", autocapitalize: "off", wrap: "off", "aria-label": "Manifest", "aria-describedby": "editor-hint", placeholder: "Paste or drop a Framework, a TFJob or another job in YAML or JSON.",
      on: { input: () => this.typed(), keydown: (event) => this.key(event), scroll: () => this.scrollNumbers(), dragover: (event) => event.preventDefault(), drop: (event) => this.dropped(event) },
    });
    this.numbers = h("pre", { class: "line-numbers", "aria-hidden": "true" });
    this.namespace = h("input", { size: 16, value: page.query.get("namespace") || "default", spellcheck: "false", autocomplete: "off", on: { input: () => this.typed() } });
    this.file = h("input", { type: "file", class: "visually-hidden", tabindex: "-1", "aria-label": "File", accept: ".yaml,.yml,.json", on: { change: () => this.read(this.file.files[0]) } });
    this.result = h("div", { class: "preview" });
    this.summary = h("div", { class: "preview-summary", role: "status" });
    this.problem = h("div", { role: "alert" });
    this.submit = button("Submit", () => this.send(), { kind: "primary", disabled: true });
    this.build(root);
  }

  build(root) {
    root.append(
      h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Submit")),
      h("div", { class: "submit-grid" },
        h("section", { class: "card", "aria-label": "Manifest" },
          h("div", { class: "card-head" },
            h("label", { class: "inline-field" }, "Namespace ", this.namespace),
            h("div", { class: "end" }, button("Open file", () => this.file.click(), { kind: "small" }), this.file, button("Example", () => this.set(EXAMPLE), { kind: "small" })),
          ),
          h("div", { class: "editor-wrap" }, this.numbers, this.text),
          h("p", { class: "hint card-body", id: "editor-hint" }, "Tab moves on to the next control. The namespace applies to objects that name none."),
        ),
        h("section", { class: "card", "aria-label": "Preview" },
          h("div", { class: "card-head" }, h("h2", {}, "Preview"), this.summary, h("div", { class: "end" }, this.submit)),
          this.problem,
          this.result,
        ),
      ),
    );
  }

  async start() {
    this.set(sessionStorage.getItem(DRAFT) ?? "");
    // This page has no stream: the state of the connection is that of its last request.
    if (await allowed("create", "frameworks", this.namespace.value)) setConnection("live");
    this.signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  // The text.

  set(text) {
    this.text.value = text;
    this.typed(0);
  }

  typed(delay = TYPING_MS) {
    sessionStorage.setItem(DRAFT, this.text.value.length <= MAX_BYTES ? this.text.value : "");
    this.submit.disabled = true;
    this.request?.abort();
    this.drawNumbers();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.preview(), delay);
  }

  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !this.submit.disabled) this.send();
  }

  dropped(event) {
    const file = event.dataTransfer?.files?.[0];
    if (!file) return;
    event.preventDefault();
    this.read(file);
  }

  async read(file) {
    if (!file) return;
    if (file.size > MAX_BYTES) return void this.fail(`${file.name} has ${file.size.toLocaleString()} bytes; the maximum is ${MAX_BYTES.toLocaleString()}. Use launcher submit FILE.`);
    this.set(await file.text());
    announce(`${file.name} was read`);
    this.file.value = "";
  }

  drawNumbers() {
    const marked = new Set(this.documents.flatMap((each) => each.errors.map((error) => error.line)));
    const count = Math.min(this.text.value.split("\n").length, 20_000);
    replace(this.numbers, Array.from({ length: count }, (_, i) => (marked.has(i + 1) ? h("span", { class: "marked" }, `${i + 1}\n`) : `${i + 1}\n`)));
    this.scrollNumbers();
  }

  scrollNumbers() {
    this.numbers.scrollTop = this.text.scrollTop;
  }

  // The preview.

  async preview() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    this.signal.addEventListener("abort", () => request.abort(), { once: true });
    this.fail("");
    if (!this.text.value.trim()) return this.show([]);
    const path = pathOf(GROUP, "namespaces", this.namespace.value.trim() || "default", "previews");
    try {
      const options = { type: YAML, query: { fieldValidation: "Strict" }, signal: request.signal };
      this.show((await create(path, this.text.value, options)).documents);
      setConnection("live");
    } catch (error) {
      if (request.signal.aborted) return;
      this.show([]);
      this.fail(error.message);
    }
  }

  fail(message) {
    replace(this.problem, message ? h("p", { class: "notice error" }, message) : null);
  }

  show(documents) {
    this.documents = documents;
    this.submit.disabled = true;
    const errors = documents.reduce((sum, each) => sum + each.errors.length, 0);
    const isEmpty = !documents.length;
    setText(this.summary, isEmpty ? "" : errors ? counted(errors, "error") : `${counted(documents.length, "object")}, valid`);
    this.summary.className = `preview-summary ${errors ? "error-text" : "ok-text"}`;
    replace(this.result, isEmpty ? this.emptyText() : documents.map((each) => this.document(each)));
    this.drawNumbers();
    this.permit(documents, errors);
  }

  /** Enables the submission if everything is valid and the user is allowed to create it. */
  async permit(documents, errors) {
    if (!documents.length || errors) return;
    const { signal } = this.request;
    const answers = await Promise.all(documents.map((each) => {
      const [, , group, , , namespace, resource] = each.path.split("/");
      return allowed("create", resource, namespace, group);
    }));
    // The text has changed since.
    if (signal.aborted) return;
    this.submit.disabled = !answers.every(Boolean);
    if (this.submit.disabled) this.fail("You are not allowed to create this in the namespace.");
  }

  emptyText() {
    const command = `curl -H 'Content-Type: application/yaml' --data-binary @FILE ${new URL(`../../${GROUP}/namespaces/default/frameworks`, import.meta.url).href}`;
    return h("div", { class: "empty" },
      h("p", {}, "The errors, the pods and the simulated course of the manifest are shown here as you type."),
      h("p", { class: "muted" }, "From a shell:"),
      h("div", { class: "command" }, h("pre", {}, command), copyButton(() => command, "Copy the command")),
    );
  }

  document(each) {
    const heading = h("h3", {}, `${each.objectKind || "Document"} ${each.name ?? ""}`, each.namespace ? h("span", { class: "muted" }, ` in ${each.namespace}`) : null);
    if (each.errors.length) {
      return h("article", { class: "preview-document" }, heading, h("ul", { class: "plain errors" }, each.errors.map((error) => this.error(error))));
    }
    return h("article", { class: "preview-document" }, heading,
      each.warnings.length ? h("ul", { class: "plain" }, each.warnings.map((text) => h("li", { class: "warning-text" }, h("span", { "aria-hidden": "true" }, "! "), text))) : null,
      h("h4", {}, counted(each.taskRoles.reduce((sum, role) => sum + role.tasks, 0), "pod")),
      each.taskRoles.map((role) => podDetails(each, role)),
      h("h4", {}, "Simulated course"),
      h("p", { class: "hint" }, "Every pod runs for ten seconds; the first pod of one task is killed, to show whether it is retried."),
      course(each),
    );
  }

  error({ field, message, line, column }) {
    const place = button(`${line}:${column}`, () => this.select(line, column), { kind: "small", label: `Line ${line}, column ${column}` });
    return h("li", { class: "error" }, place, h("span", {}, field ? h("code", {}, field) : null, field ? ": " : null, message));
  }

  /** Selects the line in the editor. */
  select(line, column) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.text.focus();
    this.text.setSelectionRange(start + column - 1, start + (lines[line - 1]?.length ?? 0));
    this.text.scrollTop = Math.max(0, (line - 5) * (this.text.scrollHeight / lines.length));
  }

  // The submission.

  async send() {
    if (this.submit.disabled) return;
    this.submit.disabled = true;
    this.fail("");
    const lines = this.text.value.split("\n");
    const created = [];
    try {
      for (const each of this.documents) {
        const body = lines.slice(each.firstLine - 1, each.lastLine).join("\n");
        const response = await send("POST", each.path.slice(1), { body, type: YAML, query: { fieldValidation: "Strict" }, signal: this.signal });
        created.push((await response.json()).metadata);
      }
    } catch (error) {
      if (this.signal.aborted) return;
      const before = created.length ? ` Created before: ${created.map((each) => each.name).join(", ")}.` : "";
      this.fail(`${error instanceof ApiError ? error.message : String(error)}${before}`);
      this.submit.disabled = false;
      return;
    }
    sessionStorage.removeItem(DRAFT);
    announce(`${counted(created.length, "object")} created`);
    const [first] = created;
    open(created.length === 1 ? link(["frameworks", first.namespace, first.name]) : link(["frameworks"], { namespace: first.namespace }));
  }
}

function podDetails(document, role) {
  const name = role.firstPod.metadata.name;
  const last = name.replace(/-0$/, `-${role.tasks - 1}`);
  return h("details", { class: "pod-details" },
    h("summary", {}, h("strong", {}, role.name), ` × ${role.tasks.toLocaleString()} `, h("code", { class: "muted" }, role.tasks > 1 ? `${name} … ${last}` : name)),
    h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": `Pod ${name}` }, h("pre", { class: "pod-yaml" }, yamlText(role.firstPod))),
  );
}

/** Returns the steps that show something new: a state of another kind, or a reason. */
function shownSteps(steps) {
  const last = new Map();
  return steps.filter((step, i) => {
    const subject = `${step.role} ${step.index}`;
    const next = steps.slice(i + 1, i + 3).find((each) => each.role === step.role && each.index === step.index);
    // A completed attempt that is not retried completes the task at once.
    const isPassed = step.state === "AttemptCompleted" && next?.seconds === step.seconds && next.state === "Completed";
    const isShown = !isPassed && (step.reason || last.get(subject) !== kindOf(step.state));
    if (isShown) last.set(subject, kindOf(step.state));
    return isShown;
  });
}

function course({ steps, stepsComplete }) {
  const rows = shownSteps(steps).map((step) => h("li", {},
    h("span", { class: "step-time" }, duration(step.seconds)),
    h("span", { class: "step-subject" }, step.role === undefined ? "Framework" : `${step.role}-${step.index}`),
    badge(step.state, kindOf(step.state)),
    h("span", { class: "step-reason text" }, step.reason),
  ));
  const rest = rows.slice(SHOWN_STEPS);
  return h("div", {},
    h("ol", { class: "steps" }, rows.slice(0, SHOWN_STEPS)),
    rest.length ? h("details", {}, h("summary", {}, counted(rest.length, "more step")), h("ol", { class: "steps" }, rest)) : null,
    stepsComplete ? null : h("p", { class: "hint" }, "The course continues; launcher simulate FILE shows all of it."),
  );
}
