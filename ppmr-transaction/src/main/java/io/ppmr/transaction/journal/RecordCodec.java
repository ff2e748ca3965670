package io.ppmr.transaction.journal;

import io.ppmr.linux.ProcessIdentity;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import net.openhft.chronicle.bytes.Bytes;

/**
 * Records as bytes, in version 3 of the journal ({@link JournalLayout}). Each record defines the number of its type and
 * its fields in its {@link TransactionRecord#write}. {@link TransactionRecord#read} reads them in that order:
 * migration, attempt, and the type's own fields. Numbers are big-endian. A flag is a byte, 0 or 1. A text is UTF-8
 * after its length in bytes (4). A list follows the count of its elements (4).
 *
 * <p>The number of a type and its fields never change within a version.
 */
final class RecordCodec {
    /** Maximum length of a list. A longer one is damaged. */
    private static final int MOST_ELEMENTS = 1 << 20;

    private RecordCodec() {}

    /** Returns the type and the fields of a record. */
    static Writer written(TransactionRecord record) {
        Writer out = new Writer();
        record.write(out);
        return out;
    }

    /** Returns the record of that type, or null if the bytes are invalid. */
    static TransactionRecord decode(int type, byte[] body) {
        try {
            return TransactionRecord.read(type, new FieldSource(ByteBuffer.wrap(body)));
        } catch (BufferUnderflowException | IllegalArgumentException e) {
            return null;
        }
    }

    /** Collects the fields of one record, in order. */
    static final class Writer {
        private final Bytes<byte[]> out = Bytes.allocateElasticOnHeap(256);
        private int type;

        /** Writes the type's number and the fields that every record has. */
        Writer begin(int number, TransactionRecord record) {
            type = number;
            return text(record.migrationId()).number(record.attempt());
        }

        Writer text(String text) {
            byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
            number(utf8.length);
            out.write(utf8);
            return this;
        }

        Writer number(int number) {
            out.writeInt(Integer.reverseBytes(number));
            return this;
        }

        Writer number(long number) {
            out.writeLong(Long.reverseBytes(number));
            return this;
        }

        Writer flag(boolean flag) {
            out.writeByte((byte) (flag ? 1 : 0));
            return this;
        }

        Writer outcome(FinalOutcome outcome) {
            return flag(outcome == FinalOutcome.COMMITTED);
        }

        Writer texts(List<String> texts) {
            number(texts.size());
            texts.forEach(this::text);
            return this;
        }

        /** Writes the ranks. Each has its number, its participant, and the list of its processes. */
        Writer ranks(List<PlannedRank> ranks) {
            number(ranks.size());
            for (PlannedRank rank : ranks) {
                number(rank.rank())
                        .text(rank.participant())
                        .number(rank.processes().size());
                for (ProcessIdentity process : rank.processes()) {
                    text(process.bootId()).number(process.pidNamespace());
                    number(process.pid()).number(process.startTimeTicks());
                }
            }
            return this;
        }

        int type() {
            return type;
        }

        byte[] body() {
            return out.toByteArray();
        }
    }

    /** Reads the fields of one record, in order. It throws if there are too few, or a length is invalid. */
    record FieldSource(ByteBuffer in) {
        String text() {
            int lengthBytes = in.getInt();
            if (lengthBytes < 0 || lengthBytes > in.remaining()) {
                throw new IllegalArgumentException("invalid text length: " + lengthBytes + " bytes");
            }
            byte[] utf8 = new byte[lengthBytes];
            in.get(utf8);
            return new String(utf8, StandardCharsets.UTF_8);
        }

        int int32() {
            return in.getInt();
        }

        long int64() {
            return in.getLong();
        }

        boolean flag() {
            return in.get() != 0;
        }

        FinalOutcome outcome() {
            return flag() ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK;
        }

        List<String> texts() {
            return list(this::text);
        }

        List<PlannedRank> ranks() {
            return list(() -> new PlannedRank(int32(), text(), list(this::process)));
        }

        private ProcessIdentity process() {
            return new ProcessIdentity(text(), int64(), int32(), int64());
        }

        private <T> List<T> list(Supplier<T> element) {
            int count = in.getInt();
            if (count < 0 || count > MOST_ELEMENTS) {
                throw new IllegalArgumentException("invalid count: " + count);
            }
            List<T> list = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                list.add(element.get());
            }
            return list;
        }
    }
}
