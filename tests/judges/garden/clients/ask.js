// SPDX-License-Identifier: BSD-2-Clause
// Asks for the paths on standard input with Node's http, and prints a line of JSON for each.
const http = require("http");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (path) => new Promise((done) => {
  let length = 0;
  const request = http.get(process.argv[2] + path, { agent, timeout: 20000 }, (response) => {
    response.on("data", (data) => { length += data.length; });
    response.on("end", () => done({ path, status: response.statusCode, length }));
    response.on("error", (error) => done({ path, error: String(error) }));
  });
  request.on("error", (error) => done({ path, error: String(error) }));
  request.on("timeout", () => request.destroy(new Error("timeout")));
});
(async () => {
  for (const path of require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    console.log(JSON.stringify(await ask(path)));
  }
  agent.destroy();
})();
