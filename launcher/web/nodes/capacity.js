// The capacity of nodes, and what their pods have allocated of it.

const UNITS = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
const FRAMEWORK = "FC_FRAMEWORK_NAME";

/** Returns the number of a quantity such as 500m, 16Gi or 1e3; 0 for what is none. */
export function quantity(text) {
  const match = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?$/.exec(String(text ?? "0"));
  return match ? Number(match[1]) * UNITS[match[2] ?? ""] || 0 : 0;
}

/** Returns a quantity of a resource for people: 1.5, 16 GiB. */
export function amount(resource, value) {
  if (resource !== "memory" && resource !== "ephemeral-storage") return String(Math.round(value * 100) / 100);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (value >= 1024 && i < units.length - 1) [value, i] = [value / 1024, i + 1];
  return `${value >= 100 || i === 0 ? Math.round(value) : Math.round(value * 10) / 10} ${units[i]}`;
}

export const isGpu = (resource) => /gpu/i.test(resource) && resource.includes("/");

/** Returns the requests of a pod by resource, as the scheduler counts them. */
export function podRequests(pod) {
  const { containers = [], initContainers = [], overhead = {}, resources = {} } = pod.spec ?? {};
  const total = new Map();
  const add = (requests) => Object.entries(requests ?? {}).forEach(([name, text]) => total.set(name, (total.get(name) ?? 0) + quantity(text)));
  const requestsOf = (container) => ({ ...container.resources?.limits, ...container.resources?.requests });
  containers.forEach((container) => add(requestsOf(container)));
  for (const container of initContainers) {
    if (container.restartPolicy === "Always") add(requestsOf(container));
    else for (const [name, text] of Object.entries(requestsOf(container))) total.set(name, Math.max(total.get(name) ?? 0, quantity(text)));
  }
  // The request of the pod as a whole replaces the sum.
  for (const [name, text] of Object.entries({ ...resources.limits, ...resources.requests })) total.set(name, quantity(text));
  add(overhead);
  total.set("pods", 1);
  return total;
}

export const isActive = (pod) => !["Succeeded", "Failed"].includes(pod.status?.phase);

/** Returns the Framework of a pod; null for other pods. */
export const frameworkOf = (pod) => pod.metadata.labels?.[FRAMEWORK] ?? null;

/** Returns the nodes as {name, ready, problems, taints, resources: Map of {allocated, allocatable}, pods}. */
export function nodeSummaries(nodes, pods) {
  const byNode = new Map(nodes.map((node) => [node.metadata.name, []]));
  for (const pod of pods) byNode.get(pod.spec?.nodeName)?.push(pod);
  return nodes.map((node) => summary(node, byNode.get(node.metadata.name)));
}

function summary(node, pods) {
  const conditions = node.status?.conditions ?? [];
  const ready = conditions.find((each) => each.type === "Ready");
  const resources = new Map();
  for (const [name, text] of Object.entries(node.status?.allocatable ?? node.status?.capacity ?? {})) {
    resources.set(name, { allocated: 0, allocatable: quantity(text) });
  }
  for (const pod of pods.filter(isActive)) {
    for (const [name, value] of podRequests(pod)) if (resources.has(name)) resources.get(name).allocated += value;
  }
  return {
    name: node.metadata.name,
    node,
    pods,
    resources,
    isReady: ready?.status === "True",
    isCordoned: node.spec?.unschedulable === true,
    problems: conditions.filter((each) => (each.type === "Ready" ? each.status !== "True" : each.status === "True")),
    taints: (node.spec?.taints ?? []).map(({ key, value, effect }) => `${key}${value ? `=${value}` : ""}:${effect}`),
  };
}

/** Returns the sums of all nodes by resource. */
export function totals(summaries) {
  const result = new Map();
  for (const { resources } of summaries) {
    for (const [name, { allocated, allocatable }] of resources) {
      const sum = result.get(name) ?? { allocated: 0, allocatable: 0 };
      result.set(name, { allocated: sum.allocated + allocated, allocatable: sum.allocatable + allocatable });
    }
  }
  return result;
}

/** Returns the resources that are shown: CPU, memory, and devices such as GPUs. */
export function shownResources(sums) {
  const devices = [...sums].filter(([name, { allocatable }]) => name.includes("/") && allocatable > 0).map(([name]) => name).sort();
  return ["cpu", "memory", ...devices, "pods"].filter((name) => sums.has(name));
}

export const resourceLabel = (name) => ({ cpu: "CPU", memory: "Memory", pods: "Pods" })[name] ?? (isGpu(name) ? `GPU (${name.split("/")[0]})` : name);

/** Returns the pods without a node, as [{namespace, framework, pods, reason, requests}], those of a Framework together. */
export function waitingGroups(pods) {
  const groups = new Map();
  for (const pod of pods) {
    if (pod.spec?.nodeName || !isActive(pod)) continue;
    const { namespace, name } = pod.metadata;
    const framework = frameworkOf(pod);
    const key = `${namespace}/${framework ?? name}`;
    const condition = (pod.status?.conditions ?? []).find((each) => each.type === "PodScheduled" && each.status === "False");
    const group = groups.get(key) ?? { namespace, framework, name, since: pod.metadata.creationTimestamp, pods: [], reason: "" };
    group.pods.push(pod);
    group.reason ||= condition?.message || condition?.reason || (pod.spec?.schedulingGates?.length ? "The pod has scheduling gates." : "");
    groups.set(key, group);
  }
  return [...groups.values()];
}
