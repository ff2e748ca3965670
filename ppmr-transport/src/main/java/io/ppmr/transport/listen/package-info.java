/**
 * Takes a service's connections: one thread that accepts, the places of those who have not yet shown who they are, and
 * a log that no outside peer can flood.
 */
package io.ppmr.transport.listen;
