package dumpulse.lab;

import java.util.List;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.web.client.RestTemplate;

/** One fetch of the list from a server, decoded and compared. SPDX-License-Identifier: MIT */
@State(Scope.Benchmark)
public class Fetch {
    private static final int PATIENCE_MS = 60_000;

    @Param({"jackson", "gson", "xml", "cbor", "protobuf", "java"})
    public String format;

    @Param("127.0.0.1:8080")
    public String server;

    @Param("10")
    public int records;

    private RestTemplate client;
    private String url;
    private List<Item> expected;

    @Setup
    public void connect() {
        SimpleClientHttpRequestFactory factory = new SimpleClientHttpRequestFactory();
        factory.setReadTimeout(PATIENCE_MS);
        client = new RestTemplate(factory);
        url = "http://" + server + "/" + format;
        expected = Item.list(records);
    }

    @Benchmark
    public List<Item> fetch() throws Exception {
        byte[] wire = client.getForObject(url, byte[].class);
        List<Item> list = Format.ALL.get(format).decoder().decode(wire);
        if (!list.equals(expected)) {
            throw new IllegalStateException("an answer in " + format + " is not the list");
        }
        return list;
    }
}
