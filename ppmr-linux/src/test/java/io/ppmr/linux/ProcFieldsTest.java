package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ProcFieldsTest {
    private static final ProcFields STATUS =
            new ProcFields("Name:\tUid: x\nUid:\t1\t2\nUidMore:\t3\nGroups:\t\nLast:\t4");

    @Test
    void shouldReturnTheValueOfALineAndNotThatOfAnotherName() {
        assertEquals(Optional.of("1\t2"), STATUS.value("Uid"));
        assertEquals(Optional.of(""), STATUS.value("Groups"));
        assertEquals(Optional.of("4"), STATUS.value("Last"));
        assertEquals(Optional.empty(), STATUS.value("Gid"));
    }

    @Test
    void shouldReturnTheNamedLinesInTheirOrder() {
        assertEquals("Uid:\t1\t2\nGroups:\t\nLast:\t4\n", STATUS.lines(List.of("Last", "Groups", "Uid", "Gid")));
        assertEquals("", STATUS.lines(List.of("Gid", "UidMor")));
    }
}
