package io.ppmr.system;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Holes, cuts, empty files, and everything that has a name. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FileShapesIT {
    private static final int ENOENT = 2;
    private static final int EEXIST = 17;
    private static final int EISDIR = 21;
    private static final int EROFS = 30;
    private static final int ENOTEMPTY = 39;

    @TempDir
    private Path directory;

    private void move(boolean retained, List<String> checkpoint, List<String> restart) throws Exception {
        ReplayJob made = new ReplayJob(directory);
        try (ReplayJob job = (retained ? made.retained() : made).rank(checkpoint, restart);
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.checkpointer())
                                .staging(16 << 20)
                                .stall(Duration.ofSeconds(6)))) {
            job.commits(pair);
        }
    }

    @ParameterizedTest(name = "retained {0}")
    @ValueSource(booleans = {true, false})
    void shouldReadZerosWhereAFileHasHoles(boolean retained) throws Exception {
        move(
                retained,
                List.of(
                        "open image wcx",
                        "pwrite 100 50",
                        "pwrite 5000 5000",
                        "pwrite 700000 300000",
                        "truncate 1500000",
                        "close"),
                List.of(
                        "open image r",
                        "blank 100",
                        "read 50",
                        "blank 4850",
                        "read 5000",
                        "blank 690000",
                        "read 300000",
                        "blank 500000",
                        "eof",
                        "fsize 1500000"));
    }

    @ParameterizedTest(name = "retained {0}")
    @ValueSource(booleans = {true, false})
    void shouldReadNothingThatWasCutOff(boolean retained) throws Exception {
        String written = directory.resolve("job/written").toString();
        move(
                retained,
                List.of(
                        "open image wcx",
                        "write 600000",
                        "truncate 200000",
                        "truncate 250000",
                        "pwrite 300000 1000",
                        "truncate 100",
                        "truncate 350000",
                        "close",
                        "open other wct",
                        "write 9000",
                        "close",
                        "open other wct",
                        "write 50",
                        "close",
                        "touch " + written),
                List.of(
                        "await " + written,
                        "open image r",
                        "read 100",
                        "blank 349900",
                        "eof",
                        "open other r",
                        "read 50",
                        "eof"));
    }

    @ParameterizedTest(name = "retained {0}")
    @ValueSource(booleans = {true, false})
    void shouldMirrorEveryNameWhenACheckpointerMakesThem(boolean retained) throws Exception {
        String named = directory.resolve("job/named").toString();
        move(
                retained,
                List.of(
                        "fails " + ENOENT + " unlink never-written",
                        "fails " + ENOENT + " rename never-written other",
                        "fails " + ENOENT + " open never-written r",
                        "open empty wcx",
                        "close",
                        "fails " + EEXIST + " open empty wcx",
                        "mkdir below",
                        "mkdir below/further",
                        "fails " + EEXIST + " mkdir below",
                        "open below/further/file wcx",
                        "write 200000",
                        "close",
                        "fails " + ENOTEMPTY + " rmdir below",
                        "symlink below/further/file link",
                        "open old wcx",
                        "write 300",
                        "close",
                        "open replaced wcx",
                        "seed 9",
                        "write 10",
                        "close",
                        "rename old replaced",
                        "rename below/further moved",
                        "open gone wcx",
                        "write 20",
                        "close",
                        "unlink gone",
                        "chmod 0400 replaced",
                        "rmdir below",
                        "open image wcx",
                        "close",
                        "touch " + named),
                List.of(
                        "await " + named,
                        "size empty 0",
                        "open empty r",
                        "eof",
                        "open moved/file r",
                        "read 200000",
                        "eof",
                        "fails " + ENOENT + " open below r",
                        "fails " + ENOENT + " open old r",
                        "fails " + ENOENT + " open gone r",
                        "fails " + ENOENT + " open link r",
                        "open replaced r",
                        "read 300",
                        "eof",
                        "list moved",
                        "fails " + EROFS + " unlink replaced",
                        "fails " + EROFS + " mkdir new",
                        "fails " + EISDIR + " open moved w"));
    }

    @Test
    void shouldEndAnEmptyImageWhenNothingIsWritten() throws Exception {
        move(false, List.of("open image wcx", "fsync", "close"), List.of("open image r", "eof", "fsize 0"));
    }

    @Test
    void shouldAppendWhenAFileIsOpenedSo() throws Exception {
        move(
                false,
                List.of(
                        "open image wcx",
                        "write 5000",
                        "close",
                        "open image wa",
                        "seek 0",
                        "append 250000 3000",
                        "close"),
                List.of("open image r", "read 255000", "eof"));
    }
}
