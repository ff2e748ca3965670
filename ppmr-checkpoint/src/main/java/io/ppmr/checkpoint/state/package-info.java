/**
 * State of processes that CRIU leaves out and that another process can read and set. ppmr reads it from the held
 * originals, sends it as text, and sets it in the copies before the vote.
 */
package io.ppmr.checkpoint.state;
