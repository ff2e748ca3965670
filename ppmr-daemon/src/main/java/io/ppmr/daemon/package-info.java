/** The processes of the two services: what each needs around the service itself, from its start to its end. */
package io.ppmr.daemon;
