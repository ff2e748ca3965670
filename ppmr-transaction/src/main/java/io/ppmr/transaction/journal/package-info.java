/** The records of a migration, and the file that they are written to; knows nothing of the rules. */
package io.ppmr.transaction.journal;
