/** The nodes and services of a cluster, as values. */
package io.ppmr.cluster.record;
