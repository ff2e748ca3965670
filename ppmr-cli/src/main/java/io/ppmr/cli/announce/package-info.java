/** Jobs that users announce to a source while it runs, and the records of what became of them. */
package io.ppmr.cli.announce;
