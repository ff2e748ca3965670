package io.ppmr.architecture.violating.pods;

/** Represents a class of an optional part. */
public final class Cable {}
