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
