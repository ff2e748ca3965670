/**
 * Checkpointers behind one interface: {@link io.ppmr.checkpoint.Checkpointer}, made from {@link
 * io.ppmr.checkpoint.CheckpointerSettings}. An adapter starts a tool, proves from {@code /proc} that every process is
 * stopped before it reports success, and puts things back as they were when it fails: originals run again, restored
 * processes are ended.
 *
 * <p>Processes are named by {@link io.ppmr.os.ProcessIdentity} and found by {@link
 * io.ppmr.checkpoint.ProcessTable}. The native helpers are in {@code src/main/c}.
 */
package io.ppmr.checkpoint;
