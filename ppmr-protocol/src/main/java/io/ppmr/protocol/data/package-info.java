/**
 * The frames and messages of the data plane, one class with a drawing of its layout for each frame, and the traits of
 * images.
 */
package io.ppmr.protocol.data;
