package dumpulse.lab;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.web.client.RestTemplate;

/**
 * Does what the lines of its standard input say: FORMAT COUNT. Its argument is the server's port.
 * Prints a line of JSON for each line.
 * SPDX-License-Identifier: MIT
 */
public class Client {
    private static final int PATIENCE = 60_000; // milliseconds that a single answer may take

    private static Format.Encoder fetched(String url) {
        SimpleClientHttpRequestFactory factory = new SimpleClientHttpRequestFactory();
        factory.setReadTimeout(PATIENCE);
        RestTemplate client = new RestTemplate(factory);
        return list -> client.getForObject(url, byte[].class);
    }

    /** Throws at the first answer that is not the list. */
    private static String turn(Format.Encoder source, Format.Decoder decoder, int count)
            throws Exception {
        long received = 0;
        long begun = System.nanoTime();
        for (int number = 1; number <= count; number++) {
            byte[] wire = source.encode(Item.LIST);
            List<Item> list = decoder.decode(wire);
            if (!list.equals(Item.LIST)) {
                throw new IllegalStateException(
                        "answer " + number + " is not the list that was to be sent");
            }
            received += wire.length;
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        return String.format(
                Locale.ROOT, "{\"bytes\": %d, \"seconds\": %.9f}", received, seconds);
    }

    public static void main(String[] words) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] asked = line.split(" ");
            Format format = Format.ALL.get(asked[0]);
            Format.Encoder source = fetched("http://127.0.0.1:" + words[0] + "/" + asked[0]);
            try {
                System.out.println(turn(source, format.decoder(), Integer.parseInt(asked[1])));
            } catch (Exception reason) { // every library has its own
                Map<String, String> failed = Map.of("failed", asked[0] + ": " + reason.getMessage());
                System.out.println(new ObjectMapper().writeValueAsString(failed));
            }
        }
    }
}
