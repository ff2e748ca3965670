/** The warm-up: migrations within a service's own process before it says that it is ready. */
package io.ppmr.daemon.warmup;
