/**
 * The commit protocol as pure functions: a state and an event yield the next state and effects. It has no clock, input
 * or output. The model check runs this code.
 */
package io.ppmr.transaction.rules;
