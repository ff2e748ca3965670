/**
 * The commit protocol as pure functions: a state and an event give the next state and effects. No clock, no input or
 * output; the model check runs this code.
 */
package io.ppmr.transaction.rules;
