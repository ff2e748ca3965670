/** Puts the built tree, units and configuration in place, and takes away exactly that. */
package io.ppmr.cli.install;
