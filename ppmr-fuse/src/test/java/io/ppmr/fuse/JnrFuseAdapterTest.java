package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class JnrFuseAdapterTest {
    @Test
    void shouldReturnItsErrnoWhenViewRefuses() {
        assertEquals(
                -28,
                JnrFuseAdapter.errno("write", "/image", new ErrnoException(Errno.ENOSPC, "pool and staging full")));
    }

    @Test
    void shouldReturnEIOWhenViewFailsUnexpectedly() {
        assertEquals(-5, JnrFuseAdapter.errno("getattr", "/image", new IllegalStateException("wrong step, as a test")));
        assertEquals(-5, JnrFuseAdapter.errno("getattr", "/image", new StackOverflowError("as a test")));
    }
}
