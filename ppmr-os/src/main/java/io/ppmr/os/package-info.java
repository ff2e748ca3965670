/**
 * Asks the operating system in one way for all modules: calls of the C library, short runs of other
 * programs, users and groups, Unix datagrams, names of processes. Knows no other module.
 */
package io.ppmr.os;
