/** The transport over TCP: chunks are sent when they are full, directly from and to pool memory. */
package io.ppmr.transport.tcp;
