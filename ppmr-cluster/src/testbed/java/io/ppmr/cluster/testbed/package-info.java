/** Test nodes of a cluster, which the demo uses, too. */
package io.ppmr.cluster.testbed;
