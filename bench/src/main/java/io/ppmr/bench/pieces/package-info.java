/** The inner pieces of the data path, measured by JMH: what one of their operations costs on a warm JVM. */
package io.ppmr.bench.pieces;
