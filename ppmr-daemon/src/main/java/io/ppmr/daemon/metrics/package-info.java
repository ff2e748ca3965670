/** The meters of a service, for collectors such as Prometheus. */
package io.ppmr.daemon.metrics;
