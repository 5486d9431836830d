// SPDX-License-Identifier: BSD-2-Clause
// The page of `lacquer watch`: takes a document each second and draws it. What comes from the server becomes text, never markup.
"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
// Places in a point, as history.rs writes it.
const P = { at: 0, req: 1, hit: 2, miss: 3, pass: 4, pipe: 5, synth: 6, bytes: 7, fetched: 8, err: 9, hit50: 10, hit99: 12, miss50: 13, miss99: 15, pass50: 16, pass99: 18, share: 19, errbytes: 20 };
const KEPT = { seconds: 300, minutes: 1440 };
// Errors from which on they are red, as in doctor's rule `errors`: so many, and that share, in the last 30 s.
const MANY_ERRORS = 5, ERROR_SHARE = .02, ERROR_SECONDS = 30;
const state = { about: {}, seconds: [], minutes: [], range: "seconds", second: null, cursor: {} };

// ---- numbers
const num = (n, digits = 0) => n == null || Number.isNaN(n) ? "–" : n.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: 0 });
const rate = (n) => n == null ? "–" : num(n, n < 10 ? 2 : n < 100 ? 1 : 0);
const short = (n) => n == null ? "–" : n >= 1e9 ? num(n / 1e9, 2) + " G" : n >= 1e6 ? num(n / 1e6, 2) + " M" : n >= 1e5 ? num(n / 1e3, 0) + " k" : num(n);
const bytes = (n) => n == null ? "–" : n >= 1e12 ? num(n / 1e12, 2) + " TB" : n >= 1e9 ? num(n / 1e9, 2) + " GB" : n >= 1e6 ? num(n / 1e6, 1) + " MB" : n >= 1e3 ? num(n / 1e3, 1) + " kB" : num(n) + " B";
const percent = (n) => n == null || !Number.isFinite(n) ? "–" : num(n * 100, n > .9995 || n < .0995 ? 2 : 1) + " %";
const ms = (n) => n == null ? "–" : n >= 1000 ? num(n / 1000, 2) + " s" : n >= 100 ? num(n) + " ms" : n >= 10 ? num(n, 1) + " ms" : n >= 1 ? num(n, 2) + " ms" : num(n * 1000) + " µs";
const span = (s) => { if (s == null) return "–"; const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60; return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${Math.floor(s % 60)} s` : `${Math.floor(s)} s`; };
const clock = (t, withSeconds = true) => new Date(t * 1000).toLocaleTimeString("en-GB", withSeconds ? {} : { hour: "2-digit", minute: "2-digit" });

// ---- the document
function el(name, text, cls) {
  const e = document.createElement(name);
  if (text != null) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
function put(id, text) { const e = $(id); if (e.textContent !== text) e.textContent = text; }
function svg(name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text != null) e.textContent = text;
  return e;
}
// Rows are kept and refilled, so that focus and selection stay. A cell is a text, or [text, class, title], or a node, or a link:
// { text, href, small, explain }, which is plain text without its href.
function rows(id, list, cells, empty) {
  const body = $(id).tBodies[0], columns = $(id).tHead.rows[0].cells.length;
  if (!list.length) {
    const tr = el("tr", null, "empty"), td = el("td", empty);
    td.colSpan = columns;
    tr.append(td);
    body.replaceChildren(tr);
    return;
  }
  if (body.rows.length && body.rows[0].className === "empty") body.replaceChildren();
  while (body.rows.length > list.length) body.lastElementChild.remove();
  list.forEach((item, at) => {
    let tr = body.rows[at];
    if (!tr) { tr = el("tr"); body.append(tr); }
    const wanted = cells(item);
    wanted.forEach((cell, n) => {
      let td = tr.cells[n];
      if (!td) { td = el(n === 0 ? "th" : "td"); if (n === 0) td.scope = "row"; tr.append(td); }
      if (cell?.text != null) { link(td, cell); return; }
      if (cell instanceof Node) { td.className = ""; td.replaceChildren(cell); return; }
      const [text, cls, title] = Array.isArray(cell) ? cell : [cell, ""];
      if (td.textContent !== text || td.firstElementChild) td.textContent = text;
      td.className = cls || "";
      td.title = title || "";
    });
  });
}
function link(td, { text, href, small, explain, cls, title }) {
  const tag = href ? "A" : "SPAN";
  let a = td.firstElementChild;
  if (a?.tagName !== tag) { a = el(tag); td.replaceChildren(a); }
  if (a.textContent !== text) a.textContent = text;
  if (href && a.getAttribute("href") !== href) a.setAttribute("href", href);
  if (explain) a.dataset.explain = explain; else delete a.dataset.explain;
  if ((td.children[1]?.textContent ?? "") !== (small ?? "")) { td.children[1]?.remove(); if (small) td.append(el("small", small)); }
  td.className = cls || "";
  td.title = title || "";
}
// A URL leads to its explanation. One with numbers left out ("#"), a query ("?" at its end) or a part left out is none that could be asked, nor is
// one without its host.
const url = (text) => state.about.cli && !/^\/|#|\?$|\.\.\.$/.test(text) ? { text, href: "#explain", explain: text, cls: "url", title: "Explain this URL" } : [text, "url"];
// A reason leads to its row of the book, if the book has one.
const reason = (name, more) => ({ href: state.about.reasons?.includes(name.replaceAll("_", "-")) ? `book#${name.replaceAll("_", "-")}` : null, ...more });
function facts(id, list) {
  const dl = $(id);
  while (dl.children.length > 2 * list.length) dl.lastElementChild.remove();
  list.forEach(([name, value, key, cls], at) => {
    let dt = dl.children[2 * at], dd = dl.children[2 * at + 1];
    if (!dt) { dt = el("dt"); dd = el("dd"); dl.append(dt, dd); }
    if (dt.textContent !== name) dt.textContent = name;
    if (dd.textContent !== value) dd.textContent = value;
    if (key) dd.dataset.counter = key;
    dd.className = cls || "";
  });
}
function meter(share, warn) {
  const outer = el("div", null, warn ? "meter warn" : "meter"), inner = el("i");
  inner.style.width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  outer.append(inner);
  outer.setAttribute("role", "img");
  outer.setAttribute("aria-label", percent(share));
  return outer;
}
const tag = (text, cls) => el("span", text, `tag ${cls}`);

// ---- charts
const points = () => state[state.range];
// The points of the last seconds. While no watcher ran there were none.
const recent = (seconds) => { const end = state.seconds.at(-1)?.[P.at]; return state.seconds.filter((p) => p[P.at] > end - seconds); };
function spark(id, of, floor) {
  const root = $(id), end = state.seconds.at(-1)?.[P.at], list = recent(120), data = list.map(of), known = data.filter((n) => n != null);
  if (known.length < 2) { root.replaceChildren(); return; }
  const top = Math.max(floor, ...known) * 1.08, W = 200, H = 34, step = W / 119, x = (n) => W - (end - list[n][P.at]) * step, y = (v) => H - 2 - (v / top) * (H - 6);
  let line = "", pen = "M", first = null, last = 0;
  data.forEach((v, n) => { if (v == null) return; line += `${pen}${x(n).toFixed(1)} ${y(v).toFixed(1)}`; pen = "L"; first ??= n; last = n; });
  root.setAttribute("viewBox", `0 0 ${W} ${H}`);
  root.setAttribute("preserveAspectRatio", "none");
  root.replaceChildren(svg("path", { class: "area", d: `${line}L${x(last).toFixed(1)} ${H}L${x(first).toFixed(1)} ${H}Z` }), svg("path", { class: "line", d: line }));
}
function nice(top) {
  const size = 10 ** Math.floor(Math.log10(top || 1));
  return [1, 2, 2.5, 5, 10].map((n) => n * size).find((n) => n >= top) || top;
}
function frame(root, list, marks, y, label) {
  const box = root.getBoundingClientRect(), W = Math.max(240, box.width), H = Math.max(120, box.height), left = 46, bottom = 18, right = 6, top = 8;
  const most = KEPT[state.range], step = (W - left - right) / (most - 1), unit = state.range === "seconds" ? 1 : 60, last = list.length ? list[list.length - 1][P.at] : 0;
  // By time: nothing was seen while no watcher ran.
  const x = (n) => W - right - ((last - list[n][P.at]) / unit) * step;
  const g = { W, H, left, bottom, right, top, x, step, y: (v) => top + (1 - y(v)) * (H - top - bottom) };
  root.setAttribute("viewBox", `0 0 ${W} ${H}`);
  const out = [];
  for (const mark of marks) out.push(svg("line", { class: "grid", x1: left, x2: W - right, y1: g.y(mark), y2: g.y(mark) }), svg("text", { x: left - 6, y: g.y(mark) + 4, "text-anchor": "end" }, label(mark)));
  const every = state.range === "seconds" ? 60 : 4 * 3600;
  for (let t = Math.floor(last / every) * every; list.length && t > last - most * unit; t -= every) {
    const at = W - right - ((last - t) / unit) * step;
    if (at < left + 14 || at > W - 14) continue;
    out.push(svg("text", { x: at, y: H - 4, "text-anchor": "middle" }, clock(t, false)));
  }
  return [g, out];
}
const STACK = [["hit", "hits"], ["miss", "misses"], ["pass", "passes"], ["pipe", "pipes"], ["synth", "synthetic"]];
// The list's pieces between which nothing was seen: [first, last] of each.
function pieces(list) {
  const most = 5 * (state.range === "seconds" ? 1 : 60), out = [];
  list.forEach((p, n) => { if (!n || p[P.at] - list[n - 1][P.at] > most) out.push([n, n]); else out.at(-1)[1] = n; });
  return out;
}
function drawRequests() {
  const root = $("c-req"), list = points(), sums = list.map((p) => STACK.reduce((sum, [k]) => sum + (p[P[k]] || 0), 0));
  const top = nice(Math.max(1, ...sums)), [g, out] = frame(root, list, [0, top / 2, top], (v) => v / top, (v) => short(v));
  let under = list.map(() => 0);
  for (const [key] of STACK) {
    const over = list.map((p, n) => under[n] + (p[P[key]] || 0));
    if (list.length > 1 && over.some((v, n) => v > under[n])) {
      const up = over.map((v, n) => `${g.x(n).toFixed(1)} ${g.y(v).toFixed(1)}`), down = under.map((v, n) => `${g.x(n).toFixed(1)} ${g.y(v).toFixed(1)}`);
      const d = pieces(list).map(([a, b]) => `M${up.slice(a, b + 1).join("L")}L${down.slice(a, b + 1).reverse().join("L")}Z`).join("");
      out.push(svg("path", { class: `area c-${key}`, d }));
    }
    under = over;
  }
  // Whatever they were, hits or misses: a line over all.
  if (list.some((p) => p[P.err] > 0)) out.push(svg("path", { class: "line errors", d: pieces(list).map(([a, b]) => "M" + list.slice(a, b + 1).map((p, n) => `${g.x(a + n).toFixed(1)} ${g.y(Math.min(top, p[P.err])).toFixed(1)}`).join("L")).join("") }));
  finish(root, g, out, list, (p) => `${clock(p[P.at])}: ${rate(p[P.req])} requests/s, ${rate(p[P.err])} errors, ${rate(p[P.hit])} hits, ${rate(p[P.miss])} misses, ${rate(p[P.pass])} passes, ${rate(p[P.pipe])} pipes, ${rate(p[P.synth])} synthetic; ${bytes(p[P.bytes])}/s out, ${bytes(p[P.fetched])}/s from backends`);
}
const LINES = [["hit50", "c-hit", ""], ["hit99", "c-hit", "far"], ["miss50", "c-miss", ""], ["miss99", "c-miss", "far"], ["pass50", "c-pass", ""], ["pass99", "c-pass", "far"]];
function drawTimes() {
  const root = $("c-ttfb"), list = points(), all = list.flatMap((p) => LINES.map(([k]) => p[P[k]])).filter((v) => v != null && v > 0);
  const low = Math.floor(Math.log10(Math.max(.01, Math.min(1, ...all)))), high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(1, ...all))));
  const marks = []; for (let e = low; e <= high; e++) marks.push(10 ** e);
  const [g, out] = frame(root, list, marks, (v) => (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low), ms);
  for (const [key, cls, far] of LINES) {
    let d = "", pen = "M", seen = 0;
    const most = 5 * (state.range === "seconds" ? 1 : 60);
    list.forEach((p, n) => { const v = p[P[key]]; if (v == null) return; if (p[P.at] - seen > most) pen = "M"; seen = p[P.at]; d += `${pen}${g.x(n).toFixed(1)} ${g.y(v).toFixed(1)}`; pen = "L"; });
    if (d) out.push(svg("path", { class: `line ${cls} ${far}`, d }));
  }
  finish(root, g, out, list, (p) => `${clock(p[P.at])}: hits ${ms(p[P.hit50])}, 99 % ${ms(p[P.hit99])}; misses ${ms(p[P.miss50])}, 99 % ${ms(p[P.miss99])}; passes ${ms(p[P.pass50])}, 99 % ${ms(p[P.pass99])}`);
}
function finish(root, g, out, list, say) {
  const at = state.cursor[root.id];
  if (at != null && list.length) {
    const when = list[list.length - 1][P.at] - at * (state.range === "seconds" ? 1 : 60), after = list.findIndex((p) => p[P.at] >= when), n = Math.max(0, after), x = g.x(n);
    out.push(svg("line", { class: "cursor", x1: x, x2: x, y1: g.top, y2: g.H - g.bottom }));
    put(root.getAttribute("aria-describedby"), say(list[n]));
  }
  root.replaceChildren(...out);
  root.setAttribute("aria-label", list.length ? `${root.id === "c-req" ? "Requests per second" : "Time to first byte"}, latest: ${say(list[list.length - 1])}` : "no data yet");
  root.geometry = g;
}
function cursor(root, draw) {
  root.addEventListener("pointermove", (e) => {
    const g = root.geometry, box = root.getBoundingClientRect();
    if (!g) return;
    const back = Math.round((g.W - g.right - (e.clientX - box.left) * (g.W / box.width)) / g.step);
    state.cursor[root.id] = Math.max(0, Math.min(KEPT[state.range] - 1, back));
    draw();
  });
  root.addEventListener("blur", () => put("read-out", ""));
  root.addEventListener("pointerleave", () => { delete state.cursor[root.id]; draw(); });
  root.addEventListener("keydown", (e) => {
    const move = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30, Home: 1e9, End: -1e9 }[e.key];
    if (e.key === "Escape") delete state.cursor[root.id]; else if (move) state.cursor[root.id] = Math.max(0, Math.min(KEPT[state.range] - 1, (state.cursor[root.id] ?? (move > 0 ? -1 : 1)) + move)); else return;
    e.preventDefault();
    draw();
    // Only a move is read aloud: the text below the chart changes each second.
    put("read-out", $(root.getAttribute("aria-describedby")).textContent);
  });
}
function keys(id, list) {
  $(id).replaceChildren(...list.map(([cls, text]) => { const k = el("span"); if (cls) k.append(el("i", null, cls)); k.append(text); return k; }));
}

// ---- a second
function draw() {
  const d = state.second;
  if (!d) return;
  const p = d.point || [], t = d.totals, last = recent(10), sum = (at) => last.reduce((s, q) => s + (q[at] || 0), 0);
  const l = $("log");
  problems(d);
  put("program", d.server.program || "Lacquer");
  put("uptime", d.server.manager != null ? `up ${span(d.server.manager)}` : "");
  const log = !d.log.open ? ["no log", "bad"] : d.log.sampled ? [`log sampled: 1 of ${num(1 / d.log.share, d.log.share > .2 ? 1 : 0)} read`, "warn"] : ["whole log read", "quiet"];
  if (d.log.overruns) { log[0] += `; lost ${num(d.log.overruns)} ×`; log[1] = "warn"; }
  if (d.log.open && d.log.late_ms > 5000 && (p[P.req] || 0) > 1) { log[0] += `; late by ${span(d.log.late_ms / 1000)}`; log[1] = "warn"; }
  put("log", log[0]);
  l.className = `pill ${log[1]}`;
  l.title = d.log.sampled ? "Latencies, tables and reasons by URL are of a sample; counts are exact." : "";
  put("clock", clock(d.t));

  const looked = sum(P.hit) + sum(P.miss), asked = sum(P.req), out = sum(P.bytes), fetched = sum(P.fetched);
  put("t-req", rate(p[P.req]));
  put("t-req-s", `${bytes(p[P.bytes])}/s out`);
  put("t-hit", percent(looked ? sum(P.hit) / looked : null));
  put("t-hit-s", asked ? `${percent(sum(P.hit) / asked)} of all requests` : "nothing was asked for");
  const errors = sum(P.err), failing = asked ? errors / asked : 0;
  put("t-bytes", percent(byteHits(out, fetched, sum(P.errbytes), asked, errors)));
  put("t-bytes-s", `${bytes(p[P.fetched])}/s fetched`);
  put("t-fast", ms(p[P.hit50]));
  put("t-fast-s", `99 %: ${ms(p[P.hit99])}`);
  put("t-slow", ms(p[P.miss50]));
  put("t-slow-s", `99 %: ${ms(p[P.miss99])}`);
  put("t-pass", ms(p[P.pass50]));
  put("t-pass-s", `99 %: ${ms(p[P.pass99])}`);
  put("t-err", asked ? percent(failing) : "–");
  put("t-err-s", `${rate(errors / Math.max(1, last.length))} per second`);
  $("tile-err").title = `Responses of 500 and above in the last 10 s. Failed fetches: ${rate(d.rates.fetch_failed)} per second`;
  const lately = recent(ERROR_SECONDS), total = (at) => lately.reduce((s, q) => s + (q[at] || 0), 0);
  $("tile-err").classList.toggle("bad", total(P.err) >= MANY_ERRORS && total(P.err) >= ERROR_SHARE * total(P.req));
  spark("s-req", (q) => q[P.req], 1);
  spark("s-hit", (q) => q[P.hit] + q[P.miss] ? q[P.hit] / (q[P.hit] + q[P.miss]) : null, 1);
  spark("s-bytes", (q) => byteHits(q[P.bytes], q[P.fetched], q[P.errbytes], q[P.req], q[P.err]), 1);
  spark("s-fast", (q) => q[P.hit50], .01);
  spark("s-slow", (q) => q[P.miss50], .1);
  spark("s-pass", (q) => q[P.pass50], .1);
  spark("s-err", (q) => q[P.req] ? Math.min(1, q[P.err] / q[P.req]) : null, .1);
  drawRequests();
  drawTimes();

  rows("errtab", d.errors, ([[status, where], r]) => [[status, "c-bad"], url(where), [rate(r), "n"]], "No response was an error.");
  const most = Math.max(1e-9, ...d.nohit.map((r) => r[2]));
  $("nohit").parentElement.hidden = !d.nohit.length && (t.client_req || 0) > 0;
  $("nohit-none").hidden = !$("nohit").parentElement.hidden;
  rows("nohit", d.nohit, ([name, total, r, text, word]) => [reason(word || name, { text: name.replaceAll("_", " "), small: text }), [rate(r), "n"], meter(r / most), [short(total), "n"]], "Everything was a hit so far.");
  rows("whyurl", d.why, ([[why, where], r]) => [reason(why.split(":")[0], { text: why.replace(/\S*\/(\S+:\d+)$/, "$1"), cls: "why", title: why }), url(where), [rate(r), "n"]], "Nothing of late.");
  // Where the server doesn't log reasons, only the kinds of handling are known.
  const bare = d.why.some(([[why]]) => ["miss", "pass"].includes(why));
  put("why-note", bare ? "param.set log_no_hit on has the server log each reason with its line of VCL (Lacquer only)." : "");

  put("back-s", d.backends.all > d.backends.rows.length ? `${d.backends.rows.length} of ${d.backends.all}: the sick ones, then those with most requests` : "");
  rows("backtab", d.backends.rows, (b) => {
    const health = !b.probed ? tag("no probe", "quiet") : b.well ? tag("healthy", "good") : tag("sick", "bad");
    if (b.since) { health.title = `since ${clock(b.since)}`; if (!b.well) health.append(` since ${clock(b.since)}`); }
    const probe = el("span", null, "probe");
    if (b.probed) for (let bit = 7; bit >= 0; bit--) probe.append(el("i", null, (parseInt(b.happy.slice(-2), 16) >> bit) & 1 ? "" : "bad"));
    probe.setAttribute("role", "img");
    probe.setAttribute("aria-label", b.probed ? `the last 8 probes, the newest last: ${b.happy.slice(-2)}` : "none");
    const [p50, , p99] = b.times || [];
    return [[b.name, "url"], b.vcl, health, probe, [rate(b.rate), "n"], [bytes(b.bytes), "n"], [ms(p50), "n"], [ms(p99), "n"], [num(b.conn), "n"], [num(b.fail + b.failed), "n"], [num(b.unhealthy + b.busy), "n"]];
  }, "No backend was used yet, or the VCL has none.");

  rows("hot", d.hot, ([[where], r, b, , hits]) => [url(where), [rate(r), "n"], [bytes(b), "n"], [percent(hits), "n"]], "Nothing of late.");
  rows("dear", d.dear, ([[where], r, , busy]) => [url(where), [percent(busy), "n"], [rate(r), "n"], [ms(r ? busy / r * 1000 : null), "n"]], "No backend was waited for of late.");
  rows("storetab", d.stores, (x) => { const all = x.used + x.free, share = x.free ? x.used / all : null; const name = el("span", x.name); name.append(el("small", `${{ SMA: "memory", SMF: "file", DISK: "disk", SMU: "umem" }[x.kind] || x.kind}${x.name === "Transient" ? ": short-lived objects and passed responses" : /^s\d+$/.test(x.name) ? `: option -s number ${Number(x.name.slice(1)) + 1}` : ""}`)); return [name, [bytes(x.used), "n"], x.free ? meter(share, share > .97) : "", [x.free ? bytes(x.free) : "no bound", "n"], [num(x.fails), "n"]]; }, "No store.");
  rows("fill", d.fill, ([[store, where], r, b]) => [store, url(where), [bytes(b), "n"], [rate(r), "n"]], "Nothing was fetched of late.");
  facts("objects", [["Objects", num(t.n_object), "n_object"], ["Expired", `${rate(d.rates.n_expired)} / s`], ["Evicted to make room", `${rate(d.rates.n_lru_nuked)} / s`], ...(t.mem_used ? [["Memory of the server", bytes(t.mem_used)]] : [])]);
  facts("totals", [["Requests", num(t.client_req), "client_req"], ["Hits", num(t.cache_hit), "cache_hit"], ["… in grace", num(t.cache_hit_grace), "cache_hit_grace"], ["Misses", num(t.cache_miss), "cache_miss"], ["Passes", num(t.s_pass), "s_pass"], ["Pipes", num(t.s_pipe), "s_pipe"], ["Synthetic", num(t.s_synth), "s_synth"], ["Fetches", num(t.s_fetch), "s_fetch"], ["… in the background", num(t.s_bgfetch), "s_bgfetch"], ["… failed", num(t.fetch_failed), "fetch_failed", t.fetch_failed ? "bad" : ""], ["Bytes of bodies sent", bytes(t.s_resp_bodybytes), "s_resp_bodybytes"], ["Connections", num(t.sess_conn), "sess_conn"], ["TLS handshakes", num(t.tls_handshakes), "tls_handshakes"], ["… post-quantum", num(t.tls_post_quantum), "tls_post_quantum"], ["Refused for lack of a slot", num((t.sess_dropped || 0) + (t.req_dropped || 0)), "dropped", t.sess_dropped ? "bad" : ""]]);
  facts("bans", [["Bans on the list", num(t.bans), "bans"], ["… completed", num(t.bans_completed), "bans_completed"], ["Bans made", `${num(t.bans_added)}, ${rate(d.rates.bans_added)} / s`], ["Objects banned", `${num((t.bans_obj_killed || 0) + (t.bans_lurker_obj_killed || 0))}, ${rate(d.rates.bans_obj_killed)} / s`], ["Tests by the lurker", `${rate(d.rates.lurker_tested)} / s`], ["Purges", `${num(t.n_purges)}, ${rate(d.rates.n_purges)} / s`], ["Objects purged", num(t.n_obj_purged)]]);
  const v = d.server;
  facts("workers", [["Manager up", span(v.manager)], ["Worker up", span(v.worker)], ["Workers started", num(v.starts)], ["Panics", num(v.panics), "panics", v.panics ? "bad" : ""], ["Killed by a signal", num(v.died), "died", v.died ? "bad" : ""], ["Stopped, ended", `${num(v.stopped)}, ${num(v.exits)}`], ["VCLs loaded", num(t.n_vcl), "n_vcl"], ...Object.entries(d.vcls.backends).slice(0, 12).map(([name, n]) => [`… ${name}`, n === 1 ? "1 backend" : `${n} backends`])]);
  const events = d.events.slice(0, 50);
  if (!events.length) events.push([d.t, "", "Nothing yet."]);
  const seen = JSON.stringify(events[0]) + events.length;
  if ($("events").dataset.seen !== seen) {
    $("events").dataset.seen = seen;
    $("events").replaceChildren(...events.map(([at, kind, text]) => { const li = el("li"); const time = el("time", clock(at)); li.append(time, el("span", text, kind)); return li; }));
  }
  put("foot", `${state.about.workdir || ""} · ${num(d.viewers)} ${d.viewers === 1 ? "viewer" : "viewers"}${d.lost ? ` · ${num(d.lost)} seconds were lost to slow viewers` : ""} · hidden in records: ${(state.about.hidden || []).slice(0, 4).join(", ") || "nothing"} …`);
}

// ---- problems
// The share of sent bytes that weren't fetched. A response that failed was neither sent nor fetched: it counts as a fetch of average size, so
// that a dead backend doesn't look like a better cache.
function byteHits(out, fetched, errbytes, asked, errors) {
  const good = Math.max(0, out - errbytes), missing = asked > errors ? errors * good / (asked - errors) : 0;
  return good + missing ? Math.max(0, 1 - (fetched + missing) / (good + missing)) : null;
}
// The strip below the header, the pill, the title and the icon all say the same. `silent`: for how long nothing was heard.
function problems(d, silent = 0) {
  const list = silent ? [{ id: "silent", bad: true, part: "now", since: 0, what: "These figures are old", detail: `nothing was heard from lacquer watch for ${span(silent)}`, fix: [] }, ...(d.problems || [])] : d.problems || [];
  // There is no verdict before the first look.
  const isEarly = !d.problems && !silent;
  const worst = isEarly ? "quiet" : !list.length ? "good" : list.some((p) => p.bad) ? "bad" : "warn", body = $("problem-list"), old = new Map([...body.children].map((li) => [li.dataset.key, li]));
  const items = list.map((p) => {
    const key = `${p.id} ${p.what.replace(/[\d.]+ %/, "")}`, known = old.get(key), li = known || el("li");
    if (!known) {
      li.dataset.key = key;
      li.append(el("a"));
      if (p.fix.length) { const more = el("details"); more.append(el("summary", "What to do"), el("p", p.why), el("pre", p.fix.join("\n"), "out")); li.append(more); }
    }
    const text = `${p.what}${p.since ? ` ${p.past ? "at" : "since"} ${clock(p.since)}` : ""}${p.detail ? `: ${p.detail}` : ""}`, a = li.firstElementChild;
    if (a.textContent !== text) a.textContent = text;
    a.setAttribute("href", `#${p.part}`);
    li.className = p.bad ? "bad" : "warn";
    return li;
  });
  // Read aloud when one comes or goes, without the numbers that change each second.
  put("spoken", list.map((p) => p.what.replace(/^[\d.]+ % of requests/, "Requests")).join(". "));
  if (items.length !== body.children.length || items.some((li, n) => li !== body.children[n])) body.replaceChildren(...items);
  $("ok").hidden = list.length > 0;
  put("ok", isEarly ? "Looking…" : "OK: no problem in the last minute");
  $("problems").className = `problems ${worst}`;
  $("state").className = `pill ${worst}`;
  const up = d.server.worker != null, count = list.length === 1 ? "1 problem" : `${list.length} problems`;
  put("state", silent ? "no news" : d.server.manager == null ? "no server runs here" : !up ? "no worker runs" : list.length ? count : isEarly ? "looking" : "running");
  const title = `${list.length ? `${worst === "bad" ? "✖" : "▲"} ${list[0].what}` : isEarly ? "Looking" : "OK"} – ${state.about.name || "Lacquer watch"}`;
  if (document.title !== title) document.title = title;
  const icon = worst === "good" || isEarly ? "icon.svg" : `icon-${worst}.svg`;
  if ($("icon").getAttribute("href") !== icon) $("icon").setAttribute("href", icon);
}

// ---- from the server
async function begin() {
  const answer = await fetch("api/state");
  if (answer.status === 401) { location.reload(); return; }
  const all = await answer.json();
  Object.assign(state, { about: all.about, seconds: all.history.seconds, minutes: all.history.minutes, second: all.second });
  put("name", all.about.name || "");
  $("control").hidden = !all.about.control;
  $("b-profile-on").hidden = $("b-profile-off").hidden = !all.about.control;
  $("explain").hidden = !all.about.cli;
  $("profile").hidden = !all.about.cli;
  if (!all.about.source) { $("b-profile").hidden = true; put("r-profile", "This shows the source of the VCL: start with --token-file, --client-ca or --show-vcl."); }
  draw();
  lists();
  nodes();
}
let minute = 0, heard = Date.now();
function take(second) {
  state.second = second;
  heard = Date.now();
  const p = second.point;
  if (p && !(state.seconds.length && state.seconds[state.seconds.length - 1][P.at] >= p[P.at])) {
    state.seconds.push(p);
    if (state.seconds.length > KEPT.seconds) state.seconds.shift();
    const now = Math.floor(p[P.at] / 60);
    // The minute that is over is the server's to add up.
    if (minute && now !== minute) setTimeout(() => begin().catch(() => {}), 1500 + Math.random() * 3000);
    minute = now;
  }
  draw();
}
function connect() {
  const source = new EventSource("api/seconds");
  source.addEventListener("open", () => begin().catch(() => {}));
  source.addEventListener("second", (e) => { $("state").dataset.seconds = Number($("state").dataset.seconds || 0) + 1; take(JSON.parse(e.data)); });
  source.addEventListener("lost", (e) => { put("log", `this browser was too slow: ${num(Number(e.data))} seconds lost`); $("log").className = "pill warn"; });
  source.addEventListener("error", () => { $("state").className = "pill bad"; put("state", "lacquer watch doesn't answer"); });
}
// The connection may stand although nothing comes: the watcher is stopped, the network swallows it, the machine slept.
setInterval(() => {
  const silent = (Date.now() - heard) / 1000;
  if (state.second && silent > 5) problems(state.second, silent);
}, 2000);
async function ask(what, body = {}) {
  try {
    const answer = await fetch(`api/ask/${what}`, { method: "POST", headers: { "Content-Type": "application/json", "X-Watch-Key": state.about.key }, body: JSON.stringify(body) });
    return await answer.json();
  } catch (e) { return { ok: false, text: String(e) }; }
}
function said(id, answer, good) {
  const e = $(id);
  e.hidden = false;
  e.classList.toggle("bad", !answer.ok);
  e.textContent = answer.ok ? good ?? answer.text ?? JSON.stringify(answer.data, null, 1) : answer.text;
}
async function lists() {
  if (!state.about.cli || lists.asked > Date.now() - 9000) return;
  lists.asked = Date.now();
  const [vcls, bans] = [await ask("vcls"), await ask("bans")];
  const list = (id, title, items) => { const ul = el("ul", null, "events"); ul.append(...items.map((text) => el("li", text))); $(id).replaceChildren(...(items.length ? [el("h3", title), ul] : [])); };
  // Head: version, command, time.
  if (vcls.ok && Array.isArray(vcls.data)) list("vcllist", "VCLs", vcls.data.slice(3).map((v) => `${v.name}: ${[v.status, v.state, v.temperature].filter(Boolean).join(", ")}${v.busy ? `, ${v.busy} busy` : ""}${v.labels ? `, ${v.labels} labels` : ""}${v.label ? `, for ${v.label.name}` : ""}`));
  if (bans.ok && Array.isArray(bans.data)) list("banlist", "The latest", bans.data.slice(3).filter((b) => b.tests?.length).slice(0, 12).map((b) => `${b.time ? clock(b.time) : ""} ${b.refs ?? 0} refs ${b.completed ? "done" : ""} ${(b.tests || []).map((x) => [x.arg1, x.oper, x.arg2].filter((w) => w != null).join(" ")).join(" && ")}`));
}
// The nodes of the fleet, if the server belongs to one: what each reported last, with what it counted since the look before.
async function nodes() {
  if (!state.about.cli || nodes.none || nodes.asked > Date.now() - 4500) return;
  nodes.asked = Date.now();
  const answer = await ask("fleet");
  const d = answer.ok && Array.isArray(answer.data) ? answer.data.at(-1) : null;
  // Another server begins with the page.
  nodes.none = !d && /belongs to no fleet|[Uu]nknown/.test(answer.text || "");
  $("fleet").hidden = !d;
  if (!d) return;
  const before = nodes.before || {}, now = Date.now() / 1000;
  nodes.before = Object.fromEntries(d.nodes.map((n) => [n.node, { ...n, at: now - n.age_seconds }]));
  rows("nodes", d.nodes, (n) => {
    const b = before[n.node], is = b && b.instance === n.instance && !n.away && nodes.before[n.node].at > b.at;
    const per = (name) => is ? n[name] - b[name] : null, time = is ? nodes.before[n.node].at - b.at : null;
    const how = n.away ? `away for ${span(n.age_seconds)}` : n.serves === "all" ? "serves" : n.serves === "young" ? "serves what is young" : "catches up";
    return [[n.node], [n.group], [how], [n.vcl], [span(Math.max(0, now - n.vcl_since))], [num(n.applied), "n"], [num(Math.max(0, n.head - n.applied)), "n"],
      [is ? rate(per("requests") / time) : "–", "n"], [is && per("requests") ? percent(per("hits") / per("requests")) : "–", "n"], [is ? num(per("errors")) : "–", "n"], [n.deployed ? `${n.deployed.state} ${n.deployed.version}` : "–"]];
  }, "No node is known.");
  put("fleet-note", d.unknown ? `The fleet's board can't be reached for ${span(d.unknown.for_seconds)}: ${d.unknown.why}` : `As ${d.node} knows it.`);
}
// Shows who costs the origin most, if the server keeps accounts (parameter bots).
async function costs() {
  if (!state.about.cli || costs.none > Date.now() - 60000 || costs.asked > Date.now() - 9000) return;
  costs.asked = Date.now();
  const answer = await ask("costs");
  const d = answer.ok && Array.isArray(answer.data) ? answer.data.at(-1) : null;
  // The parameter may be set later.
  costs.none = d ? 0 : Date.now();
  $("costs").hidden = !d;
  if (!d) return;
  const words = { client: "client", prefix: "prefix", wide: "wide prefix", network: "network", ja4: "TLS (JA4)", agent: "User-Agent", bot: "bot" };
  const shown = d.accounts.filter((a) => a.origin_percent >= 0.1 || a.kind === "bot");
  rows("costtab", shown, (a) => [[words[a.kind] || a.kind], [a.name || "–"], [`${num(a.origin_seconds, 2)} s`, "n"], [percent(a.origin_percent / 100), "n"], [num(Math.round(a.requests)), "n"],
    [num(Math.round(a.misses)), "n"], [percent(a.solo_percent / 100), "n"], [a.verdict || "–"]], "Nobody yet.");
  put("cost-note", d.mode === "on" ? "Crawlers are held up (bots=on)." : "Crawlers are only logged (bots=observe).");
}
setInterval(() => { if (!document.hidden) { lists(); nodes(); costs(); } }, 5000);

// ---- the list of requests
let following = null;
async function follow(query) {
  following?.abort();
  const mine = following = new AbortController();
  put("b-live", "Follow again");
  $("r-live").classList.remove("bad");
  put("r-live", "Waiting for requests…");
  put("n-live", "");
  const body = $("requests").tBodies[0];
  body.replaceChildren();
  let shown = 0, more = 0, lost = 0;
  try {
    const answer = await fetch(`api/live?q=${encodeURIComponent(query)}`, { signal: mine.signal });
    if (!answer.ok) { $("r-live").classList.add("bad"); put("r-live", (await answer.text()).trim()); return; }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "";;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      const fresh = [];
      for (const line of lines) {
        const r = JSON.parse(line || "{}");
        if (r.id) { fresh.push(request(r)); shown++; } else if (r.more != null) { more += r.more; lost += r.lost; }
      }
      // A row that has the focus keeps its place in the list.
      body.prepend(...fresh.reverse());
      while (body.rows.length > 200) body.lastElementChild.remove();
      if (shown || more || lost) {
        put("r-live", "A request opens into all of its records.");
        put("n-live", `${num(shown)} shown${more ? `, ${num(more)} more matched` : ""}${lost ? `, ${num(lost)} lost, as this browser was too slow` : ""}.`);
      }
    }
    put("r-live", "The list has ended; follow again.");
  } catch (e) {
    if (e.name !== "AbortError") { $("r-live").classList.add("bad"); put("r-live", `The list has ended: ${e.message}`); }
  }
}
function request(r) {
  const tr = el("tr"), open = el("button", `${r.method} ${r.host}${r.url}`);
  open.type = "button";
  open.addEventListener("click", () => detail(r.id));
  const url = el("td", null, "url");
  url.append(open);
  tr.append(el("td", clock(r.t)), el("td", r.status || "–", r.status >= 500 ? "n c-bad" : "n"), el("td", r.handling, `c-${r.handling}`), url, el("td", ms(r.first_byte), "n"), el("td", bytes(r.bytes), "n"), el("td", r.why || (r.backend ? `by ${r.backend}` : ""), "why"));
  return tr;
}
async function detail(id) {
  const body = $("detail-body");
  let data;
  try { data = await (await fetch(`api/request?id=${id}`)).json(); } catch { data = { text: "lacquer watch doesn't answer" }; }
  body.replaceChildren();
  if (data.text) body.append(el("p", data.text, "none"));
  for (const txn of data.transactions || []) {
    const names = { req: "Request", bereq: "Fetch", sess: "Session" };
    body.append(el("h3", `${names[txn.type] || txn.type} ${txn.vxid}${txn.reason === "rxreq" ? "" : `, ${txn.reason}`}`));
    const list = el("div", null, txn.level > 1 ? "records deep" : "records");
    for (const [name, , text] of txn.records) { const line = el("div"); line.append(el("b", name), el("span", text)); list.append(line); }
    body.append(list);
  }
  if (data.cut) body.append(el("p", "There were more records than are kept.", "none"));
  put("detail-h", `Request ${data.transactions?.[0]?.vxid ?? ""}`);
  $("detail").showModal();
}

// ---- the profile
async function profile() {
  const answer = await ask("profile"), root = $("source");
  root.replaceChildren();
  if (!answer.ok) { said("r-profile", answer); return; }
  const list = answer.data || {}, lines = list.lines || [];
  said("r-profile", { ok: true }, lines.length ? `VCL ${list.vcl}: ${list.on ? "counting" : "counted"}; ${ms((list.nanoseconds || 0) / 1e6)} in all lines. Runs, how often the condition held, time a run.` : "Nothing was counted: it begins with vcl.profile on, or with “Count from now” where --control is.");
  const top = Math.max(1, ...lines.map((l) => l.nanoseconds || 0));
  for (const source of answer.sources || []) {
    const counted = new Map(lines.filter((l) => l.source === source.name).map((l) => [l.line, l]));
    // The built-in VCL is of interest as far as it ran.
    if (/builtin/i.test(source.name) && !counted.size) continue;
    const table = el("table"), body = el("tbody");
    table.append(el("caption", source.name), body);
    source.lines.forEach((text, n) => {
      const l = counted.get(n + 1), tr = el("tr", null, l ? "" : "cold"), heat = el("td", null, "heat");
      if (l) heat.append(meter(l.nanoseconds / top, l.nanoseconds / top > .5));
      tr.append(heat, el("td", l ? short(l.runs) : "", "n"), el("td", l && l.held != null ? percent(l.held / l.runs) : "", "n"), el("td", l ? `${num(l.nanoseconds / l.runs)} ns` : "", "n"), el("td", String(n + 1), "n"), el("td", text));
      body.append(tr);
    });
    root.append(table);
  }
  for (const text of list.advice || []) root.append(el("p", typeof text === "string" ? text : JSON.stringify(text), "note"));
}

// ---- what the hand does
const form = (id, what, into, good) => $(id).addEventListener("submit", async (e) => {
  e.preventDefault();
  const button = e.target.querySelector("button");
  button.disabled = true;
  said(into, await ask(what, Object.fromEntries(new FormData(e.target))), good);
  button.disabled = false;
});
form("f-explain", "explain", "r-explain");
document.addEventListener("click", (e) => {
  const a = e.target.closest("[data-explain]"), f = $("f-explain");
  if (!a) return;
  f.elements.url.value = a.dataset.explain;
  f.requestSubmit();
});
form("f-purge", "purge", "r-control", "The ban for this URL was taken.");
form("f-ban", "ban", "r-control", "The ban was taken.");
form("f-vcl", "use-vcl", "r-control", "It is in use.");
$("f-live").addEventListener("submit", (e) => { e.preventDefault(); follow($("q").value); });
$("b-close").addEventListener("click", () => $("detail").close());
$("b-profile").addEventListener("click", profile);
$("b-profile-on").addEventListener("click", async () => said("r-profile", await ask("set-profile", { on: true }), "Counting."));
$("b-profile-off").addEventListener("click", async () => said("r-profile", await ask("set-profile", { on: false }), "No longer counting."));
for (const radio of document.querySelectorAll("input[name=range]")) radio.addEventListener("change", () => { state.range = radio.value; state.cursor = {}; draw(); });
const THEMES = ["system", "light", "dark"];
function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  put("theme-name", name);
  try { localStorage.setItem("theme", name); } catch { /* private windows may have no storage */ }
}
$("theme").addEventListener("click", () => theme(THEMES[(THEMES.indexOf($("theme-name").textContent) + 1) % 3]));
try { theme(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "system"); } catch { theme("system"); }
keys("k-req", [...STACK.map(([key, text]) => [`c-${key}`, text]), ["c-bad", "errors"]]);
keys("k-ttfb", [["c-hit", "hits"], ["c-miss", "misses"], ["c-pass", "passes"], ["", "solid: median, dashed: 99 %"]]);
cursor($("c-req"), drawRequests);
cursor($("c-ttfb"), drawTimes);
addEventListener("resize", () => draw());
connect();
})();
