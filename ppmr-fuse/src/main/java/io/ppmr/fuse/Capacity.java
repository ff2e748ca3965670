package io.ppmr.fuse;

/** What {@code statfs(2)} answers: block size, blocks in all, blocks free, files in use. */
public record Capacity(int blockBytes, long blocks, long freeBlocks, long files) {}
