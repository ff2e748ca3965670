/** The frames of the data plane: one class a frame, with its layout drawn, and what images are said to be like. */
package io.ppmr.protocol.data;
