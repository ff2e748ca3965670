/**
 * Looks for state that {@code criu dump} does not write, or writes as something that the target cannot make again, one
 * small look for each kind. {@link io.ppmr.checkpoint.limits.CriuLooks} makes the looks of a scan; each is a {@link
 * io.ppmr.checkpoint.sharing.MemberLook} and touches no process.
 */
package io.ppmr.checkpoint.limits;
