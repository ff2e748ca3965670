/** The command {@code ppmr doctor}: the checks, the services to query, and the output. */
package io.ppmr.cli.doctor;
