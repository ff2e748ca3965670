package io.ppmr.architecture.violating.source;

import io.ppmr.architecture.violating.target.TargetUsingSource;

/** Breaks a rule on purpose: a source that depends on the target. */
public interface SourceUsingTarget {
    TargetUsingSource target();
}
