/** The benchmarks: each stage of the data path, and whole migrations, beside what this machine can do at most. */
package io.ppmr.bench;
