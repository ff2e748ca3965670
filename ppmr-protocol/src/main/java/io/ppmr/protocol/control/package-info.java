/** The messages of the control plane: what services ask, answer and decide. */
package io.ppmr.protocol.control;
