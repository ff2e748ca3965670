/** Image files while they arrive: their pieces in order, the slots that hold them, the readers who wait for them. */
package io.ppmr.target.image;
