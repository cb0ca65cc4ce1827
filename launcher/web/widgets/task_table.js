// A table in pages of 100 rows: the twin of a canvas for the keyboard and for screen readers.

import { button, h, update } from "../dom.js";
import { counted } from "../format.js";

const PAGE_ROWS = 100;

/**
 * Returns {element, setRows}. A column is {name, cell(row), value(row) for sorting, number}; `caption` names the table.
 * With `sort`, the rows are sorted by the column at that position first.
 */
export function pagedTable({ caption, columns, noun = "task", empty = "None.", sort = null, descending = false }) {
  let rows = [];
  let page = 0;
  const body = h("tbody");
  const foot = h("div", { class: "table-foot" });
  const headings = columns.map((column, i) => h("th", { scope: "col", class: column.number ? "number" : "" },
    column.value ? h("button", { type: "button", class: "sort", on: { click: () => sortBy(i) } }, column.name) : column.name));
  const wrap = h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption }, h("table", { class: "stacked" }, h("caption", { class: "visually-hidden" }, caption), h("thead", {}, h("tr", {}, headings)), body));
  const element = h("div", {}, wrap, foot);

  function sortBy(i) {
    if (sort === i) descending = !descending;
    else [sort, descending] = [i, Boolean(columns[i].number)];
    page = 0;
    draw();
  }

  function sorted() {
    if (sort === null) return rows;
    const { value } = columns[sort];
    const direction = descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      // Missing values are last in both directions.
      if (x === null || y === null) return (x === null) - (y === null);
      return direction * (x < y ? -1 : x > y ? 1 : 0);
    });
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
    page = Math.min(page, pages - 1);
    headings.forEach((heading, i) => {
      if (i === sort) heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    const shown = sorted().slice(page * PAGE_ROWS, (page + 1) * PAGE_ROWS);
    const focus = [...body.querySelectorAll("a, button")].indexOf(document.activeElement);
    update(body, shown.map((row) => h("tr", {}, columns.map((column) => h("td", { class: [column.number && "number", column.class, column.class === "why" && "wide-cell"], data: { label: column.name } }, column.cell(row))))));
    if (focus >= 0) body.querySelectorAll("a, button")[focus]?.focus({ preventScroll: true });
    wrap.hidden = rows.length === 0;
    update(foot, h("span", {}, rows.length ? counted(rows.length, noun) : empty),
      pages > 1 ? h("span", { class: "end" },
        h("span", {}, `Page ${page + 1} of ${pages}`),
        button("Previous", () => { page--; draw(); }, { kind: "small", disabled: page === 0 }),
        button("Next", () => { page++; draw(); }, { kind: "small", disabled: page === pages - 1 })) : null);
  }

  return {
    element,
    setRows(next) {
      rows = next;
      draw();
    },
  };
}
