/** Everything that goes over a connection: one class a frame, with its layout drawn, and the messages. */
package io.ppmr.protocol;
