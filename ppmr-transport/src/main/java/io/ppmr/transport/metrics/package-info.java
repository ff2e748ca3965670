/** What both ends measure alike on the way of the bytes: meters for scrapes, and events of the flight recorder. */
package io.ppmr.transport.metrics;
