/** The off-heap pool that every byte of an image passes through, and the claims on it. */
package io.ppmr.bufferpool;
