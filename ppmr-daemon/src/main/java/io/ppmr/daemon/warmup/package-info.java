/** The warm-up: migrations within a service's own process before the service reports that it is ready. */
package io.ppmr.daemon.warmup;
