/** The controller: it determines the states of nodes, and chooses spare nodes. */
package io.ppmr.cluster.controller;
