package dumpulse.lab;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.web.client.RestTemplate;

/** One fetch of the list from a server, decoded and compared. SPDX-License-Identifier: MIT */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(3)
@Warmup(iterations = 5, time = 2)
@Measurement(iterations = 5, time = 2)
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
