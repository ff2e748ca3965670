/** Pulls over sockets: what RDMA Reads do, on machines that have none. */
package io.ppmr.testbed.pull;
