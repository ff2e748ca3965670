package io.ppmr.checkpoint;

/**
 * Whether something can be used on this node.
 *
 * @param available whether it can
 * @param detail what was found (with its version), or what is missing
 * @param remedy how to get it; empty where it is available
 */
public record Availability(boolean available, String detail, String remedy) {}
