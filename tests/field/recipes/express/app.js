// SPDX-License-Identifier: BSD-2-Clause
// A JSON API in Express: items for everybody, with the name of the caller in them where one is known.
const express = require("express");

const app = express();
const items = new Map();
const caller = (req) => (req.get("Authorization") || "").replace(/^Bearer /, "") || null;

app.use(express.json());
app.get("/v1/items/:id", (req, res) => {
  const id = Number(req.params.id);
  res.json({ id, text: items.get(id) || "as it was", for: caller(req) });
});
app.put("/v1/items/:id", (req, res) => {
  if (!caller(req)) return res.status(401).json({ error: "who are you?" });
  items.set(Number(req.params.id), req.body.text);
  res.json({ done: true });
});
app.get("/v1/me", (req, res) => res.json({ for: caller(req) }));
app.listen(8080, "127.0.0.1");
