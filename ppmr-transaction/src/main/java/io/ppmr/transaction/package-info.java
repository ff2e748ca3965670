/**
 * A migration as a transaction: the rules as pure functions over immutable states, the drivers that run them with
 * timers through ports, and the journal. docs/transaction.md says what is promised and why.
 */
package io.ppmr.transaction;
