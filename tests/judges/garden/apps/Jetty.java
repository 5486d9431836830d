// SPDX-License-Identifier: BSD-2-Clause
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;

/** Jetty with a handler that writes what it was asked to $FILE. */
public class Jetty {
    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c == '"' || c == '\\' || c < ' ' || c > '~' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return out.append('"').toString();
    }

    static void answer(FileOutputStream file, HttpServletRequest request, HttpServletResponse response) throws IOException {
        int length = request.getInputStream().readAllBytes().length;
        List<String> vxids = Collections.list(request.getHeaders("X-Vxid"));
        String query = request.getQueryString() == null ? "" : "?" + request.getQueryString();
        String host = request.getHeader("Host");
        String line = "{\"vxid\":[" + String.join(",", vxids.stream().map(Jetty::quoted).toList()) + "],\"method\":" + quoted(request.getMethod())
            + ",\"target\":" + quoted(request.getRequestURI() + query) + ",\"host\":" + quoted(host == null ? "" : host) + ",\"length\":" + length + "}\n";
        file.write(line.getBytes(StandardCharsets.ISO_8859_1));
        response.setContentLength(2);
        response.getOutputStream().write("ok".getBytes(StandardCharsets.ISO_8859_1));
    }

    public static void main(String[] words) throws Exception {
        FileOutputStream file = new FileOutputStream(System.getenv("FILE"), true);
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(System.getenv("PORT")));
        server.addConnector(connector);
        server.setHandler(new AbstractHandler() {
            @Override
            public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) throws IOException {
                answer(file, request, response);
                base.setHandled(true);
            }
        });
        server.start();
        server.join();
    }
}
