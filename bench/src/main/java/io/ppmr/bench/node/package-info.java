/** The processes that are measured: the product's own classes, set up without the steps of a migration around them. */
package io.ppmr.bench.node;
