# SPDX-License-Identifier: BSD-2-Clause
# A Rack application that writes what it was asked to $FILE.
require "json"
OUT = File.open(ENV["FILE"], "a")
run(lambda do |env|
  body = env["rack.input"] ? env["rack.input"].read.to_s : ""
  path = env["PATH_INFO"].to_s + (env["QUERY_STRING"].to_s.empty? ? "" : "?" + env["QUERY_STRING"])
  text = ->(value) { value.to_s.dup.force_encoding("ISO-8859-1").encode("UTF-8") }
  line = JSON.generate({ vxid: [env["HTTP_X_VXID"]].compact, method: env["REQUEST_METHOD"], target: text.(env["REQUEST_URI"] || path), host: text.(env["HTTP_HOST"]), length: body.bytesize })
  OUT.syswrite(line + "\n")
  [200, { "Content-Length" => "2", "Content-Type" => "text/plain" }, ["ok"]]
end)
