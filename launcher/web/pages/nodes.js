// The nodes: capacity and allocation, who holds GPUs, problems, what waits and why.

import { ApiError, corePath, get, GROUP, path } from "../api.js";
import { h, setText, throttled, update } from "../dom.js";
import { age, counted } from "../format.js";
import { shortcut } from "../keyboard.js";
import { setConnection, sleep, visible } from "../live.js";
import { amount, frameworkOf, isActive, isGpu, nodeSummaries, podRequests, resourceLabel, shownResources, totals, waitingGroups } from "../nodes/capacity.js";
import { link } from "../router.js";

const PAGE_SIZE = 500;
/** Objects of one kind that are read; the page says so if there are more. */
const MAX_PAGES = 10;
const REFRESH_MS = 5_000;
const FAILURES_MS = 15_000;
/** A refresh takes at most this part of the time. */
const REFRESH_SHARE = 10;
const MAX_ROWS = 200;

export const title = () => "Nodes";

export async function render(root, page) {
  const view = new NodePage(root, page);
  await view.load();
  view.keepCurrent();
}

class NodePage {
  constructor(root, page) {
    this.page = page;
    this.signal = page.signal;
    this.filter = h("input", { type: "search", name: "name", size: 28, placeholder: "part of a name, taint or pod", value: page.query.get("filter") ?? "", autocomplete: "off", on: { input: () => this.filtered() } });
    this.notice = h("div", { role: "status", class: "notice", hidden: true });
    this.sums = h("div", { class: "sums" });
    this.waiting = h("div", { class: "card" });
    this.list = h("div", { class: "card" });
    this.detail = h("div", { class: "card", hidden: true });
    root.append(
      h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Nodes")),
      this.notice,
      this.sums,
      h("form", { class: "filters", role: "search", "aria-label": "Filter", on: { submit: (event) => event.preventDefault() } }, h("label", { class: "field" }, "Filter", this.filter)),
      this.list,
      this.detail,
      this.waiting,
    );
    /** The recent failures by node; empty if the user may not list Frameworks of all namespaces. */
    this.failures = new Map();
    this.readFailures = throttled(() => this.loadFailures(), FAILURES_MS, this.signal);
    shortcut("/", "Filter the nodes", () => this.filter.focus(), this.signal);
  }

  async load() {
    const started = performance.now();
    this.readFailures();
    const [nodes, pods] = await Promise.all([listed(corePath("nodes"), this.signal), listed(corePath("pods"), this.signal).catch(forbidden)]);
    this.pods = pods.items;
    this.summaries = nodeSummaries(nodes.items, pods.items).sort(byProblem);
    setText(this.notice, [
      pods.isForbidden && "You may not list pods of all namespaces: allocations, GPUs and waiting pods are not shown.",
      nodes.isCut && `Only the first ${counted(nodes.items.length, "node")} are shown.`,
      pods.isCut && `Only the first ${counted(pods.items.length, "pod")} are counted.`,
    ].filter(Boolean).join(" "));
    this.notice.hidden = !this.notice.textContent;
    this.took = performance.now() - started;
    this.draw();
  }

  async loadFailures() {
    try {
      const { items } = await get(path(GROUP, "nodefailures"), { signal: this.signal });
      this.failures = new Map(items.map((item) => [item.nodeName, item]));
      if (this.summaries) this.draw();
    } catch (error) {
      // The rest of the page does not depend on it.
      if (!(error instanceof ApiError) && error.name !== "AbortError") throw error;
    }
  }

  /** Reads everything again until the page is left. */
  async keepCurrent() {
    setConnection("live");
    while (!this.signal.aborted) {
      await sleep(Math.max(REFRESH_MS, this.took * REFRESH_SHARE), this.signal);
      await visible(this.signal);
      if (this.signal.aborted) return;
      try {
        await this.load();
        setConnection("live");
      } catch (error) {
        if (this.signal.aborted) return;
        if (error instanceof ApiError && [401, 403].includes(error.status)) return void this.page.fail(error);
        setConnection("reconnecting");
      }
    }
  }

  filtered() {
    this.page.setQuery({ filter: this.filter.value.trim() });
    // Before that, the page still reads the nodes.
    if (this.summaries) this.draw();
  }

  draw() {
    const sums = totals(this.summaries);
    this.resources = shownResources(sums);
    const ready = this.summaries.filter((each) => each.isReady).length;
    update(this.sums,
      sumCard("Nodes", `${ready} of ${this.summaries.length} ready`, ready, this.summaries.length, ready < this.summaries.length ? "failed" : "succeeded"),
      this.resources.map((name) => {
        const { allocated, allocatable } = sums.get(name);
        return sumCard(name === "pods" ? "Pods" : `${resourceLabel(name)} requested`, `${amount(name, allocated)} of ${amount(name, allocatable)}`, allocated, allocatable);
      }),
    );
    this.drawList();
    this.drawDetail();
    this.drawWaiting();
  }

  drawList() {
    const text = this.filter.value.trim();
    const found = this.summaries.filter((each) => !text || [each.name, ...each.taints, ...each.pods.map((pod) => pod.metadata.name)].some((value) => value.includes(text)));
    const heading = (name, kind) => h("th", { scope: "col", class: kind }, name);
    update(this.list,
      h("div", { class: "card-head" }, h("h2", {}, text ? `${found.length} of ${counted(this.summaries.length, "node")}` : counted(found.length, "node"))),
      found.length ? h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Nodes" }, h("table", { class: "stacked nodes" },
        h("thead", {}, h("tr", {}, heading("Name"), heading("Status"), this.resources.map((name) => heading(resourceLabel(name))), heading("GPUs held by"), heading("Taints and problems"))),
        h("tbody", {}, found.slice(0, MAX_ROWS).map((each) => this.row(each))),
      )) : h("p", { class: "card-body muted" }, this.summaries.length ? "No node matches." : "There are no nodes. In local mode, start the launcher with --node; in a cluster, add a node to it."),
      found.length > MAX_ROWS && h("div", { class: "table-foot" }, `The first ${MAX_ROWS}; filter to see others.`),
    );
  }

  row(each) {
    return h("tr", { class: each.name === this.page.query.get("node") ? "active" : "" },
      h("td", { class: "name-cell" }, h("a", { class: "name", href: link(["nodes"], { node: each.name, filter: this.filter.value.trim() }) }, each.name)),
      h("td", { class: "state-cell" }, statusBadge(each)),
      this.resources.map((name) => {
        const { allocated = 0, allocatable = 0 } = each.resources.get(name) ?? {};
        return h("td", { class: "wide-cell", data: { label: resourceLabel(name) } }, allocatable ? usage(name, allocated, allocatable) : h("span", { class: "muted" }, "–"));
      }),
      h("td", { class: "wide-cell", data: { label: "GPUs held by" } }, holders(each.pods)),
      h("td", { class: "wide-cell", data: { label: "Taints and problems" } }, problems(each, this.failures.get(each.name))),
    );
  }

  drawDetail() {
    const name = this.page.query.get("node");
    const each = this.summaries.find((candidate) => candidate.name === name);
    this.detail.hidden = !name;
    if (!name) return;
    update(this.detail,
      h("div", { class: "card-head" }, h("h2", {}, name), each && statusBadge(each), h("a", { class: "button small quiet", href: link(["nodes"], { filter: this.filter.value.trim() }) }, "Close")),
      each ? h("div", { class: "card-body node-detail" }, conditions(each), recentFailures(this.failures.get(name)), nodePods(each)) : h("p", { class: "card-body muted" }, "There is no node of this name."),
    );
  }

  drawWaiting() {
    const groups = waitingGroups(this.pods);
    update(this.waiting,
      h("div", { class: "card-head" }, h("h2", {}, "Waiting for a node")),
      groups.length ? h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Waiting for a node" }, h("table", { class: "stacked" },
        h("thead", {}, h("tr", {}, ["Framework", "Pods", "Requests", "Age", "Why"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, groups.slice(0, MAX_ROWS).map(waitingRow)),
      )) : h("p", { class: "card-body muted" }, "No pod waits for a node."),
    );
  }
}

/** Returns the objects at `path`, page by page within the limit. */
async function listed(path, signal) {
  const items = [];
  let token = "";
  for (let i = 0; i < MAX_PAGES; i++) {
    const page = await get(path, { query: { limit: PAGE_SIZE, continue: token }, signal });
    items.push(...page.items);
    token = page.metadata.continue;
    if (!token) return { items, isCut: false };
  }
  return { items, isCut: true };
}

function forbidden(error) {
  if (error instanceof ApiError && error.status === 403) return { items: [], isCut: false, isForbidden: true };
  throw error;
}

const byProblem = (a, b) => a.isReady - b.isReady || b.problems.length - a.problems.length || a.name.localeCompare(b.name, undefined, { numeric: true });

function sumCard(name, text, value, total, kind) {
  return h("div", { class: "card sum" }, h("span", { class: "muted" }, name), h("strong", {}, text), meter(name, value, total, kind));
}

function usage(name, allocated, allocatable) {
  const text = `${amount(name, allocated)} / ${amount(name, allocatable)}`;
  return h("span", { class: "usage" }, meter(resourceLabel(name), allocated, allocatable), h("span", { class: "usage-text" }, text));
}

function meter(name, value, total, kind) {
  const part = total ? Math.min(1, value / total) : 0;
  const fill = h("span", { class: `fill-${kind ?? (part > 0.999 ? "retrying" : "running")}` });
  fill.style.width = `${part * 100}%`;
  return h("span", { class: "meter", role: "img", "aria-label": `${name}: ${Math.round(part * 100)} percent` }, fill);
}

function statusBadge({ isReady, isCordoned }) {
  const [kind, sign, text] = !isReady ? ["failed", "✕", "Not ready"] : isCordoned ? ["waiting", "◷", "Cordoned"] : ["succeeded", "✓", "Ready"];
  return h("span", { class: ["badge", `state-${kind}`] }, h("span", { class: "sign", "aria-hidden": "true" }, sign), text);
}

function problems({ problems: found, taints }, failures) {
  const items = [
    ...found.map((each) => h("li", { class: "error-text" }, `${each.type === "Ready" ? "Not ready" : each.type}: ${each.message || each.reason || each.status}`)),
    ...taints.map((taint) => h("li", {}, h("code", {}, taint))),
    failures ? h("li", {}, `${counted(failures.count, "failed attempt")} in 24 hours`) : null,
  ].filter(Boolean);
  return items.length ? h("ul", { class: "plain" }, items) : h("span", { class: "muted" }, "none");
}

const gpusOf = (pod) => [...podRequests(pod)].filter(([name]) => isGpu(name)).reduce((sum, [, value]) => sum + value, 0);

function podLink(pod) {
  const framework = frameworkOf(pod);
  const { namespace, name } = pod.metadata;
  return framework ? h("a", { href: link(["frameworks", namespace, framework]) }, name) : name;
}

function holders(pods) {
  const found = pods.filter((pod) => isActive(pod) && gpusOf(pod) > 0);
  if (!found.length) return h("span", { class: "muted" }, "none");
  const shown = found.slice(0, 8);
  return h("ul", { class: "plain" }, shown.map((pod) => h("li", {}, podLink(pod), ` (${gpusOf(pod)})`)), found.length > shown.length && h("li", { class: "muted" }, `${found.length - shown.length} more`));
}

function conditions({ node }) {
  const rows = (node.status?.conditions ?? []).map((each) => h("tr", {}, h("th", { scope: "row" }, each.type), h("td", {}, each.status), h("td", {}, each.message || each.reason || ""), h("td", {}, age(each.lastTransitionTime))));
  const address = (node.status?.addresses ?? []).map((each) => `${each.address} (${each.type})`).join(", ");
  const labels = Object.entries(node.metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return h("div", {},
    h("h3", {}, "Conditions"),
    rows.length ? h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Conditions" }, h("table", {}, h("tbody", {}, rows))) : h("p", { class: "muted" }, "none"),
    h("dl", { class: "facts" }, h("dt", {}, "Addresses"), h("dd", {}, address || "none"), h("dt", {}, "Labels"), h("dd", {}, labels.length ? labels.map((each) => h("code", { class: "chip" }, each)) : "none")),
  );
}

function recentFailures(failures) {
  const row = ({ namespace, framework, role, index, completionTime, exitCode, reason }) => h("tr", {},
    h("td", {}, h("a", { href: link(["frameworks", namespace, framework, "tasks", role, String(index)]) }, `${framework} ${role}-${index}`)),
    h("td", {}, age(completionTime)), h("td", { class: "number" }, exitCode ?? "–"), h("td", { class: "why" }, h("span", { class: "text wrap" }, reason)));
  return h("div", {}, h("h3", {}, "Failed attempts of the last 24 hours"),
    failures ? h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Failed attempts" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Task"), h("th", { scope: "col" }, "Ended"), h("th", { scope: "col", class: "number" }, "Exit"), h("th", { scope: "col" }, "Reason"))),
      h("tbody", {}, failures.latest.map(row)))) : h("p", { class: "muted" }, "None."),
    failures && failures.count > failures.latest.length ? h("p", { class: "hint" }, `The latest ${failures.latest.length} of ${failures.count.toLocaleString()}.`) : null);
}

function nodePods({ pods }) {
  const order = [...pods].sort((a, b) => isActive(b) - isActive(a) || gpusOf(b) - gpusOf(a) || a.metadata.name.localeCompare(b.metadata.name));
  const rows = order.slice(0, MAX_ROWS).map((pod) => {
    const requests = [...podRequests(pod)].filter(([name]) => name !== "pods").map(([name, value]) => `${amount(name, value)} ${resourceLabel(name)}`);
    const message = pod.status?.message || pod.status?.reason || (pod.status?.containerStatuses ?? []).map((each) => each.state?.terminated).filter((each) => each?.exitCode).map((each) => `exit code ${each.exitCode}${each.reason ? ` (${each.reason})` : ""}`).join(", ");
    return h("tr", {}, h("td", {}, podLink(pod)), h("td", {}, pod.status?.phase ?? ""), h("td", {}, requests.join(", ")), h("td", {}, age(pod.metadata.creationTimestamp)), h("td", {}, message));
  });
  return h("div", {}, h("h3", {}, "Pods"), rows.length ? h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Pods of the node" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Pod", "Phase", "Requests", "Age", "Failure"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows))) : h("p", { class: "muted" }, "No pods."));
}

function waitingRow({ namespace, framework, name, since, pods, reason }) {
  const requests = [...podRequests(pods[0])].filter(([resource]) => resource !== "pods").map(([resource, value]) => `${amount(resource, value)} ${resourceLabel(resource)}`).join(", ");
  return h("tr", {},
    h("td", { class: "name-cell" }, framework ? h("a", { class: "name", href: link(["frameworks", namespace, framework]) }, framework) : name, h("span", { class: "sub" }, namespace)),
    h("td", { class: "state-cell" }, counted(pods.length, "pod")),
    h("td", { class: "wide-cell", data: { label: "Requests" } }, requests ? `${requests} each` : "none"),
    h("td", { class: "wide-cell", data: { label: "Age" } }, age(since)),
    h("td", { class: "wide-cell why" }, reason || "The scheduler has not reported a reason yet."),
  );
}
