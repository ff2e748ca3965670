/** Whether a node can do its part, and whether a job of one node could go on at another: facts, and what they mean. */
package io.ppmr.migration.node;
