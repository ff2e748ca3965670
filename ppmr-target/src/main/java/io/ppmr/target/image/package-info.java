/** Image files while they arrive: their pieces in order, and the readers who wait for them. */
package io.ppmr.target.image;
