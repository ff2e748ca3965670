/**
 * Accepts a service's connections: a thread that accepts, limited places for unauthenticated connections, and a log
 * that outside peers cannot flood.
 */
package io.ppmr.transport.listen;
