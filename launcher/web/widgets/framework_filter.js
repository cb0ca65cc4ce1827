// The filter of the list of Frameworks: its form, which is kept in the URL, and the selectors that the server applies.

import { corePath, table, userName } from "../api.js";
import { button, h } from "../dom.js";

const TYPING_MS = 300;
const FIELDS = ["name", "state", "namespace", "label", "node", "mine"];
const USER_LABELS = ["launcher.microsoft.com/user", "userName", "user", "owner"];
const MAX_LABEL_CHARACTERS = 63;

const RESULT = "status.attemptStatus.completionStatus.type.name";
/** The field selector of each state in the filter. */
const STATES = {
  Waiting: "status.state=AttemptCreationPending",
  Preparing: "status.state=AttemptPreparing",
  Running: "status.state=AttemptRunning",
  Deleting: "status.state=AttemptDeleting",
  Retrying: "status.state=AttemptCompleted",
  Succeeded: `status.state=Completed,${RESULT}=Succeeded`,
  Failed: `status.state=Completed,${RESULT}=Failed,spec.executionType!=Stop`,
  Stopped: `status.state=Completed,${RESULT}=Failed,spec.executionType=Stop`,
};

/** Returns the user of a Framework: the first of the labels by which users are usually recorded. */
export function userOf(metadata) {
  return USER_LABELS.map((name) => metadata.labels?.[name]).find(Boolean) ?? "";
}

/** Returns the label value of a user: characters that a label cannot have, such as those of an e-mail address, are "-". */
export function userLabel(user) {
  const value = user.replace(/[^A-Za-z0-9._-]/g, "-").slice(0, MAX_LABEL_CHARACTERS);
  return value.replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
}

/** Returns whether the query of the page selects only some Frameworks. */
export const isFiltered = (query) => FIELDS.some((name) => query.get(name));

/** Returns the selectors of a list and of a watch; a part of the name and a node are parameters of the list only. */
export async function selectorsOf(query) {
  const labels = [query.get("label"), query.get("mine") && `${USER_LABELS[0]}=${userLabel(await userName())}`];
  return { labelSelector: labels.filter(Boolean).join(","), fieldSelector: STATES[query.get("state")] };
}

/** Returns {element, clear, focus}; `onChange` is called after the URL of the page has changed. */
export function frameworkFilter(page, onChange) {
  const { query, signal } = page;
  const text = (name, label, placeholder, size) => h("label", { class: "field" }, label, h("input", {
    type: "search", name, size, placeholder, value: query.get(name) ?? "", autocomplete: "off", spellcheck: "false",
  }));
  const mine = h("label", { class: "check" }, h("input", { type: "checkbox", name: "mine", checked: query.get("mine") === "true" }), "Mine");
  const element = h("form", { class: "filters", role: "search", "aria-label": "Filter", on: { submit: (event) => event.preventDefault() } },
    text("name", "Name", "part of a name", 18),
    h("label", { class: "field" }, "State", h("select", { name: "state" }, ["", ...Object.keys(STATES)].map((state) => h("option", { value: state }, state || "any")))),
    h("label", { class: "field" }, "Namespace", h("select", { name: "namespace" }, h("option", { value: "" }, "all"))),
    text("label", "Label", "team=vision", 16),
    text("node", "Node", "gpu-node-1", 12),
    mine,
    button("Clear", clear, { kind: "quiet" }),
  );
  const { elements } = element;
  elements.state.value = query.get("state") ?? "";
  userName().then((user) => (mine.title = `Those with the label ${USER_LABELS[0]}=${userLabel(user)}`));

  let timer = 0;
  function apply() {
    clearTimeout(timer);
    const value = (name) => elements[name].value.trim();
    page.setQuery({ ...Object.fromEntries(FIELDS.map((name) => [name, value(name)])), mine: elements.mine.checked ? "true" : "" });
    onChange();
  }

  function clear() {
    for (const each of elements) {
      if (each.type === "checkbox") each.checked = false;
      else if (each.name) each.value = "";
    }
    apply();
  }

  element.addEventListener("change", apply);
  element.addEventListener("input", (event) => {
    if (event.target.type !== "search") return;
    clearTimeout(timer);
    timer = setTimeout(apply, TYPING_MS);
  });
  signal.addEventListener("abort", () => clearTimeout(timer));
  listNamespaces(elements.namespace, query.get("namespace") ?? "", signal);
  return { element, clear, focus: () => elements.name.focus() };
}

async function listNamespaces(select, chosen, signal) {
  let names = [];
  try {
    names = (await table(corePath("namespaces"), { query: { limit: 500 }, signal })).rows.map((row) => row.metadata.name);
  } catch {
    // A user of one namespace may not list them; the URL names it.
  }
  if (chosen && !names.includes(chosen)) names.push(chosen);
  for (const name of names) select.append(h("option", { value: name }, name));
  select.value = chosen;
}
