package dumpulse.lab;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.dataformat.cbor.databind.CBORMapper;
import com.fasterxml.jackson.dataformat.xml.XmlMapper;
import com.fasterxml.jackson.dataformat.xml.annotation.JacksonXmlElementWrapper;
import com.fasterxml.jackson.dataformat.xml.annotation.JacksonXmlRootElement;
import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputFilter;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A format of study 3, by a library with its default settings. Each encoder is given the same list,
 * and each decoder makes an equal list again. SPDX-License-Identifier: MIT
 */
record Format(Encoder encoder, Decoder decoder) {
    interface Encoder {
        byte[] encode(List<Item> list) throws Exception;
    }

    interface Decoder {
        List<Item> decode(byte[] wire) throws Exception;
    }

    /** What XML has around the list. */
    @JacksonXmlRootElement(localName = "list")
    record Root(@JacksonXmlElementWrapper(useWrapping = false) List<Item> r) {}

    private static final TypeReference<List<Item>> ITEMS = new TypeReference<>() {};
    private static final TypeToken<List<Item>> GSON_ITEMS = new TypeToken<>() {};
    private static final ObjectMapper JACKSON = new ObjectMapper();
    private static final ObjectMapper CBOR = new CBORMapper();
    private static final ObjectMapper XML = new XmlMapper();
    private static final Gson GSON = new Gson();
    // Without a filter, an attacker who writes what Java reads can run any class that it has.
    private static final ObjectInputFilter OURS =
            ObjectInputFilter.Config.createFilter(
                    "dumpulse.lab.Item;java.util.ArrayList;java.lang.Object;!*");

    private static Format of(ObjectMapper mapper) {
        return new Format(mapper::writeValueAsBytes, wire -> mapper.readValue(wire, ITEMS));
    }

    /** By the names of lab/joules/jvm.py. */
    static final Map<String, Format> ALL =
            Map.of(
                    "jackson", of(JACKSON),
                    "gson", new Format(Format::toGson, Format::fromGson),
                    "xml",
                            new Format(
                                    list -> XML.writeValueAsBytes(new Root(list)),
                                    wire -> XML.readValue(wire, Root.class).r),
                    "cbor", of(CBOR),
                    "protobuf", new Format(Format::toProtobuf, Format::fromProtobuf),
                    "java", new Format(Format::toJava, Format::fromJava));

    private static byte[] toGson(List<Item> list) {
        return GSON.toJson(list, GSON_ITEMS.getType()).getBytes(StandardCharsets.UTF_8);
    }

    private static List<Item> fromGson(byte[] wire) {
        return GSON.fromJson(new String(wire, StandardCharsets.UTF_8), GSON_ITEMS.getType());
    }

    private static byte[] toProtobuf(List<Item> list) {
        var message = Messages.List.newBuilder();
        for (Item item : list) {
            var record = message.addRecordsBuilder();
            record.setId((int) item.id()).setName(item.name()).setAmount(item.amount());
        }
        return message.build().toByteArray();
    }

    private static List<Item> fromProtobuf(byte[] wire) throws Exception {
        List<Item> list = new ArrayList<>();
        for (var read : Messages.List.parseFrom(wire).getRecordsList()) {
            long id = Integer.toUnsignedLong(read.getId());
            list.add(new Item(id, read.getName(), read.getAmount()));
        }
        return list;
    }

    private static byte[] toJava(List<Item> list) throws Exception {
        var wire = new ByteArrayOutputStream();
        try (var stream = new ObjectOutputStream(wire)) {
            stream.writeObject(new ArrayList<>(list));
        }
        return wire.toByteArray();
    }

    @SuppressWarnings("unchecked")
    private static List<Item> fromJava(byte[] wire) throws Exception {
        try (var stream = new ObjectInputStream(new ByteArrayInputStream(wire))) {
            stream.setObjectInputFilter(OURS);
            return (List<Item>) stream.readObject();
        }
    }
}
