/** Draws the results of benchmarks as the figures of the paper. */
package io.ppmr.bench.report;
