/** The target's part of a migration: admission, restarts, the participant's actions, the restored ranks. */
package io.ppmr.migration.target;
