/** Checks of a node, and of a job of one node that is to continue at another: facts, and what they mean. */
package io.ppmr.migration.node;
