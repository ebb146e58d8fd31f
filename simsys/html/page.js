"use strict";
(() => {
  const SHOWN = 25;
  const text = (value) => {
    if (value === null) return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value !== "number") return String(value);
    if (Number.isInteger(value)) return value.toLocaleString("en-US");
    return Math.abs(value) >= 1e4 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(4)));
  };
  const compare = (one, other) => {
    if (one === null || other === null) return (one === null) - (other === null);
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), "en", { numeric: true });
  };
  const readRows = (box, body) => {
    if (box.dataset.rows) return JSON.parse(document.getElementById(box.dataset.rows).textContent);
    return Array.from(body.rows, (row) => Array.from(row.cells, (cell) => {
      if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
      return cell.textContent === "–" ? null : cell.textContent;
    }));
  };
  for (const box of document.querySelectorAll("[data-table]")) {
    const body = box.querySelector("tbody");
    const pager = box.querySelector(".pager");
    const rows = readRows(box, body);
    const elements = box.dataset.rows ? null : Array.from(body.rows);
    let order = rows.map((_, index) => index);
    let words = "";
    let first = 0;
    const made = (row) => {
      const element = document.createElement("tr");
      for (const value of row) {
        const cell = element.insertCell();
        cell.textContent = text(value);
        if (typeof value === "number") cell.className = "n";
        else if (typeof value === "string" && value.length > 40) cell.className = "t";
      }
      return element;
    };
    const button = (label, enabled, action) => {
      const element = document.createElement("button");
      element.type = "button";
      element.textContent = label;
      element.disabled = !enabled;
      element.addEventListener("click", action);
      return element;
    };
    const show = () => {
      const found = words ? order.filter((index) => rows[index].some((value) => text(value).toLowerCase().includes(words))) : order;
      if (elements) {
        body.replaceChildren(...found.map((index) => elements[index]));
        pager.textContent = words ? `${found.length} of ${rows.length} rows` : "";
        return;
      }
      first = Math.max(0, Math.min(first, found.length - 1));
      const last = Math.min(first + SHOWN, found.length);
      body.replaceChildren(...found.slice(first, last).map((index) => made(rows[index])));
      const from = found.length ? first + 1 : 0;
      pager.replaceChildren(
        `rows ${from} to ${last} of ${found.length.toLocaleString("en-US")} `,
        button("previous", first > 0, () => { first -= SHOWN; show(); }),
        button("next", last < found.length, () => { first += SHOWN; show(); }),
      );
    };
    box.querySelectorAll("th").forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        for (const other of box.querySelectorAll("th")) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const sign = rising ? 1 : -1;
        order = rows.map((_, index) => index).sort((one, other) => {
          const values = [rows[one][column], rows[other][column]];
          return (values.includes(null) ? compare(...values) : sign * compare(...values)) || one - other;
        });
        first = 0;
        show();
      });
    });
    const input = box.querySelector("input");
    if (input) input.addEventListener("input", () => { words = input.value.trim().toLowerCase(); first = 0; show(); });
    if (box.dataset.rows) show();
  }
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
})();
