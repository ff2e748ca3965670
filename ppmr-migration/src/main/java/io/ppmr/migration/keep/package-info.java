/** A copy of the images on disk, made while they are sent. With it, a migration is also a checkpoint. */
package io.ppmr.migration.keep;
