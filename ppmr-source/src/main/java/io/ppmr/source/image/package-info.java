/** Image files while they are written: gathered into chunks, each for a slot that the target granted. */
package io.ppmr.source.image;
