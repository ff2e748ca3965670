/** Checks of a node, and of a job that would move there from another node: facts and findings. */
package io.ppmr.migration.node;
