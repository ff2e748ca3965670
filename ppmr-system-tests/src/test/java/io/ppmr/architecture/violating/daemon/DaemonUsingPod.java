package io.ppmr.architecture.violating.daemon;

import io.ppmr.architecture.violating.pods.Cable;

/** Breaks the rule that the core depends on no optional part. */
public final class DaemonUsingPod {
    Cable cable;
}
