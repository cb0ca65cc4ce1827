// Starts the dashboard: header, theme, token, shortcuts, then the page of the URL.

import { forgetToken, hasToken, onUnauthorized } from "./api.js";
import { h, replace } from "./dom.js";
import { timeZone } from "./format.js";
import { shortcut, showHelp, startShortcuts } from "./keyboard.js";
import { onConnection } from "./live.js";
import { link, open, startRouter } from "./router.js";

const THEME = "launcher-theme";
const THEMES = ["system", "light", "dark"];
const CONNECTION = {
  live: "Live",
  connecting: "Connecting…",
  reconnecting: "Reconnecting…",
  paused: "Paused",
};

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").lastElementChild.textContent = theme;
}

function startTheme() {
  let theme = THEMES.includes(localStorage.getItem(THEME)) ? localStorage.getItem(THEME) : "system";
  setTheme(theme);
  document.getElementById("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(THEME, theme);
    setTheme(theme);
  });
}

/** Returns the promise of a token that the user enters. */
function askForToken(rejected) {
  const dialog = document.getElementById("token");
  const input = h("input", { type: "password", id: "token-input", autocomplete: "off", spellcheck: "false", required: true });
  return new Promise((resolve) => {
    const form = h("form", {
      on: {
        submit: (event) => {
          event.preventDefault();
          const value = input.value.trim();
          if (!value) return;
          input.value = "";
          dialog.close();
          resolve(value);
        },
      },
    },
      h("h2", { id: "token-title" }, "Token"),
      rejected ? h("p", { class: "error-text", role: "alert" }, "The launcher does not accept this token.") : null,
      h("p", {}, "This launcher accepts only requests with a token. It is kept in this tab until the tab is closed."),
      h("label", { for: "token-input" }, "Token"),
      input,
      h("p", { class: "hint" }, "On one machine: the content of the file of ", h("code", {}, "--token-file"), ". On Kubernetes: a bearer token of the cluster, for example from ", h("code", {}, "kubectl create token NAME"), "."),
      h("div", { class: "dialog-actions" }, h("button", { class: "button primary", type: "submit" }, "Continue")),
    );
    forgetToken();
    replace(dialog, form);
    if (!dialog.open) dialog.showModal();
    input.focus();
  });
}

function startHeader() {
  document.getElementById("skip").addEventListener("click", (event) => {
    // The part of the URL after "#" is that of the router.
    event.preventDefault();
    document.getElementById("main").focus();
  });
  const zone = timeZone();
  const [name, offset] = document.getElementById("time-zone").children;
  name.textContent = zone.name;
  name.hidden = !zone.name;
  offset.textContent = zone.offset;
  document.getElementById("show-help").addEventListener("click", showHelp);
  const status = document.getElementById("connection");
  onConnection((state) => {
    status.dataset.state = state;
    status.lastElementChild.textContent = CONNECTION[state];
    document.getElementById("forget-token").hidden = !hasToken();
  });
  document.getElementById("forget-token").addEventListener("click", () => {
    forgetToken();
    location.reload();
  });
}

onUnauthorized(askForToken);
startTheme();
startHeader();
shortcut("?", "Show this help", showHelp);
shortcut("g", "Show all Frameworks", () => open(link(["frameworks"])));
startShortcuts();
startRouter();
