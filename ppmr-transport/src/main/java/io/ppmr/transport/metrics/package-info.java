/** What both ends measure in the same way on the way of the bytes: meters for scrapes, events of the flight recorder. */
package io.ppmr.transport.metrics;
