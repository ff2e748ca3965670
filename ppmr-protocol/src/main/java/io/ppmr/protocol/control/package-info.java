/** The messages of the control plane: requests, answers and decisions of services. */
package io.ppmr.protocol.control;
