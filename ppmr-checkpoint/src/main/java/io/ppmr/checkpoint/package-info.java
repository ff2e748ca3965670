/**
 * Checkpointers behind one interface: {@link io.ppmr.checkpoint.Checkpointer}, made from
 * {@link io.ppmr.checkpoint.CheckpointerSettings}. An adapter starts a tool, and proves from {@code /proc} that every
 * process is stopped before it reports success. After a failure it undoes its work: originals run again, and restored
 * processes are killed.
 *
 * <p>{@link io.ppmr.linux.ProcessIdentity} names processes, and {@link io.ppmr.checkpoint.ProcessTable} finds them. The
 * native helpers are in {@code src/main/c}.
 */
package io.ppmr.checkpoint;
