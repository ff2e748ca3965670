/** Optional parts of the services: the port that each one implements, and those that are installed. */
package io.ppmr.daemon.part;
