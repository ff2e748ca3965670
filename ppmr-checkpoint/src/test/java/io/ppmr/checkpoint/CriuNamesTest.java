package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CriuNamesTest {
    @ParameterizedTest
    @CsvSource({
        "/lib/libx.so.cr.2.ghost (deleted), /lib/libx.so (deleted)",
        "/home/a b.cr.1f.ghost (deleted), /home/a b (deleted)",
        "/tmp/x.cr_link (deleted), /tmp/x (deleted)",
        "/tmp/x.cr.2.ghost, /tmp/x.cr.2.ghost",
        "/tmp/x.cr.zz.ghost (deleted), /tmp/x.cr.zz.ghost (deleted)",
        "/tmp/x (deleted), /tmp/x (deleted)"
    })
    void shouldGiveTheNameThatTheOriginalsFileHad(String ofCopy, String ofOriginal) {
        assertEquals(ofOriginal, CriuNames.original(ofCopy));
    }
}
