// One task: its attempts with exit, reason, node and times, its pod, and its logs by attempt and container.

import { corePath, frameworksPath, get } from "../api.js";
import { currentAttempt, readRecords, taskAttempts } from "../attempts.js";
import { h, replace, throttled, update } from "../dom.js";
import { age, duration, fullTime, refreshAges, time } from "../format.js";
import { shortcut } from "../keyboard.js";
import { follow } from "../live.js";
import { link, open } from "../router.js";
import { badge, KINDS } from "../states.js";
import { exitText, reasonText, tasksOf } from "../tasks.js";
import { showDiagnosis } from "../widgets/diagnosis.js";
import { eventTable, readEvents } from "../widgets/framework_tabs.js";
import { pagedTable } from "../widgets/task_table.js";

const POLL_MS = 2000;

export const title = ({ name, role, index }) => `${name} ${role}-${index}`;

export async function render(root, page) {
  await new TaskPage(root, page).start();
}

class TaskPage {
  constructor(root, page) {
    Object.assign(this, { root, page, signal: page.signal, params: page.params });
    const { namespace, name, role, index } = page.params;
    this.name = `${role}-${index}`;
    this.pod = `${name}-${role}-${index}`;
    this.path = frameworksPath(namespace, name);
    this.refresh = throttled(() => this.read().catch((error) => error.status === 404 && page.fail(error)), POLL_MS, this.signal);
    this.build();
  }

  build() {
    const { namespace, name } = this.params;
    this.badge = h("span", { class: "head-badge" });
    this.logs = h("div", { class: "end" });
    this.message = h("p", { class: "head-message text" });
    this.facts = h("dl", { class: "fact-list" });
    this.findings = h("div", { class: "card-body findings" }, h("p", { class: "muted" }, "Loading…"));
    this.podCard = h("div", { class: "card-body" });
    this.attempts = pagedTable({ caption: "Attempts", noun: "attempt", columns: this.attemptColumns() });
    this.events = eventTable();
    const card = (text, ...content) => h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, text)), content);
    this.root.append(
      h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: link(["frameworks"]) }, "Frameworks"), "/", h("a", { href: link(["frameworks"], { namespace }) }, namespace), "/", h("a", { href: link(["frameworks", namespace, name]) }, name), "/", h("span", { "aria-current": "page" }, this.name)),
      h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, this.name), this.badge, this.logs),
      this.message,
      this.facts,
      card("Why", this.findings),
      card("Attempts", this.attempts.element),
      card("Pod", this.podCard),
      card("Events of the pod", this.events.element),
    );
  }

  attemptColumns() {
    const { namespace, name } = this.params;
    const logLink = (row, container) => h("a", { href: link(["logs", namespace, name], { task: this.name, attempt: row.label, container }) }, container);
    return [
      { name: "Attempt", number: true, cell: (row) => row.label },
      { name: "Result", cell: (row) => badge(KINDS[row.kind].label, row.kind) },
      { name: "Exit", cell: (row) => row.exit || "–" },
      { name: "Reason", class: "why", cell: (row) => h("span", { class: "text wrap" }, row.reason) },
      { name: "Node", class: "nowrap", cell: (row) => row.node ?? "–" },
      { name: "Started", number: true, cell: (row) => (row.start === null ? "–" : h("time", { title: fullTime(row.start) }, age(new Date(row.start).toISOString()))) },
      { name: "Ran for", number: true, cell: (row) => (row.run === null ? "–" : duration(((row.end ?? Date.now()) - row.run) / 1000)) },
      { name: "Retry", class: "why", cell: (row) => h("span", { class: "text wrap" }, row.ledger) },
      { name: "Logs", cell: (row) => h("span", { class: "links" }, this.containers.map((container) => logLink(row, container))) },
    ];
  }

  async start() {
    const { namespace, name } = this.params;
    shortcut("l", "Logs", () => open(link(["logs", namespace, name], { task: this.name })), this.signal);
    shortcut("u", "Up: the Framework", () => open(link(["frameworks", namespace, name])), this.signal);
    await this.read();
    follow(frameworksPath(namespace), {
      query: { fieldSelector: `metadata.name=${name}` },
      signal: this.signal,
      onList: () => this.refresh(),
      onEvent: () => this.refresh(),
      onError: (error) => this.page.fail(error),
    });
    const timer = setInterval(() => refreshAges(this.root), 5000);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  async read() {
    const { namespace, name, role, index } = this.params;
    const framework = await get(this.path, { signal: this.signal });
    const task = tasksOf(framework.status?.attemptStatus).find((each) => each.role === role && String(each.index) === index);
    if (!task) return this.page.fail(new Error(`${name} has no task ${this.name}.`));
    const spec = framework.spec.taskRoles.find((each) => each.name === role)?.task?.pod?.spec ?? {};
    this.containers = [...(spec.containers ?? []), ...(spec.initContainers ?? [])].map((container) => container.name);
    // Those of a Framework that is not retried again stay the same.
    const key = [framework.metadata.uid, currentAttempt(framework)].join();
    if (key !== this.recordsKey) [this.recordsKey, this.records] = [key, await readRecords(framework, this.signal)];
    if (this.signal.aborted) return undefined;
    this.draw(framework, task);
    const optional = (promise) => promise.catch((error) => (error.name === "AbortError" ? null : { error }));
    const [pod, events, diagnosis] = await Promise.all([
      optional(get(corePath("pods", namespace, this.pod), { signal: this.signal })),
      optional(readEvents(namespace, "Pod", this.pod, this.signal)),
      optional(get(`${this.path}/diagnosis`, { query: { role, index }, signal: this.signal })),
    ]);
    if (this.signal.aborted) return undefined;
    this.drawPod(pod);
    if (Array.isArray(events)) this.events.setRows(events);
    if (diagnosis?.findings) showDiagnosis(this.findings, diagnosis);
    else replace(this.findings, h("p", { class: "error-text" }, diagnosis?.error?.message ?? ""));
    return undefined;
  }

  draw(framework, task) {
    const { namespace, name } = this.params;
    replace(this.badge, badge(task.state, task.kind));
    this.badge.firstChild.classList.add("large");
    update(this.logs, h("a", { class: "button primary", href: link(["logs", namespace, name], { task: this.name }) }, "Logs"));
    this.message.textContent = reasonText(task);
    const facts = [
      ["Framework attempt", String(currentAttempt(framework))],
      ["Task attempt", String(task.retries + 1)],
      ["Pod", this.pod],
      task.node && ["Node", task.node],
      task.attemptStart !== null && ["Created", age(new Date(task.attemptStart).toISOString())],
      task.run !== null && ["Ran for", duration(((task.end ?? Date.now()) - task.run) / 1000)],
      task.completion && ["Exit", exitText(task.completion)],
    ].filter(Boolean);
    replace(this.facts, facts.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", { class: "text" }, value))));
    this.attempts.setRows(taskAttempts(framework, this.records, this.name));
  }

  drawPod(pod) {
    if (!pod || pod.error) {
      replace(this.podCard, h("p", { class: "muted" }, pod?.error?.status === 404 ? "The pod does not exist: it was not created yet, or it was deleted. Its logs are kept." : pod?.error?.message ?? ""));
      return;
    }
    const statuses = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
    const facts = [
      ["Phase", pod.status?.phase ?? "Pending"], ["IP", pod.status?.podIP ?? "–"], ["Node", pod.spec?.nodeName ?? "–"], ["UID", pod.metadata.uid],
    ];
    update(this.podCard,
      h("dl", { class: "fact-list" }, facts.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", { class: "text" }, value)))),
      statuses.length ? h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Containers" }, h("table", {},
        h("thead", {}, h("tr", {}, ["Container", "State", "Restarts", "Image"].map((text) => h("th", { scope: "col", class: text === "Restarts" ? "number" : "" }, text)))),
        h("tbody", {}, statuses.map((each) => h("tr", {}, h("td", {}, each.name), h("td", {}, h("span", { class: "text wrap" }, containerState(each.state ?? {}))), h("td", { class: "number" }, each.restartCount ?? 0), h("td", {}, h("span", { class: "text wrap" }, each.image ?? ""))))))) : null,
    );
  }
}

function containerState(state) {
  if (state.running) return `running since ${fullTime(time(state.running.startedAt) ?? Date.now())}`;
  const ended = state.terminated;
  if (ended) return `exited with ${ended.exitCode}${ended.reason ? ` (${ended.reason})` : ""}${ended.message ? `: ${ended.message}` : ""}`;
  return `waiting${state.waiting?.reason ? `: ${state.waiting.reason}` : ""}${state.waiting?.message ? `: ${state.waiting.message}` : ""}`;
}
