package io.ppmr.architecture.violating.target;

import io.ppmr.architecture.violating.source.SourceUsingTarget;

/** Breaks a rule on purpose: a target that depends on the source. */
public interface TargetUsingSource {
    SourceUsingTarget source();
}
