/**
 * The transport over RDMA: the target reads chunks out of the source's pool by one-sided RDMA Reads (paper 1, section
 * IV), or the source writes them into the target's by RDMA Writes. The only package that sees DiSNI. See
 * docs/internals/rdma.md.
 */
package io.ppmr.transport.rdma;
