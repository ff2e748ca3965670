package io.ppmr.fuse;

/** Who made a filesystem call, as the kernel reports it: effective user and group, and the calling thread's id. */
public record Caller(int uid, int gid, int pid) {}
