// Re-run: deletes a Framework, waits until its pods have ended, and submits it again with the same spec.

import { ApiError, create, frameworksPath, get, remove } from "../api.js";
import { button } from "../dom.js";
import { sleep } from "../live.js";

/** The default of Kubernetes. */
const GRACE_SECONDS = 30;
/** Pods may need so much longer than their grace period, for example to unmount volumes. */
const EXTRA_MS = 60_000;
const POLL_MS = 500;
const UNREACHABLE = "The launcher cannot be reached.";

/** Returns the longest grace period of the Framework's pods. */
export function gracePeriodSeconds({ spec }) {
  return Math.max(0, ...spec.taskRoles.map((role) => role.task?.pod?.spec?.terminationGracePeriodSeconds ?? GRACE_SECONDS));
}

/** The Framework is deleted but not submitted again. */
class NotSubmitted extends Error {
  constructor(reason, manifest) {
    super(`${reason} The Framework was not submitted again. `);
    this.manifest = manifest;
  }

  /** Returns a button that shows the manifest; `onOpen` is called before. */
  next(onOpen) {
    return button("Open its manifest in Submit", async () => {
      const { openManifest } = await import("../pages/submit.js");
      onOpen();
      openManifest(this.manifest);
    }, { kind: "small" });
  }
}

/**
 * Runs the Framework again; `report(text)` is called with what is waited for. Nothing is deleted if the server would reject
 * the new Framework. Raises NotSubmitted if it is deleted and cannot be submitted, or if `signal` is aborted before that.
 */
export async function runAgain({ metadata: { namespace, name } }, report, signal) {
  const path = frameworksPath(namespace, name);
  // That of the page may be older.
  const framework = await get(path, { signal });
  const { uid } = framework.metadata;
  const manifest = manifestOf(framework);
  await check(manifest, signal);
  const seconds = gracePeriodSeconds(framework);
  const deadline = performance.now() + seconds * 1000 + EXTRA_MS;
  await repeated((isRetry) => deleted(path, uid, isRetry), deadline, signal, UNREACHABLE);
  addEventListener("beforeunload", confirmUnload);
  try {
    report(`Waiting until its pods have ended, usually within ${seconds}s. Keep this tab open.`);
    await repeated(() => gone(path, uid), deadline, signal, "Its pods have not ended.");
    report("Submitting it again.");
    await repeated((isRetry) => submitted(manifest, isRetry), deadline, signal, UNREACHABLE);
  } catch (error) {
    throw new NotSubmitted(error.message, manifest);
  } finally {
    removeEventListener("beforeunload", confirmUnload);
  }
}

/** Lets the browser ask before the tab is closed. */
const confirmUnload = (event) => event.preventDefault();

function manifestOf({ apiVersion, kind, metadata, spec }) {
  const { name, namespace, labels, annotations = {} } = metadata;
  const { "kubectl.kubernetes.io/last-applied-configuration": _, ...others } = annotations;
  return { apiVersion, kind, metadata: { name, namespace, labels, annotations: others }, spec: { ...spec, executionType: "Start" } };
}

/** Raises the error of the server if it would reject the manifest for another reason than that its name is in use. */
async function check(manifest, signal) {
  try {
    await create(frameworksPath(manifest.metadata.namespace), manifest, { query: { dryRun: "All" }, signal });
  } catch (error) {
    if (error.status !== 409) throw error;
  }
}

/** Calls `step(isRetry)` until it returns true; a server that does not respond is not an error. */
async function repeated(step, deadline, signal, reason) {
  for (let count = 0; ; count++) {
    if (signal.aborted) throw new Error("You stopped waiting.");
    try {
      if (await step(count > 0)) return;
    } catch (error) {
      if (!(error instanceof ApiError) || !isTransient(error)) throw error;
    }
    if (performance.now() > deadline) throw new Error(reason);
    await sleep(POLL_MS, signal);
  }
}

const isTransient = ({ status }) => status === 0 || status === 429 || status >= 500;

async function deleted(path, uid, isRetry) {
  try {
    await remove(path, { uid });
  } catch (error) {
    // The response of the request before may have been lost.
    if (error.status !== 404 || !isRetry) throw error;
  }
  return true;
}

async function gone(path, uid) {
  try {
    return (await get(path)).metadata.uid !== uid;
  } catch (error) {
    if (error.status === 404) return true;
    throw error;
  }
}

async function submitted(manifest, isRetry) {
  try {
    await create(frameworksPath(manifest.metadata.namespace), manifest);
  } catch (error) {
    if (error.status !== 409 || !isRetry) throw error;
  }
  return true;
}
