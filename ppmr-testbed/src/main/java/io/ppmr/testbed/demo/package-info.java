/** The demonstration: jobs moved between two nodes that are made on this machine. */
package io.ppmr.testbed.demo;
