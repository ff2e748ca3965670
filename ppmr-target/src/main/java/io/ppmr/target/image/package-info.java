/** Image files while they arrive: the order of their pieces, their slots, and the waiting readers. */
package io.ppmr.target.image;
