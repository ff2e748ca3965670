package io.ppmr.bench;

/** A benchmark cannot be run, or a run of it has failed: names the thing, the cause and the remedy. */
final class BenchFailure extends Exception {
    private static final long serialVersionUID = 1L;

    BenchFailure(String message) {
        super(message);
    }
}
