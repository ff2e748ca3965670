package io.ppmr.checkpoint;

/** The ordinary user that a job runs as, by number. */
public record JobUser(int uid, int gid) {}
