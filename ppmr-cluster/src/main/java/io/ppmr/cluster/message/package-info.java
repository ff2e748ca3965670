/** The messages of a cluster between services and controllers, and who sends and answers them. */
package io.ppmr.cluster.message;
