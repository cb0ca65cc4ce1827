// One Framework: header, diagnosis, and tabs for tasks, timeline, stragglers, events and YAML.

import { frameworksPath, get } from "../api.js";
import { readRecords } from "../attempts.js";
import { announce, h, replace, setText, throttled, update } from "../dom.js";
import { age, duration, refreshAges, time } from "../format.js";
import { shortcut } from "../keyboard.js";
import { follow, visible } from "../live.js";
import { link, open } from "../router.js";
import { badge, kindOf, stateOfFramework } from "../states.js";
import { tasksOf } from "../tasks.js";
import { actionButtons, owningJob } from "../widgets/actions.js";
import { showDiagnosis } from "../widgets/diagnosis.js";
import { TABS } from "../widgets/framework_tabs.js";
import { userOf } from "../widgets/framework_filter.js";

const POLL_MS = 2000;
const DIAGNOSIS_MS = 5000;

export const title = ({ name }) => name;

export async function render(root, page) {
  const view = new FrameworkPage(root, page);
  await view.start();
}

class FrameworkPage {
  constructor(root, page) {
    Object.assign(this, { root, page, signal: page.signal });
    const { namespace, name } = page.params;
    this.path = frameworksPath(namespace, name);
    this.refresh = throttled(() => this.read().catch((error) => this.showInterruption(error)), POLL_MS, this.signal);
    this.diagnose = throttled(() => this.readDiagnosis(), DIAGNOSIS_MS, this.signal);
    this.records = [];
    this.build(namespace, name);
  }

  build(namespace, name) {
    this.heading = h("h1", { tabindex: "-1" }, name);
    this.badge = h("span", { class: "head-badge" });
    this.actions = h("div", { class: "end" });
    this.facts = h("dl", { class: "fact-list" });
    this.message = h("p", { class: "head-message text" });
    this.findings = h("div", { class: "card-body findings" }, h("p", { class: "muted" }, "Loading…"));
    this.why = h("section", { class: "card", "aria-labelledby": "why-title", tabindex: "-1" },
      h("div", { class: "card-head" }, h("h2", { id: "why-title" }, "Why"), h("span", { class: "muted hint" }, "the diagnosis, as ", h("code", {}, `launcher why ${name}`))),
      this.findings);
    this.attempts = h("select", { "aria-label": "Attempt", hidden: true, on: { change: () => this.selectAttempt(this.attempts.value) } });
    this.panel = h("div", { class: "card-body", role: "tabpanel", id: "panel", tabindex: "0" });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the Framework" },
      Object.entries(TABS).map(([key, tab]) => h("button", { type: "button", role: "tab", id: `tab-${key}`, class: "tab", "aria-controls": "panel", data: { key }, on: { click: () => this.selectTab(key) } }, tab.title)));
    this.notice = h("div", { role: "alert" });
    this.root.append(
      h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, h("a", { href: link(["frameworks"]) }, "Frameworks"), "/", h("a", { href: link(["frameworks"], { namespace }) }, namespace), "/", h("span", { "aria-current": "page" }, name)),
      h("div", { class: "page-head" }, this.heading, this.badge, this.actions),
      this.message,
      this.facts,
      this.notice,
      this.why,
      h("section", { class: "card" }, h("div", { class: "card-head" }, this.tabs, h("span", { class: "end" }, this.attempts)), this.panel),
    );
    this.tabs.addEventListener("keydown", (event) => this.moveTab(event));
  }

  async start() {
    const { namespace, name } = this.page.params;
    // Keys work as soon as the page is visible, before its data are read.
    shortcut("w", "Why: the diagnosis", () => this.why.focus(), this.signal);
    shortcut("l", "Logs", () => open(link(["logs", namespace, name])), this.signal);
    Object.keys(TABS).forEach((key, i) => shortcut(String(i + 1), TABS[key].title, () => this.selectTab(key), this.signal));
    this.selectTab(this.page.query.get("tab") ?? "tasks");
    await this.read();
    // The stream only reports that something changed; the object itself is read at most every two seconds.
    follow(frameworksPath(namespace), {
      query: { fieldSelector: `metadata.name=${name}` },
      signal: this.signal,
      onList: ({ rows }) => (rows.length ? this.changed("MODIFIED", rows[0]) : this.showDeleted()),
      onEvent: (type, row) => this.changed(type, row),
      onError: (error) => this.page.fail(error),
    });
    const timer = setInterval(() => refreshAges(this.root), 5000);
    this.signal.addEventListener("abort", () => clearInterval(timer));
    await this.readDiagnosis();
    if (this.page.query.get("focus") === "why" && [document.body, this.heading].includes(document.activeElement)) {
      this.why.focus();
      this.why.scrollIntoView({ block: "start" });
    }
  }

  changed(type, row) {
    if (type === "DELETED") return this.showDeleted();
    if (row.metadata.uid !== this.framework.metadata.uid) [this.records, this.actionsKey] = [[], null];
    if (row.metadata.resourceVersion !== this.framework.metadata.resourceVersion) this.refresh();
    return undefined;
  }

  async read() {
    await visible(this.signal);
    const framework = await get(this.path, { signal: this.signal });
    const first = !this.framework;
    const retried = first || framework.status?.attemptStatus?.id !== this.framework.status?.attemptStatus?.id;
    this.framework = framework;
    if (retried) this.records = await readRecords(framework, this.signal);
    replace(this.notice);
    this.drawHead();
    this.drawTab();
    if (!first) this.diagnose();
  }

  async readDiagnosis() {
    try {
      showDiagnosis(this.findings, await get(`${this.path}/diagnosis`, { signal: this.signal }));
    } catch (error) {
      if (error.name !== "AbortError" && error.status) replace(this.findings, h("p", { class: "error-text" }, error.message));
    }
  }

  drawHead() {
    const { framework } = this;
    const { metadata, status = {}, spec } = framework;
    const state = stateOfFramework(framework);
    replace(this.badge, badge(state, kindOf(state)));
    this.badge.firstChild.classList.add("large");
    setText(this.message, status.message ?? "");
    const job = owningJob(framework);
    const [start, end] = [time(status.startTime), time(status.completionTime)];
    const attempt = (status.attemptStatus?.id ?? 0) + 1;
    const limit = spec.retryPolicy?.maxRetryCount ?? 0;
    const facts = [
      ["Namespace", metadata.namespace],
      userOf(metadata) && ["User", userOf(metadata)],
      ["Created", age(metadata.creationTimestamp)],
      start && [end ? "Took" : "Runs for", end ? duration((end - start) / 1000) : age(status.startTime)],
      ["Attempt", String(attempt)],
      ["Retries", `${status.retryPolicyStatus?.totalRetriedCount ?? 0}${limit === -1 ? " (no limit)" : ` of ${limit}`}`],
      ["Execution", spec.executionType],
      job && ["Owned by", `${job.kind} ${job.name}`],
      spec.description && ["Description", spec.description],
    ].filter(Boolean);
    replace(this.facts, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "text" }, value))));
    this.drawActions();
    this.drawAttempts(attempt);
  }

  async drawActions() {
    const { namespace, name } = this.page.params;
    const { uid, generation } = this.framework.metadata;
    const key = [uid, stateOfFramework(this.framework), generation].join();
    if (key === this.actionsKey) return;
    this.actionsKey = key;
    const buttons = await actionButtons(() => this.framework, () => this.refresh());
    if (key !== this.actionsKey) return;
    update(this.actions, h("a", { class: "button", href: link(["logs", namespace, name]) }, "Logs"), buttons);
  }

  drawAttempts(current) {
    this.attempts.hidden = this.records.length === 0;
    const key = [current, ...this.records.map((record) => record.attempt)].join();
    if (key === this.attemptsKey) return;
    this.attemptsKey = key;
    const chosen = this.page.query.get("attempt") ?? "";
    replace(this.attempts,
      h("option", { value: "" }, `Attempt ${current} (current)`),
      [...this.records].reverse().map((record) => h("option", { value: String(record.attempt) }, `Attempt ${record.attempt}: ${record.attemptStatus?.completionStatus?.type?.name ?? ""}`)));
    this.attempts.value = chosen;
  }

  selectAttempt(number) {
    this.page.setQuery({ attempt: number });
    this.drawTab();
  }

  // Tabs.

  selectTab(key) {
    if (!(key in TABS)) key = "tasks";
    for (const tab of this.tabs.children) {
      const chosen = tab.dataset.key === key;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${key}`);
    this.page.setQuery({ tab: key === "tasks" ? "" : key });
    this.tabEnd?.abort();
    this.tabEnd = new AbortController();
    this.signal.addEventListener("abort", () => this.tabEnd.abort());
    this.panel.replaceChildren();
    this.tab = TABS[key].create(this.panel, { ...this.page, signal: this.tabEnd.signal });
    this.drawTab();
  }

  moveTab(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const tabs = [...this.tabs.children];
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    next.focus();
    this.selectTab(next.dataset.key);
  }

  /** Passes the Framework, the chosen attempt and its tasks to the tab. */
  drawTab() {
    if (!this.tab || !this.framework) return;
    const number = Number(this.page.query.get("attempt"));
    const record = this.records.find((each) => each.attempt === number);
    const attempt = record ? record.attemptStatus : this.framework.status?.attemptStatus;
    const key = [this.framework.metadata.resourceVersion, record?.attempt].join();
    if (key !== this.tasksKey) [this.tasksKey, this.tasks] = [key, tasksOf(attempt)];
    this.tab.update({ framework: this.framework, attempt, tasks: this.tasks, isCurrent: !record });
  }

  // Interruptions.

  showInterruption(error) {
    if (error.name === "AbortError") return;
    if (error.status === 404) this.showDeleted();
    else if (error.status) replace(this.notice, h("p", { class: "notice error" }, error.message));
    // The stream has already reported the change that was to be read.
    if (!error.status || error.status >= 500 || error.status === 429) this.refresh();
  }

  showDeleted() {
    replace(this.notice, h("p", { class: "notice" }, "This Framework was deleted. The page shows its last state. ", h("a", { href: link(["frameworks"]) }, "All Frameworks")));
    this.actionsKey = null;
    replace(this.actions);
    announce("This Framework was deleted");
  }
}
