/** The past migrations by the journal, how they are shown, and what their owners may see of them. */
package io.ppmr.daemon.history;
