package dumpulse.lab;

import com.fasterxml.jackson.dataformat.xml.annotation.JacksonXmlProperty;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * A record of the list. It is no Java record: the Gson of Spring Boot 2 cannot make these.
 * SPDX-License-Identifier: MIT
 */
public final class Item implements Serializable {
    private static final long serialVersionUID = 1;

    /** The list of lab/messages/codecs.py. */
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
        List<Item> list = new ArrayList<>();
        for (int i = 0; i < records; i++) {
            Item item = TEN.get(i % 10);
            String name = i < 10 ? item.name : item.name + " " + i / 10;
            list.add(new Item(item.id, name, item.amount));
        }
        return list;
    }

    @JacksonXmlProperty(isAttribute = true)
    public long id; // 32 bits, without a sign

    @JacksonXmlProperty(isAttribute = true)
    public String name;

    @JacksonXmlProperty(isAttribute = true)
    public int amount;

    public Item() {} // for the libraries, which set the fields afterwards

    Item(long id, String name, int amount) {
        this.id = id;
        this.name = name;
        this.amount = amount;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Item item
                && id == item.id
                && amount == item.amount
                && Objects.equals(name, item.name);
    }

    @Override
    public int hashCode() {
        return Objects.hash(id, name, amount);
    }
}
