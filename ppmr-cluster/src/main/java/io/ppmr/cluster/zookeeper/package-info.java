/** The ensemble: ZooKeeper and Curator, which no other package uses. */
package io.ppmr.cluster.zookeeper;
