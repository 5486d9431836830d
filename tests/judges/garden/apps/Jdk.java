// SPDX-License-Identifier: BSD-2-Clause
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.Executors;

/** The JDK's own server, with an application that writes what it was asked to $FILE. */
public class Jdk {
    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c == '"' || c == '\\' || c < ' ' || c > '~' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return out.append('"').toString();
    }

    public static void main(String[] words) throws Exception {
        FileOutputStream file = new FileOutputStream(System.getenv("FILE"), true);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 512);
        server.createContext("/", exchange -> {
            int length = exchange.getRequestBody().readAllBytes().length;
            List<String> vxids = exchange.getRequestHeaders().getOrDefault("X-Vxid", List.of());
            String host = exchange.getRequestHeaders().getFirst("Host");
            String line = "{\"vxid\":[" + String.join(",", vxids.stream().map(Jdk::quoted).toList()) + "],\"method\":" + quoted(exchange.getRequestMethod())
                + ",\"target\":" + quoted(exchange.getRequestURI().toString()) + ",\"host\":" + quoted(host == null ? "" : host) + ",\"length\":" + length + "}\n";
            file.write(line.getBytes(StandardCharsets.ISO_8859_1));
            boolean empty = exchange.getRequestMethod().equals("HEAD");
            exchange.sendResponseHeaders(200, empty ? -1 : 2);
            if (!empty) {
                exchange.getResponseBody().write("ok".getBytes(StandardCharsets.ISO_8859_1));
            }
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }
}
