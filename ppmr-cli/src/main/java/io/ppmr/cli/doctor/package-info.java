/** The command {@code ppmr doctor}: what to look at, whom to ask, and how it is shown. */
package io.ppmr.cli.doctor;
