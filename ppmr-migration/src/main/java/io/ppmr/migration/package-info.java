/** Migrations of whole jobs. This package joins the data plane, the checkpointers and the transaction. */
package io.ppmr.migration;
