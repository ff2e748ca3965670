package io.ppmr.system;

import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Another user of the node, with processes that have nothing to do with any job. It is a program in Perl that makes its
 * resources, writes {@code ready} and stays. On SIGTERM, and after the death of this JVM, it removes the resources that
 * would outlive it.
 */
final class Neighbour implements AutoCloseable {
    /** A user that has no other process here. */
    static final int UID = 20_077;

    private static final String STAY =
            " $| = 1; print \"ready\\n\"; while (1) { sleep 1; kill 'TERM', $$ if getppid() != $parent }";

    private final Process process;
    private final Path output;

    private Neighbour(Process process, Path output) {
        this.process = process;
        this.output = output;
    }

    /**
     * Starts one and waits until it has made all.
     *
     * @param output the file for its output
     * @param making statements in Perl; they put the resources to be removed into {@code @m}, {@code @s} and {@code @q}
     * @param removing statements by which it removes what would outlive it
     */
    static Neighbour start(Path output, String making, String removing) throws Exception {
        return start(output, UID, making, removing);
    }

    /** Starts one as a user of the caller's choice. */
    static Neighbour start(Path output, int uid, String making, String removing) throws Exception {
        String program = "use Fcntl; use IPC::SysV qw(IPC_CREAT IPC_RMID); our (@m, @s, @q); my $parent = getppid();"
                + " $SIG{TERM} = sub { " + removing + "; exit }; " + making + STAY;
        List<String> words = new ArrayList<>(
                List.of("setpriv", "--reuid", "" + uid, "--regid", "" + uid, "--clear-groups", "perl", "-e", program));
        Process process = new ProcessBuilder(words)
                .directory(new File("/"))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        Neighbour neighbour = new Neighbour(process, output);
        try {
            Conditions.until("the neighbour is ready", neighbour::isReady);
            return neighbour;
        } catch (Exception e) {
            neighbour.close();
            throw e;
        }
    }

    private boolean isReady() throws IOException {
        String said = Files.readString(output, StandardCharsets.ISO_8859_1);
        if (!process.isAlive()) {
            throw new IllegalStateException("the neighbour has ended: " + said);
        }
        return said.contains("ready\n");
    }

    @Override
    public void close() throws InterruptedException {
        List<ProcessHandle> children = process.descendants().toList();
        process.destroy();
        if (!process.waitFor(Patience.of(20), TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
        children.forEach(ProcessHandle::destroyForcibly);
    }
}
