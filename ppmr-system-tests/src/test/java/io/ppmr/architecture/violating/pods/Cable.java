package io.ppmr.architecture.violating.pods;

/** Stands for a class of an optional part. */
public final class Cable {}
