package io.ppmr.transaction;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Records as bytes: the fields in order, numbers big-endian, texts and lists after their length. The type's number is
 * its place in {@link #TYPES}; a new type goes to the end.
 */
final class RecordCodec {
    private static final List<Class<? extends TransactionRecord>> TYPES = List.of(
            TransactionRecord.Begun.class,
            TransactionRecord.Sealed.class,
            TransactionRecord.CommitDecided.class,
            TransactionRecord.RollBackDecided.class,
            TransactionRecord.Broken.class,
            TransactionRecord.Prepared.class,
            TransactionRecord.SourceLost.class,
            TransactionRecord.Promised.class,
            TransactionRecord.Fencing.class,
            TransactionRecord.TakenOver.class,
            TransactionRecord.CommittedHere.class,
            TransactionRecord.RolledBackHere.class,
            TransactionRecord.Done.class,
            TransactionRecord.Asked.class,
            TransactionRecord.StepTimed.class,
            TransactionRecord.Placement.class,
            TransactionRecord.CopyEnded.class,
            TransactionRecord.Stopped.class);
    /** A list that is longer than this is a damaged one. */
    private static final int MOST_ELEMENTS = 1 << 20;

    private RecordCodec() {}

    static int typeOf(TransactionRecord record) {
        return TYPES.indexOf(record.getClass()) + 1;
    }

    static byte[] encode(TransactionRecord record) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            writeFields(record, out);
        } catch (IOException e) {
            throw new UncheckedIOException("memory cannot be written", e);
        }
        return bytes.toByteArray();
    }

    private static void writeFields(Object record, DataOutputStream out) throws IOException {
        for (RecordComponent component : record.getClass().getRecordComponents()) {
            try {
                write(component.getAccessor().invoke(record), out);
            } catch (IllegalAccessException | InvocationTargetException e) {
                throw new IllegalStateException("a record's field cannot be read: " + component, e);
            }
        }
    }

    private static void write(Object value, DataOutputStream out) throws IOException {
        if (value instanceof String text) {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            out.writeInt(bytes.length);
            out.write(bytes);
        } else if (value instanceof Integer number) {
            out.writeInt(number);
        } else if (value instanceof Long number) {
            out.writeLong(number);
        } else if (value instanceof Boolean flag) {
            out.writeBoolean(flag);
        } else if (value instanceof Outcome outcome) {
            out.writeBoolean(outcome == Outcome.COMMITTED);
        } else if (value instanceof List<?> list) {
            out.writeInt(list.size());
            for (Object element : list) {
                write(element, out);
            }
        } else {
            writeFields(value, out);
        }
    }

    /** The record of that type, or null if these bytes are none. */
    static TransactionRecord decode(int type, byte[] body) {
        if (type < 1 || type > TYPES.size()) {
            return null;
        }
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(body))) {
            return read(TYPES.get(type - 1), in);
        } catch (IOException | IllegalArgumentException | ReflectiveOperationException e) {
            return null;
        }
    }

    private static <R> R read(Class<R> type, DataInputStream in) throws IOException, ReflectiveOperationException {
        RecordComponent[] components = type.getRecordComponents();
        Object[] values = new Object[components.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = readValue(components[i], in);
        }
        Class<?>[] types =
                Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
        return type.getDeclaredConstructor(types).newInstance(values);
    }

    private static Object readValue(RecordComponent component, DataInputStream in)
            throws IOException, ReflectiveOperationException {
        Class<?> type = component.getType();
        if (type == String.class) {
            return readText(in);
        }
        if (type == int.class) {
            return in.readInt();
        }
        if (type == long.class) {
            return in.readLong();
        }
        if (type == boolean.class) {
            return in.readBoolean();
        }
        if (type == Outcome.class) {
            return in.readBoolean() ? Outcome.COMMITTED : Outcome.ROLLED_BACK;
        }
        String generic = component.getGenericType().getTypeName();
        int count = in.readInt();
        if (count < 0 || count > MOST_ELEMENTS) {
            throw new IOException("no count: " + count);
        }
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            if (generic.contains("String")) {
                list.add(readText(in));
            } else {
                list.add(generic.contains("PlannedRank") ? read(PlannedRank.class, in) : read(NamedProcess.class, in));
            }
        }
        return list;
    }

    private static String readText(DataInputStream in) throws IOException {
        int lengthBytes = in.readInt();
        if (lengthBytes < 0 || lengthBytes > in.available()) {
            throw new IOException("no text of " + lengthBytes + " bytes");
        }
        return new String(in.readNBytes(lengthBytes), StandardCharsets.UTF_8);
    }
}
