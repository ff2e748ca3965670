/** Turns the two services into processes: signals, triggers, orderly ends. */
package io.ppmr.daemon.service;
