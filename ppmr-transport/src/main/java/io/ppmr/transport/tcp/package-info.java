/** The transport over TCP: pulls are requests on data connections, answered straight out of and into pool memory. */
package io.ppmr.transport.tcp;
