package io.ppmr.doctor;

import io.ppmr.protocol.NodeFacts;

/** Says what a node is, now. */
@FunctionalInterface
public interface NodeFactsSource {
    NodeFacts facts();
}
