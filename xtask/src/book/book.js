// SPDX-License-Identifier: BSD-2-Clause
// The site's search, its list on small screens, and its colours. It needs no server: pages work from files, too.
"use strict";
const root = document.documentElement;
try { root.dataset.theme = localStorage.getItem("theme") || ""; } catch { /* no storage: the system's colours */ }

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Every word must be there. A heading that has it counts most, then how often the text does; chapters come before the reference.
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const [url, title, heading, body] of window.INDEX || []) {
    const head = heading.toLowerCase(), low = body.toLowerCase(), all = `${title} ${heading} ${body}`.toLowerCase();
    if (!words.every(word => all.includes(word))) continue;
    let score = url.startsWith("reference/") ? 0 : 8;
    for (const word of words) {
      if (head === word) score += 50;
      else if (head.startsWith(word)) score += 20;
      else if (head.includes(word)) score += 10;
      score += Math.min(low.split(word).length - 1, 10);
    }
    found.push({ url, title, heading, body, score });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, 30).map(entry => ({ ...entry, words }));
}

// A piece of the text around the first word, with all words marked; built of nodes, so that no text is read as HTML.
function excerpt(body, words) {
  const small = document.createElement("small");
  const low = body.toLowerCase();
  const first = Math.min(...words.map(word => low.indexOf(word)).filter(at => at >= 0), body.length);
  const from = first === body.length ? 0 : Math.max(0, first - 60);
  const piece = body.slice(from, from + 180), lowPiece = piece.toLowerCase();
  let at = 0;
  while (at < piece.length) {
    const next = words.map(word => [lowPiece.indexOf(word, at), word]).filter(([where]) => where >= 0).sort((a, b) => a[0] - b[0])[0];
    if (!next) break;
    small.append(piece.slice(at, next[0]));
    const mark = document.createElement("mark");
    mark.append(piece.slice(next[0], next[0] + next[1].length));
    small.append(mark);
    at = next[0] + next[1].length;
  }
  small.append(piece.slice(at));
  return small;
}

document.addEventListener("DOMContentLoaded", () => {
  const field = document.getElementById("search"), list = document.getElementById("found");
  const pages = document.getElementById("pages"), menu = document.getElementById("menu");
  const show = () => {
    const found = search(field.value);
    list.replaceChildren(...found.map(entry => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = root.dataset.up + entry.url;
      link.append(entry.heading === entry.title ? entry.title : `${entry.title}: ${entry.heading}`, excerpt(entry.body, entry.words));
      item.append(link);
      return item;
    }));
    if (!found.length && field.value.trim()) {
      const item = document.createElement("li");
      item.append("Nothing has all of these words.");
      list.replaceChildren(item);
    }
    list.hidden = !field.value.trim();
  };
  field.addEventListener("input", show);
  field.addEventListener("keydown", event => {
    if (event.key === "Enter" && list.querySelector("a")) location.href = list.querySelector("a").href;
    if (event.key === "Escape") { field.value = ""; show(); }
  });
  list.addEventListener("click", () => { list.hidden = true; });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); field.focus(); }
  });
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this page */ }
  });
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", pages.classList.toggle("open")));
  pages.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
});
