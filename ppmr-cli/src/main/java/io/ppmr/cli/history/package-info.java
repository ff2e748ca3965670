/** The past migrations by the journal, and how they are shown. */
package io.ppmr.cli.history;
