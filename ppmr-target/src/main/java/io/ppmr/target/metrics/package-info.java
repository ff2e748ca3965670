/** Measures the data path at the target: meters for scrapes, and events of the flight recorder. */
package io.ppmr.target.metrics;
