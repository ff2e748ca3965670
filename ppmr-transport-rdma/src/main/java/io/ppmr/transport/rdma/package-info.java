/**
 * The transport over RDMA. The target reads chunks from the source's pool by one-sided RDMA Reads (paper 1, section
 * IV). In the other mode the source writes them to the target's pool by RDMA Writes. Only this package uses DiSNI. See
 * docs/internals/rdma.md.
 */
package io.ppmr.transport.rdma;
