# SPDX-License-Identifier: BSD-2-Clause
# A WEBrick servlet that writes what it was asked to $FILE.
require "json"
require "webrick"
OUT = File.open(ENV["FILE"], "a")
# Servlet for every method.
class Writes < WEBrick::HTTPServlet::AbstractServlet
  def service(request, response)
    body = request.body.to_s
    text = ->(value) { value.to_s.dup.force_encoding("ISO-8859-1").encode("UTF-8") }
    OUT.syswrite(JSON.generate({ vxid: request.header["x-vxid"].to_a, method: request.request_method, target: text.(request.unparsed_uri), host: text.(request["host"]), length: body.bytesize }) + "\n")
    response.body = "ok"
  end
end
server = WEBrick::HTTPServer.new(Port: ENV["PORT"].to_i, BindAddress: "127.0.0.1", AccessLog: [], Logger: WEBrick::Log.new(File::NULL))
server.mount("/", Writes)
server.start
