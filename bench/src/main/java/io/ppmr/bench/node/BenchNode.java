package io.ppmr.bench.node;

import java.io.IOException;
import java.util.List;

/**
 * One side, or one stage, of the data path in a process of its own, told what to do by {@link NodeMain}, on its thread.
 */
interface BenchNode extends AutoCloseable {

    /**
     * Prepares a run.
     *
     * @param words the command's words after "begin"
     * @return what the one who asked must know: a directory below the mount point, a port
     */
    String begin(List<String> words) throws Exception;

    /** Something else to do for the run under way. */
    default String command(List<String> words) throws Exception {
        throw new IllegalArgumentException("this node cannot do " + words);
    }

    /** Ends the run and frees what it used. */
    void end() throws Exception;

    @Override
    void close() throws IOException;
}
