/** What is written down of a migration, and the file that it is written to; knows nothing of the rules. */
package io.ppmr.transaction.journal;
