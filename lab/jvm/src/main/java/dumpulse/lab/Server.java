package dumpulse.lab;

import java.io.IOException;
import java.util.List;
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
 * Answers GET /FORMAT with the list, encoded anew for each answer. Its arguments are
 * an address, a port (0: a free one), which it prints, and the number of records. It ends when its
 * standard input ends. SPDX-License-Identifier: MIT
 */
@EnableAutoConfiguration
@Import(Server.Answers.class)
public class Server {
    private static List<Item> list;

    @RestController
    static class Answers {
        @GetMapping(value = "/{format}", produces = MediaType.APPLICATION_OCTET_STREAM_VALUE)
        byte[] answer(@PathVariable("format") String format) throws Exception {
            return Format.ALL.get(format).encoder().encode(list);
        }
    }

    public static void main(String[] words) throws IOException {
        list = Item.list(Integer.parseInt(words[2]));
        WebServerApplicationContext context =
                (WebServerApplicationContext)
                        new SpringApplicationBuilder(Server.class)
                                .bannerMode(Banner.Mode.OFF)
                                .properties(
                                        "server.address=" + words[0],
                                        "server.port=" + words[1],
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
