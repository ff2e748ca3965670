package io.ppmr.transport.rdma;

import org.slf4j.Logger;

/** The asynchronous events of a device, in the order of {@code enum ibv_event_type} (ibv_get_async_event(3)). */
enum DeviceEvent {
    IBV_EVENT_CQ_ERR(true, Subject.DEVICE),
    IBV_EVENT_QP_FATAL(true, Subject.QUEUE_PAIR),
    IBV_EVENT_QP_REQ_ERR(true, Subject.QUEUE_PAIR),
    IBV_EVENT_QP_ACCESS_ERR(true, Subject.QUEUE_PAIR),
    IBV_EVENT_COMM_EST(false, Subject.QUEUE_PAIR),
    IBV_EVENT_SQ_DRAINED(false, Subject.QUEUE_PAIR),
    IBV_EVENT_PATH_MIG(false, Subject.QUEUE_PAIR),
    IBV_EVENT_PATH_MIG_ERR(true, Subject.QUEUE_PAIR),
    IBV_EVENT_DEVICE_FATAL(true, Subject.DEVICE),
    IBV_EVENT_PORT_ACTIVE(false, Subject.PORT),
    IBV_EVENT_PORT_ERR(true, Subject.PORT),
    IBV_EVENT_LID_CHANGE(false, Subject.PORT),
    IBV_EVENT_PKEY_CHANGE(false, Subject.PORT),
    IBV_EVENT_SM_CHANGE(false, Subject.PORT),
    IBV_EVENT_SRQ_ERR(true, Subject.DEVICE),
    IBV_EVENT_SRQ_LIMIT_REACHED(false, Subject.DEVICE),
    IBV_EVENT_QP_LAST_WQE_REACHED(false, Subject.QUEUE_PAIR),
    IBV_EVENT_CLIENT_REREGISTER(false, Subject.PORT),
    IBV_EVENT_GID_CHANGE(false, Subject.PORT),
    IBV_EVENT_WQ_FATAL(true, Subject.DEVICE);

    /** The meaning of an event's number. The device itself, and queues without a number, have none. */
    private enum Subject {
        DEVICE(""),
        PORT(", port "),
        QUEUE_PAIR(", queue pair ");

        private final String text;

        Subject(String text) {
            this.text = text;
        }
    }

    private final boolean isError;
    private final Subject subject;

    DeviceEvent(boolean isError, Subject subject) {
        this.isError = isError;
        this.subject = subject;
    }

    /** Logs an event of the native library: its type, and the number of its port or queue pair. */
    static void log(Logger log, String device, int type, int number) {
        DeviceEvent[] all = values();
        if (type >= all.length) {
            log.warn("RDMA device {}: event {}, {}", device, type, number);
            return;
        }
        DeviceEvent event = all[type];
        String subject = event.subject == Subject.DEVICE ? "" : event.subject.text + number;
        if (event.isError) {
            log.warn("RDMA device {}: {}{}", device, event, subject);
        } else {
            log.info("RDMA device {}: {}{}", device, event, subject);
        }
    }
}
