/**
 * The commit protocol of a migration (docs/internals/transaction.md). {@link io.ppmr.transaction.Coordinator} at the
 * source and {@link io.ppmr.transaction.Participant} at each target run the rules and their timers. Both carry out the
 * effects through ports that the services provide.
 */
package io.ppmr.transaction;
