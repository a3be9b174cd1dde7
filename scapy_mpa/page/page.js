"use strict";
(function () {
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);
  const filter = document.getElementById("filter");
  const least = document.getElementById("least");
  const shown = document.getElementById("shown");

  function valueOf(row, column) {
    const cell = row.cells[column];
    return cell.dataset.sort !== undefined ? cell.dataset.sort : cell.textContent.trim();
  }

  // Numbers go by their size, endpoints by the numbers in them.
  function compare(one, other) {
    return one.localeCompare(other, "en", { numeric: true });
  }

  function sort(column) {
    const ascending = heads[column].getAttribute("aria-sort") !== "ascending";
    heads.forEach(function (head) { head.removeAttribute("aria-sort"); });
    heads[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const isNumber = rows.length > 0 && rows[0].cells[column].classList.contains("number");
    rows.sort(function (one, other) {
      const a = valueOf(one, column), b = valueOf(other, column);
      const order = isNumber ? Number(a) - Number(b) : compare(a, b);
      return ascending ? order : -order;
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }

  function choose() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach(function (row) {
      const text = row.textContent.toLowerCase();
      const fits = words.every(function (word) { return text.includes(word); });
      const grave = least.value === "" || Number(row.dataset.severity) <= Number(least.value);
      row.hidden = !(fits && grave);
      count += row.hidden ? 0 : 1;
    });
    shown.textContent = count + " of " + rows.length + " shown";
  }

  function openTo(name) {
    const target = name ? document.getElementById(name) : null;
    for (let node = target; node; node = node.parentElement) {
      if (node.tagName === "DETAILS") { node.open = true; }
    }
    if (target) { target.scrollIntoView(); }
  }

  function openAll(isOpen) {
    document.querySelectorAll("details.connection").forEach(function (one) { one.open = isOpen; });
  }

  function enlarge(figure) {
    const isLarge = !figure.classList.contains("large");
    close();
    figure.classList.toggle("large", isLarge);
    figure.querySelector("button.enlarge").textContent = isLarge ? "Close" : "Enlarge";
  }

  function close() {
    document.querySelectorAll("figure.large").forEach(function (one) {
      one.classList.remove("large");
      one.querySelector("button.enlarge").textContent = "Enlarge";
    });
  }

  document.querySelectorAll("figure").forEach(function (figure) {
    const button = figure.querySelector("button.enlarge");
    if (button) {
      button.addEventListener("click", function () { enlarge(figure); });
      figure.querySelector("svg").addEventListener("click", function () { enlarge(figure); });
    }
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { close(); }
  });

  heads.forEach(function (head, column) {
    head.querySelector("button").addEventListener("click", function () { sort(column); });
  });
  filter.addEventListener("input", choose);
  least.addEventListener("change", choose);
  document.querySelectorAll("[data-open]").forEach(function (button) {
    button.addEventListener("click", function () { openAll(button.dataset.open === "all"); });
  });
  window.addEventListener("hashchange", function () { openTo(location.hash.slice(1)); });
  // What is printed is what each connection came to; octets stay closed unless they were opened.
  window.addEventListener("beforeprint", function () { openAll(true); });
  choose();
  openTo(location.hash.slice(1));
})();
