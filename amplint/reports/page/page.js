for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head));
  }
}

function sort(table, head) {
  const down = head.getAttribute("aria-sort") === "ascending" || !head.hasAttribute("aria-sort") && head.classList.contains("number");
  const ordered = [...table.tBodies[0].rows].sort((one, other) => {
    const order = compare(value(one.cells[head.cellIndex]), value(other.cells[head.cellIndex]));
    return down ? -order : order;
  });
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  table.tBodies[0].append(...ordered);
}

function value(cell) {
  return cell.dataset.value ?? cell.textContent.trim();
}

function compare(one, other) {
  const difference = Number(one) - Number(other);
  return Number.isNaN(difference) ? one.localeCompare(other, "en", { numeric: true }) : difference;
}
