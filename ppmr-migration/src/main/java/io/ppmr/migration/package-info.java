/** Migrations of whole jobs: what joins the data plane, the checkpointers and the transaction. */
package io.ppmr.migration;
