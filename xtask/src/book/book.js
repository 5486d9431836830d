// SPDX-License-Identifier: BSD-2-Clause
// The site's search, its list on small screens, its colours, and buttons that copy blocks. It needs no server: pages work from files, too.
"use strict";
const root = document.documentElement;
try { root.dataset.theme = localStorage.getItem("theme") || ""; } catch { /* no storage: the system's colours */ }

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Words that say nothing about a page; they count only if a query has no others.
const EMPTY = new Set("a an and are as at by can do does for from how i in is it my of on or the to what why with".split(" "));

// The words of a query. A plural, a participle and its verb are alike: "evicted" and "evicts" are found by "evict", and the other way round.
function wordsOf(text) {
  const all = text.toLowerCase().split(/\s+/).map(word => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "")).filter(Boolean);
  const full = all.filter(word => !EMPTY.has(word));
  return (full.length ? full : all).map(word => /^\p{L}+$/u.test(word) ? word.replace(/(?<=.{4})(?:ing|ed|es|s)$/, "") : word);
}

// "keep-alive" is "keepalive", too.
const joined = text => text.toLowerCase().replace(/(?<=\p{L})-(?=\p{L})/gu, "");

// How often a text has a word, or a longer word that begins with it.
function count(text, word) {
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "gu");
  return Math.max((text.toLowerCase().match(pattern) || []).length, (joined(text).match(pattern) || []).length);
}

// The share of a heading's words that a query has; of "ESI: pages of parts" those before the colon are enough.
function coverage(heading, words) {
  const share = text => Math.min(1, words.filter(word => count(text, word)).length / text.trim().split(/\s+/).length);
  return Math.max(...[heading, heading.split(":")[0]].map(share));
}

// The sections that have all words, or, if none has, those that have the most. A word that few sections have counts most. A heading counts more than
// a page's title, a title more than the text, and a heading most if it is nothing but the query. Pages
// at the book's beginning come before later ones, and all of them before the reference.
function search(text) {
  const words = wordsOf(text), index = window.INDEX || [];
  if (!words.length) return [];
  const found = index.map(([url, title, heading, body]) => ({ url, title, heading, body, words, score: 0,
    hits: words.map(word => ({ title: count(title, word), heading: count(heading, word), body: count(body, word) })) }));
  const has = hit => hit.title + hit.heading + hit.body > 0;
  const most = Math.max(...found.map(entry => entry.hits.filter(has).length));
  if (!most) return [];
  const weights = words.map((_, i) => Math.log(1 + index.length / (1 + found.filter(entry => has(entry.hits[i])).length)));
  const phrase = joined(text.trim());
  found.forEach((entry, place) => {
    const covered = coverage(entry.heading, words);
    entry.hits.forEach((hit, i) => {
      entry.score += weights[i] * ((hit.heading ? 3 + 5 * covered : 0) + (hit.title ? 3 : 0) + 2 * hit.body / (hit.body + 2));
    });
    if (words.length > 1) entry.score += joined(entry.heading).includes(phrase) ? 12 : joined(entry.body).includes(phrase) ? 6 : 0;
    entry.score *= 1.2 - 0.2 * place / found.length;
    if (/^(reference|internals)\//.test(entry.url)) entry.score *= 0.4;
  });
  return found.filter(entry => entry.hits.filter(has).length === most).sort((a, b) => b.score - a.score).slice(0, 30);
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

// A button that copies a block. A page from a file may have no clipboard: then the block is selected.
function withButton(pre) {
  const block = document.createElement("div"), button = document.createElement("button");
  block.className = "block";
  button.append("Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent.trimEnd());
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
      button.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  pre.replaceWith(block);
  block.append(pre, button);
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
  document.querySelectorAll("pre").forEach(withButton);
  document.querySelectorAll("details.contents").forEach(list => { list.open = matchMedia("(min-width: 80rem)").matches; });
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", pages.classList.toggle("open")));
  pages.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
});
