package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.files.CarriedFile;
import io.ppmr.checkpoint.files.FileFacts;
import io.ppmr.checkpoint.files.OpenedFile;
import java.io.IOException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class DepartingFilesTest {
    private static final CarriedFile FILE = new CarriedFile(
            new OpenedFile(5, "job", "a mapping", "", "/scratch/f", "77", true, false, false),
            "/scratch/f",
            "77",
            "8:1",
            false);

    /** The job's user can substitute another file at the name of a mapped one, after both nodes have inspected it. */
    @ParameterizedTest
    @CsvSource({"100644, 77, 8:1, true", "100644, 78, 8:1, false", "100644, 77, 8:2, false", "10644, 77, 8:1, false"})
    void shouldSendTheFileThatTheJobHasAndNoOther(String mode, String inode, String device, boolean same)
            throws IOException {
        FileFacts found = FileFacts.parse("found 2 ef53 1:aa " + mode + " 1000 1000 5 0:0 1 " + inode + " " + device
                        + " 1.000000000 1.000000000 4096")
                .orElseThrow();
        if (same) {
            DepartingFiles.requireSame(FILE, found);
            assertEquals("1.000000000", found.modified());
        } else {
            IOException other = assertThrows(IOException.class, () -> DepartingFiles.requireSame(FILE, found));
            assertTrue(other.getMessage().contains("its path leads to another file now"), other.getMessage());
        }
    }
}
