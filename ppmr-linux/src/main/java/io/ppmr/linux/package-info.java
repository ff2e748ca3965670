/**
 * Access to the operating system for all modules: C library calls, short runs of other programs, users and groups, Unix
 * datagrams, and process identities. It depends on no other module.
 */
package io.ppmr.linux;
