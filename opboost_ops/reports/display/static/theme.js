// Airflow's choice of light or dark, kept by its own pages; without this file the system's holds.
"use strict";
function follow() {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* The system's choice holds. */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}
follow();
addEventListener("storage", follow);
// Airflow shows these pages in a frame that may lead nowhere else: its own pages open in its window,
// and this page alone, where the frame is narrow.
if (window !== window.parent) document.documentElement.dataset.framed = "";
addEventListener("click", (event) => {
  const link = event.target.closest("a[data-airflow]");
  if (!link || window === window.parent) return;
  event.preventDefault();
  const own = window.parent.document.createElement("a");
  own.href = link.href;
  own.click();
});
// Wide tables scroll and show their column count.
function measure() {
  for (const more of document.querySelectorAll(".more")) {
    const scroll = more.nextElementSibling;
    more.hidden = scroll.scrollWidth <= scroll.clientWidth + 12;
  }
}
addEventListener("load", measure);
addEventListener("resize", measure);
addEventListener("toggle", measure, true);
