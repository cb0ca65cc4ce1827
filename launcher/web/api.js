// The client of the HTTP API: requests, tables, watch streams and errors. The token is kept for this tab only.

const TOKEN = "launcher-token";
/** The launcher may be served below a path prefix: all URLs are relative to this file. */
const BASE = new URL("../", import.meta.url);
const JSON_TYPE = "application/json";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

export const GROUP = "apis/launcher.microsoft.com/v1";

/** A response that is not a success. `status` is 0 if the launcher cannot be reached. */
export class ApiError extends Error {
  constructor(status, message, body = null) {
    super(message);
    this.status = status;
    /** The Status object of the response, or null. */
    this.body = body;
  }
}

/** Returns the path of a Framework, or of all of a namespace, or of all. */
export function frameworksPath(namespace, name, subresource) {
  return path(GROUP, namespace && ["namespaces", namespace], "frameworks", name, subresource);
}

/** Returns the path of a core resource: `corePath("pods", "default", "mnist-worker-0", "log")`. */
export function corePath(resource, namespace, name, subresource) {
  return path("api/v1", namespace && ["namespaces", namespace], resource, name, subresource);
}

/** Returns a path below the launcher; every part but the first is encoded, and empty ones are left out. */
export function path(prefix, ...parts) {
  return [prefix, ...parts.flat().filter(Boolean).map(encodeURIComponent)].join("/");
}

let askForToken = () => Promise.reject(new ApiError(401, "Unauthorized"));
let pendingToken = null;

/** Sets the function that returns the promise of a token; it is called once for all requests that wait for it. */
export function onUnauthorized(ask) {
  askForToken = ask;
}

/** Removes the token of this tab. */
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

/**
 * Returns the response of a request. `query` is an object; its null, undefined and empty values are left out.
 * Raises ApiError, also for a response that is not a success; an AbortError if `signal` is aborted.
 */
export async function send(method, path, { query = {}, body, accept = JSON_TYPE, type = JSON_TYPE, signal } = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { Accept: accept };
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = type;
    const response = await fetched(url, {
      method, headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error", referrerPolicy: "no-referrer",
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    if (response.ok) return response;
    const error = await errorOf(response);
    if (error.status !== 401) throw error;
    // Another request may have received a token meanwhile.
    if (sessionStorage.getItem(TOKEN) === token) await newToken(token !== null);
    signal?.throwIfAborted();
  }
}

async function newToken(rejected) {
  pendingToken ??= askForToken(rejected).then((token) => sessionStorage.setItem(TOKEN, token)).finally(() => (pendingToken = null));
  await pendingToken;
}

async function fetched(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (options.signal?.aborted || error.name === "AbortError") throw error;
    throw new ApiError(0, "The launcher cannot be reached.");
  }
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  try {
    const status = JSON.parse(text);
    return new ApiError(response.status, status.message || response.statusText, status);
  } catch {
    return new ApiError(response.status, text.slice(0, 500) || `HTTP ${response.status} ${response.statusText}`);
  }
}

/** Returns the object at `path`. */
export async function get(path, options = {}) {
  // Servers indent the JSON that they send to browsers, which doubles its size.
  return (await send("GET", path, { ...options, query: { pretty: "false", ...options.query } })).json();
}

/** Returns the text at `path`, for example YAML or a log. */
export async function getText(path, options) {
  return (await send("GET", path, { accept: "*/*", ...options })).text();
}

/** Returns the object that a POST created. */
export async function create(path, body, options) {
  return (await send("POST", path, { body, ...options })).json();
}

/** Returns the object after a merge patch (an object) or a JSON patch (a list). */
export async function patch(path, body, options) {
  const type = Array.isArray(body) ? "application/json-patch+json" : "application/merge-patch+json";
  return (await send("PATCH", path, { body, type, ...options })).json();
}

/** Deletes the object at `path`, after its dependents; with `uid`, only if it has that one. */
export async function remove(path, { uid, ...options } = {}) {
  const preconditions = uid && { uid };
  await send("DELETE", path, { body: { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Foreground", preconditions }, ...options });
}

/**
 * Returns a page of a list as a table:
 * `rows` ({metadata, cells by column name}), `resourceVersion`, `continue` and `remaining` (null if unknown).
 */
export async function table(path, { query = {}, signal } = {}) {
  const result = await get(path, { query, signal, accept: TABLE });
  const columns = (result.columnDefinitions ?? []).map((column) => column.name);
  return {
    columns,
    rows: (result.rows ?? []).map((row) => tableRow(columns, row)),
    resourceVersion: result.metadata.resourceVersion,
    continue: result.metadata.continue || null,
    remaining: result.metadata.remainingItemCount ?? null,
  };
}

function tableRow(columns, row) {
  const cells = {};
  columns.forEach((name, i) => (cells[name] = row.cells[i]));
  return { metadata: row.object.metadata, cells };
}

/**
 * Yields the events of one watch request as {type, row}, until the server ends it.
 * Bookmarks are included. Raises ApiError with status 410 if the resourceVersion is too old.
 */
export async function* watchTable(path, columns, { query, signal, onOpen }) {
  const options = { query: { ...query, watch: "true", allowWatchBookmarks: "true" }, signal, accept: TABLE };
  const response = await send("GET", path, options);
  onOpen();
  for await (const line of lines(response.body)) {
    const event = JSON.parse(line);
    if (event.type === "ERROR") throw new ApiError(event.object.code ?? 500, event.object.message ?? "", event.object);
    yield { type: event.type, row: tableRow(columns, event.object.rows[0]) };
  }
}

/** Yields the lines of a stream, without their ends. */
export async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

const reviews = new Map();

/** Returns whether the user may use `verb` on a resource of the namespace: `allowed("patch", "frameworks", "default")`. */
export function allowed(verb, resource, namespace, group = "launcher.microsoft.com") {
  const key = [verb, resource, namespace, group].join(" ");
  if (!reviews.has(key)) {
    const resourceAttributes = { verb, resource, namespace, group };
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
    const result = create("apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).then((answer) => answer.status?.allowed === true);
    reviews.set(key, result);
    // A failed request is not an answer: it is repeated by the next call.
    result.catch(() => reviews.delete(key));
  }
  return reviews.get(key).catch(() => false);
}

let user = null;

/** Returns the name by which the server knows the user. */
export function userName() {
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  user ??= create("apis/authentication.k8s.io/v1/selfsubjectreviews", review).then((answer) => answer.status.userInfo.username);
  return user.catch(() => ((user = null), ""));
}
