/** The command line. */
package io.ppmr.cli;
