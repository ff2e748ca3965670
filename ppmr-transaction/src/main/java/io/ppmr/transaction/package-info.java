/**
 * The commit protocol of a migration, docs/internals/transaction.md: {@link io.ppmr.transaction.Coordinator} at the
 * source and {@link io.ppmr.transaction.Participant} at each target run the rules, with their timers, and carry out
 * what follows through ports that the services give them.
 */
package io.ppmr.transaction;
