/**
 * State of processes that CRIU leaves out and that another process can read and set: ppmr reads it of the originals
 * while they are held, carries it as text, and sets it in the copies before the vote.
 */
package io.ppmr.checkpoint.state;
