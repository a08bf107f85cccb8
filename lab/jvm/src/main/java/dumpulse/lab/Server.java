package dumpulse.lab;

import java.io.IOException;
import org.springframework.boot.Banner;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.context.WebServerApplicationContext;
import org.springframework.context.annotation.Import;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/**
 * Answers GET /FORMAT with the list, encoded anew for each answer. Its argument is a port, or 0 for a
 * free one, which it prints. It ends when its standard input ends. SPDX-License-Identifier: MIT
 */
@EnableAutoConfiguration
@Import(Server.Answers.class)
public class Server {
    @RestController
    static class Answers {
        @GetMapping(value = "/{format}", produces = MediaType.APPLICATION_OCTET_STREAM_VALUE)
        byte[] answer(@PathVariable("format") String format) throws Exception {
            return Format.ALL.get(format).encoder().encode(Item.LIST);
        }
    }

    public static void main(String[] words) throws IOException {
        WebServerApplicationContext context =
                (WebServerApplicationContext)
                        new SpringApplicationBuilder(Server.class)
                                .bannerMode(Banner.Mode.OFF)
                                .properties(
                                        "server.address=127.0.0.1",
                                        // Spring's process-aot calls this without a port.
                                        "server.port=" + (words.length > 0 ? words[0] : "0"),
                                        "logging.level.root=WARN",
                                        // The client has one connection, and keeps it.
                                        "server.tomcat.max-keep-alive-requests=-1",
                                        "server.tomcat.keep-alive-timeout=-1")
                                .run();
        System.out.println(context.getWebServer().getPort());
        while (System.in.read() >= 0) {
            continue; // nothing is written to it
        }
        System.exit(0);
    }
}
