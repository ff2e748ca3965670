/**
 * Finds state that {@code criu dump} does not write, or that the target cannot restore, with one small check for each
 * kind. {@link io.ppmr.checkpoint.limits.CriuChecks} makes the checks of a scan. Each is a
 * {@link io.ppmr.checkpoint.sharing.MemberCheck} and touches no process.
 */
package io.ppmr.checkpoint.limits;
