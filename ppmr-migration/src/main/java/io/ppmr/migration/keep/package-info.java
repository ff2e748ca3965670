/** A copy of the images on disk, made while they pass, so that a migration doubles as a checkpoint. */
package io.ppmr.migration.keep;
