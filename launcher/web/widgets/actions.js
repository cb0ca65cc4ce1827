// Actions on Frameworks: each is confirmed in a dialog that shows the equivalent command.

import { allowed, frameworksPath, get, patch, path as pathOf, remove } from "../api.js";
import { announce, button, copyButton, h, replace } from "../dom.js";
import { counted } from "../format.js";
import { stateOfFramework } from "../states.js";
import { gracePeriodSeconds, runAgain } from "./rerun.js";

const JOB_RESOURCES = { TFJob: "tfjobs", PyTorchJob: "pytorchjobs", MPIJob: "mpijobs", XGBoostJob: "xgboostjobs", JAXJob: "jaxjobs" };

/** Returns the buttons of the actions that the state permits and the user is allowed to; `current` returns the Framework. */
export async function actionButtons(current, onChange) {
  const framework = current();
  const { namespace } = framework.metadata;
  const job = owningJob(framework);
  const [mayPatch, mayCreate, mayDelete] = await Promise.all([
    allowed("patch", "frameworks", namespace),
    allowed("create", "frameworks", namespace),
    // In place of the Framework of a job, the job is deleted.
    job ? allowed("delete", job.resource, namespace, job.group) : allowed("delete", "frameworks", namespace),
  ]);
  const state = stateOfFramework(framework);
  const completed = framework.status?.state === "Completed";
  const open = !completed && state !== "Terminating";
  const actionButton = (name, action, kind) => button(name, () => confirm(action(current(), owningJob(current())), onChange), { kind, data: { action: name } });
  return [
    mayPatch && open && framework.spec.executionType === "Create" && actionButton("Start", start, "primary"),
    mayPatch && open && framework.spec.executionType !== "Stop" && actionButton("Stop", stop),
    mayPatch && open && !job && actionButton("Scale", scale),
    mayCreate && mayDelete && !job && (completed || (open && !["Create", "Stop"].includes(framework.spec.executionType))) && actionButton("Re-run", rerun),
    mayDelete && state !== "Terminating" && actionButton("Delete", deletion, "danger"),
  ].filter(Boolean);
}

/** Returns the job that owns the Framework, such as a TFJob, or null. */
export function owningJob(framework) {
  const owner = framework.metadata.ownerReferences?.find((each) => each.controller && JOB_RESOURCES[each.kind]);
  if (!owner) return null;
  const resource = JOB_RESOURCES[owner.kind];
  const [group] = owner.apiVersion.split("/");
  return { ...owner, resource, group, path: pathOf(`apis/${owner.apiVersion}`, "namespaces", framework.metadata.namespace, resource, owner.name) };
}

const itemPath = ({ metadata }) => frameworksPath(metadata.namespace, metadata.name);
const flags = ({ metadata }) => (metadata.namespace === "default" ? "" : ` -n ${metadata.namespace}`);

function stop(framework, job) {
  const { name } = framework.metadata;
  return {
    title: `Stop ${name}?`,
    text: `Its pods are deleted, and it completes as stopped. A stopped Framework cannot be started again; it can be run again.${job ? ` ${job.kind} ${job.name} completes with it.` : ""}`,
    command: `launcher stop ${name}${flags(framework)}`,
    confirm: "Stop",
    kind: "danger",
    run: () => patch(itemPath(framework), { spec: { executionType: "Stop" } }),
    done: `${name} is stopping`,
  };
}

function start(framework) {
  const { name } = framework.metadata;
  return {
    title: `Start ${name}?`,
    text: "Its pods are created.",
    command: `launcher start ${name}${flags(framework)}`,
    confirm: "Start",
    run: () => patch(itemPath(framework), { spec: { executionType: "Start" } }),
    done: `${name} is starting`,
  };
}

function scale(framework) {
  const { name } = framework.metadata;
  const roles = framework.spec.taskRoles;
  const inputs = roles.map((role) => h("input", { type: "number", min: "0", max: "10000", step: "1", required: true, value: String(role.taskNumber ?? 1), name: role.name }));
  const changes = () => roles.map((role, i) => ({ role, i, number: inputs[i].valueAsNumber })).filter(({ role, number }) => Number.isInteger(number) && number !== (role.taskNumber ?? 1));
  return {
    title: `Scale ${name}`,
    text: "Tasks are added or removed at the end of each role while the others keep running.",
    fields: roles.map((role, i) => h("label", { class: "field-row" }, `${role.name} `, inputs[i])),
    command: () => `launcher scale ${name}${changes().map(({ role, number }) => ` ${role.name}=${number}`).join("") || " ROLE=NUMBER"}${flags(framework)}`,
    confirm: "Scale",
    run: () => {
      const operations = changes().flatMap(({ i, role, number }) => [
        // Rejected if the order of the roles has changed.
        { op: "test", path: `/spec/taskRoles/${i}/name`, value: role.name },
        { op: "add", path: `/spec/taskRoles/${i}/taskNumber`, value: number },
        // It overrides taskNumber.
        ...(framework.spec.replicas === undefined || framework.spec.replicas === null ? [] : [{ op: "add", path: "/spec/replicas", value: number }]),
      ]);
      return operations.length ? patch(itemPath(framework), operations) : null;
    },
    done: `${name} is scaled`,
  };
}

function rerun(framework) {
  const { name } = framework.metadata;
  const file = `${name}.yaml`;
  const running = framework.status?.state === "Completed" ? "" : ` Its pods have ${gracePeriodSeconds(framework)}s to end.`;
  return {
    title: `Run ${name} again?`,
    text: `The Framework is deleted, with its pods, logs and earlier attempts, and submitted again with the same spec.${running}`,
    command: `launcher get ${name} -o yaml${flags(framework)} > ${file}\nlauncher delete ${name} --wait${flags(framework)}\nlauncher submit ${file}${flags(framework)}`,
    confirm: "Re-run",
    kind: running ? "danger" : "primary",
    stop: "Stop waiting",
    run: (report, signal) => runAgain(framework, report, signal),
    done: `${name} is submitted again`,
  };
}

function deletion(framework, job) {
  const { name } = framework.metadata;
  return {
    title: `Delete ${job ? `${job.kind} ${job.name}` : name}?`,
    text: job
      ? `${job.kind} ${job.name} owns this Framework and would create it again, so the job is deleted, with its pods and logs.`
      : "Its pods, logs and earlier attempts are deleted with it.",
    command: `launcher delete ${name}${flags(framework)}`,
    confirm: "Delete",
    kind: "danger",
    run: () => remove(job ? job.path : itemPath(framework)),
    done: `${name} is being deleted`,
  };
}

/**
 * Asks for confirmation and runs the action; `onChange` is called when it has succeeded. `run(report, signal)` may report
 * what it waits for. With `stop`, a button of that name aborts the signal; without, the dialog stays until the end.
 */
function confirm({ title, text, fields = [], command, confirm: label, kind = "primary", stop, run, done }, onChange) {
  const dialog = document.getElementById("action");
  const shown = h("pre", {});
  const commandText = () => (typeof command === "function" ? command() : command);
  const refresh = () => (shown.textContent = commandText());
  const error = h("p", { class: "error-text", role: "alert" });
  const progress = h("p", { class: "muted", role: "status" });
  const submit = h("button", { type: "submit", class: `button ${kind}` }, label);
  const cancel = button("Cancel", () => leave());
  let running = null;
  const form = h("form", { on: { input: refresh, submit: (event) => { event.preventDefault(); execute(); } } },
    h("h2", { id: "action-title" }, title),
    h("p", { class: "text" }, text),
    fields.length ? h("div", { class: "fields" }, fields) : null,
    h("div", {}, h("p", { class: "hint" }, "The same on the command line:"), h("div", { class: "command" }, shown, copyButton(commandText, "Copy the command"))),
    progress,
    error,
    h("div", { class: "dialog-actions" }, cancel, submit),
  );

  function leave() {
    if (running) running.abort();
    else dialog.close();
  }

  function setRunning(controller) {
    running = controller;
    submit.disabled = running !== null;
    cancel.disabled = running !== null && !stop;
    cancel.textContent = running && stop ? stop : "Cancel";
    progress.textContent = "";
  }

  async function execute() {
    setRunning(new AbortController());
    replace(error);
    try {
      await run((text) => (progress.textContent = text), running.signal);
      setRunning(null);
      dialog.close();
      announce(done);
      onChange?.();
    } catch (failure) {
      setRunning(null);
      replace(error, failure.message, failure.next?.(() => dialog.close()));
      // A browser closes a dialog if Escape is pressed twice.
      if (!dialog.open) dialog.showModal();
    }
  }

  refresh();
  replace(dialog, form);
  dialog.oncancel = (event) => {
    if (!running) return;
    event.preventDefault();
    if (stop) leave();
  };
  dialog.showModal();
}

/** Asks for confirmation and stops or deletes the Frameworks of these rows of the list. */
export function confirmBulk(action, rows, onDone) {
  const names = rows.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  const verb = action === "stop" ? "Stop" : "Delete";
  const byNamespace = Map.groupBy ? Map.groupBy(rows, ({ metadata }) => metadata.namespace) : grouped(rows);
  const commands = [...byNamespace].flatMap(([namespace, each]) => {
    const flag = namespace === "default" ? "" : ` -n ${namespace}`;
    const list = each.map(({ metadata }) => metadata.name);
    return action === "delete" ? [`launcher delete ${list.join(" ")}${flag}`] : list.map((name) => `launcher stop ${name}${flag}`);
  });
  confirm({
    title: `${verb} ${counted(rows.length, "Framework")}?`,
    text: action === "stop" ? "Their pods are deleted. Frameworks that have completed stay as they are." : "Their pods, logs and earlier attempts are deleted with them.",
    fields: [h("ul", {}, names.map((name) => h("li", {}, name)))],
    command: commands.join("\n"),
    confirm: `${verb} ${counted(rows.length, "Framework")}`,
    kind: "danger",
    run: () => runBulk(action, rows),
    done: `${counted(rows.length, "Framework")} ${action === "stop" ? "stopping" : "being deleted"}`,
  }, onDone);
}

function grouped(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.metadata.namespace, [...(groups.get(row.metadata.namespace) ?? []), row]);
  return groups;
}

async function runBulk(action, rows) {
  const failures = [];
  for (const row of rows) {
    try {
      const framework = await get(itemPath(row));
      const job = owningJob(framework);
      if (action === "delete") await remove(job ? job.path : itemPath(row));
      else if (framework.status?.state !== "Completed") await patch(itemPath(row), { spec: { executionType: "Stop" } });
    } catch (error) {
      if (error.status !== 404) failures.push(`${row.metadata.name}: ${error.message}`);
    }
  }
  if (failures.length) throw new Error(failures.join("\n"));
}
