/** Curves of a migration over time: sampled while it runs, kept beside the journal, read by {@code ppmr report}. */
package io.ppmr.migration.samples;
