/** What the journal tells about migrations that were, and how it is shown. */
package io.ppmr.cli.history;
