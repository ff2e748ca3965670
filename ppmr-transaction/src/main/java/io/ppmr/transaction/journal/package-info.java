/** The records of a migration, and the file that they are written to. This package does not use the rules. */
package io.ppmr.transaction.journal;
