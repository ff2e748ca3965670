/** Two nodes on one machine, the services in them, jobs, and the demonstration made of these. */
package io.ppmr.cli.demo;
