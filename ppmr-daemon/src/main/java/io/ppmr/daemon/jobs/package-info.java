/**
 * The jobs that a source may move: those of its configuration, those that users announce, and records of their moves.
 */
package io.ppmr.daemon.jobs;
