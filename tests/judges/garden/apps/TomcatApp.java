// SPDX-License-Identifier: BSD-2-Clause
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;

/** Tomcat with a servlet that writes what it was asked to $FILE. */
public class TomcatApp {
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
        String line = "{\"vxid\":[" + String.join(",", vxids.stream().map(TomcatApp::quoted).toList()) + "],\"method\":" + quoted(request.getMethod())
            + ",\"target\":" + quoted(request.getRequestURI() + query) + ",\"host\":" + quoted(host == null ? "" : host) + ",\"length\":" + length + "}\n";
        file.write(line.getBytes(StandardCharsets.ISO_8859_1));
        response.setContentLength(2);
        response.getOutputStream().write("ok".getBytes(StandardCharsets.ISO_8859_1));
    }

    public static void main(String[] words) throws Exception {
        FileOutputStream file = new FileOutputStream(System.getenv("FILE"), true);
        Tomcat server = new Tomcat();
        server.setBaseDir(".");
        Connector connector = new Connector();
        connector.setPort(Integer.parseInt(System.getenv("PORT")));
        connector.setProperty("address", "127.0.0.1");
        server.setConnector(connector);
        Context context = server.addContext("", null);
        Tomcat.addServlet(context, "all", new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
                answer(file, request, response);
            }
        });
        context.addServletMappingDecoded("/*", "all");
        server.start();
        server.getServer().await();
    }
}
