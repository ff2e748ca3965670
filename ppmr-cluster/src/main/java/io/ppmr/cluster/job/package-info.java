/** Jobs over several nodes: their records, the rules of their checkpoints and restarts, and the members' side. */
package io.ppmr.cluster.job;
