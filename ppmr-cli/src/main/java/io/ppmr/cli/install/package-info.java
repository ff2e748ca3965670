/** Installs the built tree, units and configuration, and removes exactly these files. */
package io.ppmr.cli.install;
