/** The meters of a service for whoever collects them. */
package io.ppmr.daemon.metrics;
