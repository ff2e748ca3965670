/** The transport over TCP: chunks are sent when they are full, straight out of and into pool memory. */
package io.ppmr.transport.tcp;
