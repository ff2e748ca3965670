/** Measures the data path at the source: meters for scrapes, and events of the flight recorder. */
package io.ppmr.source.metrics;
