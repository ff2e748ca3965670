/** Traces of migrations, an optional part of the services: sent to a collector by OTLP when a migration is over. */
package io.ppmr.tracing;
