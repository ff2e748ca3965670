/** An optional part of the services: a cluster that knows its nodes. */
package io.ppmr.cluster;
