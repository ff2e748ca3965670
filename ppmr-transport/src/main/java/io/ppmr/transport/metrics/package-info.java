/** Measures the data path in the same way at both ends: meters for scrapes, and events of the flight recorder. */
package io.ppmr.transport.metrics;
