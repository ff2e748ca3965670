/** {@code ppmr restart}: a job out of a copy that a migration has kept. */
package io.ppmr.cli.restart;
