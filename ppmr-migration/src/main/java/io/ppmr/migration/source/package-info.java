/** The source's part of a migration: orders and attempts, the coordinator's actions, the job's hooks, the originals. */
package io.ppmr.migration.source;
