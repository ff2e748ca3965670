/** Fault injection as an ordinary transport: what goes wrong on a network, on purpose and by a seed. */
package io.ppmr.transport.fault;
