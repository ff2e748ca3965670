package io.ppmr.transport.fault;

/** What a {@link FaultyPuller} does to one pull. */
public enum PullFault {
    /** Nothing: it goes through. */
    NONE,
    /** It arrives later than those after it. */
    DELAY,
    /** One bit of it is flipped on the way. */
    CORRUPT,
    /** It fails. */
    FAIL
}
