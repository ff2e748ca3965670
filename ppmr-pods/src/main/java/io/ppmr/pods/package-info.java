/** Pods: jobs' processes with namespaces and a network address of their own, which root's templates grant to users. */
package io.ppmr.pods;
