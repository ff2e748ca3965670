/** The source's control socket: its protocol, its server and its client. */
package io.ppmr.daemon.control;
