/* The two ends of a pod's virtual cable, and the packets that must not leave a pod while it is held. rtnetlink(7),
 * netdevice(7), nft(8). */
#ifndef PPMR_POD_CABLE_H
#define PPMR_POD_CABLE_H

/* What a network drops while its pod is held. */
enum dropped {
    /* all that leaves it, and all between its own processes */
    DROPPED_ALL,
    /* what is between its own processes: the kernel has no hook for packets that leave, before Linux 5.16 */
    DROPPED_INSIDE,
    /* nothing: the kernel has no nf_tables */
    DROPPED_NOTHING
};

/* Drops the packets of the current network, whose cable is the interface, and switches its ARP off. Can be repeated. */
enum dropped drop_packets(const char *interface);

/* Reverts it. ARP is switched on last: the kernel deletes the neighbours with that. Can be repeated. */
void pass_packets(const char *interface);

/* Sets an interface of the current network down. */
void set_down(const char *interface);

/* Sets an interface of the current network up, as a port of the bridge. */
void set_up(const char *interface, const char *bridge);

#endif
