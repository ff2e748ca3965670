/** The log of a service: which migration, rank and peer it is about, and its way into systemd's journal. */
package io.ppmr.daemon.log;
