// SPDX-License-Identifier: BSD-2-Clause
// An application of Node's http that writes what it was asked to $FILE.
const fs = require("fs");
const out = fs.openSync(process.env.FILE, "a");
require("http").createServer({ keepAliveTimeout: 30000 }, (request, response) => {
  let length = 0;
  request.on("data", (data) => { length += data.length; });
  request.on("end", () => {
    const of = (name) => request.rawHeaders.filter((_, at) => at % 2 && request.rawHeaders[at - 1].toLowerCase() === name);
    fs.writeSync(out, JSON.stringify({ vxid: of("x-vxid"), method: request.method, target: request.url, host: of("host").join(), length }) + "\n");
    response.setHeader("Content-Length", 2);
    response.end("ok");
  });
}).listen(Number(process.env.PORT), "127.0.0.1");
