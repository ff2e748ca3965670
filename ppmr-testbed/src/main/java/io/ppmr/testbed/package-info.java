/** Test nodes on one machine, services and jobs in them: what demo, benchmarks and system tests share. */
package io.ppmr.testbed;
