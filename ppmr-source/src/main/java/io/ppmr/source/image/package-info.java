/** Image files while they are written: their bytes are gathered in chunks, each for a granted slot of the target. */
package io.ppmr.source.image;
