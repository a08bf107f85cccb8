package dumpulse.lab;

import com.fasterxml.jackson.dataformat.xml.annotation.JacksonXmlProperty;
import java.io.Serializable;
import java.util.List;
import java.util.stream.IntStream;

/** A record of the list; its id has 32 bits, without a sign. SPDX-License-Identifier: MIT */
public record Item(
        @JacksonXmlProperty(isAttribute = true) long id,
        @JacksonXmlProperty(isAttribute = true) String name,
        @JacksonXmlProperty(isAttribute = true) int amount)
        implements Serializable {
    private static final List<Item> TEN =
            List.of(
                    new Item(1, "boiler", 215),
                    new Item(2, "freezer", -40),
                    new Item(17, "pump \"2\"", 998),
                    new Item(300, "pressure", 1013250),
                    new Item(301, "fan & light", 4512),
                    new Item(4095, "door", 0),
                    new Item(70000, "probe", -273150),
                    new Item(70001, "meter, north", 65536),
                    new Item(16777216, "counter", 2147483647),
                    new Item(4294967295L, "last", -2147483647));

    /** The first ten, and then those again with other names. */
    static List<Item> list(int records) {
        return IntStream.range(0, records).mapToObj(Item::numbered).toList();
    }

    private static Item numbered(int i) {
        Item item = TEN.get(i % 10);
        return i < 10 ? item : new Item(item.id, item.name + " " + i / 10, item.amount);
    }
}
