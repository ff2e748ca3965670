package io.ppmr.transport.rdma;

import org.slf4j.Logger;

/** The asynchronous events of a device, in the order of {@code enum ibv_event_type} (ibv_get_async_event(3)). */
enum DeviceEvent {
    IBV_EVENT_CQ_ERR(true, About.DEVICE),
    IBV_EVENT_QP_FATAL(true, About.QUEUE_PAIR),
    IBV_EVENT_QP_REQ_ERR(true, About.QUEUE_PAIR),
    IBV_EVENT_QP_ACCESS_ERR(true, About.QUEUE_PAIR),
    IBV_EVENT_COMM_EST(false, About.QUEUE_PAIR),
    IBV_EVENT_SQ_DRAINED(false, About.QUEUE_PAIR),
    IBV_EVENT_PATH_MIG(false, About.QUEUE_PAIR),
    IBV_EVENT_PATH_MIG_ERR(true, About.QUEUE_PAIR),
    IBV_EVENT_DEVICE_FATAL(true, About.DEVICE),
    IBV_EVENT_PORT_ACTIVE(false, About.PORT),
    IBV_EVENT_PORT_ERR(true, About.PORT),
    IBV_EVENT_LID_CHANGE(false, About.PORT),
    IBV_EVENT_PKEY_CHANGE(false, About.PORT),
    IBV_EVENT_SM_CHANGE(false, About.PORT),
    IBV_EVENT_SRQ_ERR(true, About.DEVICE),
    IBV_EVENT_SRQ_LIMIT_REACHED(false, About.DEVICE),
    IBV_EVENT_QP_LAST_WQE_REACHED(false, About.QUEUE_PAIR),
    IBV_EVENT_CLIENT_REREGISTER(false, About.PORT),
    IBV_EVENT_GID_CHANGE(false, About.PORT),
    IBV_EVENT_WQ_FATAL(true, About.DEVICE);

    /** Says what an event's number means; the device itself, and queues without a number, have none. */
    private enum About {
        DEVICE(""),
        PORT(", port "),
        QUEUE_PAIR(", queue pair ");

        private final String words;

        About(String words) {
            this.words = words;
        }
    }

    private final boolean bad;
    private final About about;

    DeviceEvent(boolean bad, About about) {
        this.bad = bad;
        this.about = about;
    }

    /** Writes a line about an event as the native half gives it: its type, and the number of what it is about. */
    static void log(Logger log, String device, int type, int number) {
        DeviceEvent[] all = values();
        if (type >= all.length) {
            log.warn("RDMA device {}: event {}, {}", device, type, number);
            return;
        }
        DeviceEvent event = all[type];
        String about = event.about == About.DEVICE ? "" : event.about.words + number;
        if (event.bad) {
            log.warn("RDMA device {}: {}{}", device, event, about);
        } else {
            log.info("RDMA device {}: {}{}", device, event, about);
        }
    }
}
