/** Authenticates peers: both prove that they have the same secret before any other frame. */
package io.ppmr.transport.auth;
