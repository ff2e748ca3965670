/** Decides who may talk: both peers prove that they hold the same secret before any other frame. */
package io.ppmr.transport.auth;
