/** What the source measures on the way of the bytes: meters for scrapes, and events of the flight recorder. */
package io.ppmr.source.metrics;
