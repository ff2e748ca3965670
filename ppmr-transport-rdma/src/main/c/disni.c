/*
 * The native half of DiSNI 2.1: the methods that its class NativeDispatcher declares, based on libibverbs and librdmacm.
 * The manual pages of those libraries describe each call (ibv_post_send(3), rdma_get_cm_event(3) and so on).
 *
 * An object of the Java half is the address of the object of the C library. This file keeps no state, so it needs no
 * lock: any thread may call the two libraries. The caller ensures that no object is used after its destruction. A
 * failure throws IOException with the call's name and errno if the declaration has "throws". Otherwise it returns a
 * negative number.
 *
 * The last two methods belong to ppmr and not to DiSNI.
 */
#include <errno.h>
#include <fcntl.h>
#include <jni.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define DISPATCHER(result, name) JNIEXPORT result JNICALL Java_com_ibm_disni_verbs_impl_NativeDispatcher__1##name
#define UNUSED __attribute__((unused))

enum {
    VERSION = 32,              /* required by DiSNI 2.1 */
    SOCKADDR_BYTES = 28,       /* of SockAddrIn: room for either family, as the Java half has it */
    JAVA_SEND_WR_BYTES = 72,   /* of NatIbvSendWR: a struct ibv_send_wr without what came later */
    MAX_SGE = 4,
    SEND_BATCH = 16
};

/* The Java half writes and reads these structures byte by byte. */
_Static_assert(offsetof(struct ibv_send_wr, sg_list) == 16, "as in NatIbvSendWR");
_Static_assert(offsetof(struct ibv_send_wr, opcode) == 28, "as in NatIbvSendWR");
_Static_assert(offsetof(struct ibv_send_wr, wr.rdma.remote_addr) == 40, "as in NatIbvSendWR");
_Static_assert(offsetof(struct ibv_send_wr, wr.rdma.rkey) == 48, "as in NatIbvSendWR");
_Static_assert(sizeof(struct ibv_send_wr) >= JAVA_SEND_WR_BYTES, "as in NatIbvSendWR");
_Static_assert(sizeof(struct ibv_recv_wr) == 32, "as in NatIbvRecvWR");
_Static_assert(sizeof(struct ibv_sge) == 16, "as in NatIbvSge");
_Static_assert(sizeof(struct ibv_wc) == 48, "as in IbvWC");
_Static_assert(offsetof(struct ibv_wc, vendor_err) == 16 && offsetof(struct ibv_wc, qp_num) == 28, "as in NatPollCqCall");
_Static_assert(offsetof(struct ibv_wc, byte_len) == 20 && offsetof(struct ibv_wc, imm_data) == 24, "as in NatPollCqCall");
_Static_assert(offsetof(struct ibv_send_wr, imm_data) == 36, "as in NatIbvSendWR");
_Static_assert(IBV_WC_RECV == 128 && IBV_WC_RECV_RDMA_WITH_IMM == 129, "as in Completions");
_Static_assert(IBV_EVENT_CQ_ERR == 0 && IBV_EVENT_PORT_ERR == 10 && IBV_EVENT_WQ_FATAL == 19, "as in DeviceEvent");
_Static_assert(sizeof(struct sockaddr_in6) == SOCKADDR_BYTES, "as in SockAddrIn");

static void *pointer(jlong object) { return (void *)(intptr_t)object; }

static jlong object(const void *pointer) { return (jlong)(intptr_t)pointer; }

static void throw_io(JNIEnv *env, const char *call, int error) {
    char text[160];
    jclass io = (*env)->FindClass(env, "java/io/IOException");
    if (io != NULL) {
        snprintf(text, sizeof text, "%s: %s", call, strerror(error));
        (*env)->ThrowNew(env, io, text);
    }
}

/* For the calls of librdmacm: 0, or -1 and errno. */
static void check_cm(JNIEnv *env, const char *call, int result) {
    if (result != 0) {
        throw_io(env, call, errno);
    }
}

/* For the calls of libibverbs: 0, or the error itself (some older ones: -1 and errno). */
static int error_of(int result) { return result < 0 ? errno : result; }

static jlong created(JNIEnv *env, const char *call, const void *made) {
    if (made == NULL) {
        throw_io(env, call, errno);
    }
    return object(made);
}

/* Returns -1 for a failure: the Java half checks for negative numbers. */
static jint status(int result) { return result == 0 ? 0 : -1; }

/* ---- connection manager ------------------------------------------------------------------------------------------- */

DISPATCHER(jlong, createEventChannel)(JNIEnv *env, jobject self UNUSED) {
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (channel != NULL) {
        /* rdma_get_cm_event(3) may discard the polled event, and would then block forever. */
        int flags = fcntl(channel->fd, F_GETFL);
        if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
            int error = errno;
            rdma_destroy_event_channel(channel);
            throw_io(env, "fcntl", error);
            return 0;
        }
    }
    return created(env, "rdma_create_event_channel", channel);
}

DISPATCHER(jlong, createId)(JNIEnv *env, jobject self UNUSED, jlong channel, jshort port_space) {
    struct rdma_cm_id *id = NULL;
    check_cm(env, "rdma_create_id", rdma_create_id(pointer(channel), &id, NULL, (enum rdma_port_space)port_space));
    return object(id);
}

DISPATCHER(jlong, createQP)
(JNIEnv *env, jobject self UNUSED, jlong id, jlong pd, jlong send_cq, jlong recv_cq, jint type, jint max_send, jint max_recv,
 jint max_inline) {
    struct rdma_cm_id *cm_id = pointer(id);
    struct ibv_qp_init_attr attributes = {
        .send_cq = pointer(send_cq),
        .recv_cq = pointer(recv_cq),
        .qp_type = (enum ibv_qp_type)type,
        .cap = {.max_send_wr = (uint32_t)max_send,
                .max_recv_wr = (uint32_t)max_recv,
                .max_send_sge = MAX_SGE,
                .max_recv_sge = MAX_SGE,
                .max_inline_data = (uint32_t)max_inline},
    };
    if (rdma_create_qp(cm_id, pointer(pd), &attributes) != 0) {
        throw_io(env, "rdma_create_qp", errno);
        return 0;
    }
    return object(cm_id->qp);
}

DISPATCHER(void, bindAddr)(JNIEnv *env, jobject self UNUSED, jlong id, jlong address) {
    check_cm(env, "rdma_bind_addr", rdma_bind_addr(pointer(id), pointer(address)));
}

DISPATCHER(void, listen)(JNIEnv *env, jobject self UNUSED, jlong id, jint backlog) {
    check_cm(env, "rdma_listen", rdma_listen(pointer(id), backlog));
}

DISPATCHER(void, resolveAddr)
(JNIEnv *env, jobject self UNUSED, jlong id, jlong source, jlong destination, jint timeout_ms) {
    check_cm(
        env, "rdma_resolve_addr", rdma_resolve_addr(pointer(id), pointer(source), pointer(destination), timeout_ms));
}

DISPATCHER(void, resolveRoute)(JNIEnv *env, jobject self UNUSED, jlong id, jint timeout_ms) {
    check_cm(env, "rdma_resolve_route", rdma_resolve_route(pointer(id), timeout_ms));
}

/* Returns the kind of the next event, its listener and its connection, or -1 after the time-out. Acknowledges it. */
DISPATCHER(jint, getCmEvent)
(JNIEnv *env UNUSED, jobject self UNUSED, jlong channel, jlong listener, jlong connection, jint timeout_ms) {
    struct rdma_event_channel *events = pointer(channel);
    struct pollfd waiting = {.fd = events->fd, .events = POLLIN};
    struct rdma_cm_event *event = NULL;
    if (poll(&waiting, 1, timeout_ms) <= 0 || rdma_get_cm_event(events, &event) != 0) {
        return -1;
    }
    jint kind = (jint)event->event;
    uint64_t ids[2] = {(uint64_t)(uintptr_t)event->listen_id, (uint64_t)(uintptr_t)event->id};
    memcpy(pointer(listener), &ids[0], sizeof ids[0]);
    memcpy(pointer(connection), &ids[1], sizeof ids[1]);
    rdma_ack_cm_event(event);
    return kind;
}

/* Initiator depth and responder resources: the device's limit, at most 255, and no more than the peer offers. */
static struct rdma_conn_param connection(jint retries, jint rnr_retries) {
    struct rdma_conn_param parameters = {
        .responder_resources = RDMA_MAX_RESP_RES,
        .initiator_depth = RDMA_MAX_INIT_DEPTH,
        .retry_count = (uint8_t)retries,
        .rnr_retry_count = (uint8_t)rnr_retries,
    };
    return parameters;
}

DISPATCHER(void, connect)
(JNIEnv *env, jobject self UNUSED, jlong id, jint retries, jint rnr_retries, jlong data, jbyte data_bytes) {
    struct rdma_conn_param parameters = connection(retries, rnr_retries);
    parameters.private_data = data_bytes == 0 ? NULL : pointer(data);
    parameters.private_data_len = (uint8_t)data_bytes;
    check_cm(env, "rdma_connect", rdma_connect(pointer(id), &parameters));
}

DISPATCHER(void, accept)(JNIEnv *env, jobject self UNUSED, jlong id, jint retries, jint rnr_retries) {
    struct rdma_conn_param parameters = connection(retries, rnr_retries);
    check_cm(env, "rdma_accept", rdma_accept(pointer(id), &parameters));
}

DISPATCHER(jint, ackCmEvent)(JNIEnv *env UNUSED, jobject self UNUSED, jint kind UNUSED) {
    return 0; /* getCmEvent has done it: the event itself never leaves it */
}

DISPATCHER(jint, disconnect)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id) {
    return status(rdma_disconnect(pointer(id)));
}

DISPATCHER(jint, destroyEventChannel)(JNIEnv *env UNUSED, jobject self UNUSED, jlong channel) {
    rdma_destroy_event_channel(pointer(channel));
    return 0;
}

DISPATCHER(jint, destroyCmId)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id) {
    return status(rdma_destroy_id(pointer(id)));
}

DISPATCHER(jint, destroyQP)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id) {
    rdma_destroy_qp(pointer(id));
    return 0;
}

static jint copy_address(const struct sockaddr *from, jlong to) {
    if (from == NULL || from->sa_family != AF_INET) {
        return -1; /* the Java half supports no other family */
    }
    memcpy(pointer(to), from, sizeof(struct sockaddr_in));
    return 0;
}

DISPATCHER(jint, getSrcAddr)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id, jlong address) {
    return copy_address(rdma_get_local_addr(pointer(id)), address);
}

DISPATCHER(jint, getDstAddr)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id, jlong address) {
    return copy_address(rdma_get_peer_addr(pointer(id)), address);
}

DISPATCHER(jint, destroyEp)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id) {
    rdma_destroy_ep(pointer(id));
    return 0;
}

/* ---- verbs -------------------------------------------------------------------------------------------------------- */

DISPATCHER(jlong, allocPd)(JNIEnv *env, jobject self UNUSED, jlong context) {
    return created(env, "ibv_alloc_pd", ibv_alloc_pd(pointer(context)));
}

DISPATCHER(jlong, createCompChannel)(JNIEnv *env, jobject self UNUSED, jlong context) {
    return created(env, "ibv_create_comp_channel", ibv_create_comp_channel(pointer(context)));
}

DISPATCHER(jlong, createCQ)(JNIEnv *env, jobject self UNUSED, jlong context, jlong channel, jint entries, jint vector) {
    return created(env, "ibv_create_cq", ibv_create_cq(pointer(context), entries, NULL, pointer(channel), vector));
}

/* DiSNI 2.1 passes no attributes, so this method has nothing to set. */
DISPATCHER(jint, modifyQP)(JNIEnv *env, jobject self UNUSED, jlong qp UNUSED, jlong attributes UNUSED) {
    throw_io(env, "ibv_modify_qp", EOPNOTSUPP);
    return -1;
}

DISPATCHER(jlong, regMr)
(JNIEnv *env, jobject self UNUSED, jlong pd, jlong address, jint length, jint access, jlong lkey, jlong rkey, jlong handle) {
    struct ibv_mr *region = (ibv_reg_mr)(pointer(pd), pointer(address), (size_t)(uint32_t)length, access);
    if (region == NULL) {
        throw_io(env, "ibv_reg_mr", errno);
        return 0;
    }
    memcpy(pointer(lkey), &region->lkey, sizeof region->lkey);
    memcpy(pointer(rkey), &region->rkey, sizeof region->rkey);
    memcpy(pointer(handle), &region->handle, sizeof region->handle);
    return object(region);
}

DISPATCHER(jint, queryOdpSupport)(JNIEnv *env UNUSED, jobject self UNUSED, jlong context) {
    struct ibv_device_attr_ex attributes;
    memset(&attributes, 0, sizeof attributes);
    if (ibv_query_device_ex(pointer(context), NULL, &attributes) != 0 ||
        (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) == 0) {
        return -1;
    }
    return (jint)attributes.odp_caps.per_transport_caps.rc_odp_caps;
}

DISPATCHER(jint, expPrefetchMr)(JNIEnv *env, jobject self UNUSED, jlong mr, jlong address, jint length) {
    struct ibv_mr *region = pointer(mr);
    struct ibv_sge range = {.addr = (uint64_t)address, .length = (uint32_t)length, .lkey = region->lkey};
    int result = ibv_advise_mr(region->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1);
    if (result != 0) {
        throw_io(env, "ibv_advise_mr", error_of(result));
    }
    return status(result);
}

DISPATCHER(void, deregMr)(JNIEnv *env, jobject self UNUSED, jlong mr) {
    int result = ibv_dereg_mr(pointer(mr));
    if (result != 0) {
        throw_io(env, "ibv_dereg_mr", error_of(result));
    }
}

/* The Java half's requests are shorter than the library's. Each is extended here, one batch at a time. */
DISPATCHER(void, postSend)(JNIEnv *env, jobject self UNUSED, jlong qp, jlong requests) {
    struct ibv_send_wr batch[SEND_BATCH];
    struct ibv_send_wr *bad = NULL;
    const char *next = pointer(requests);
    while (next != NULL) {
        int count = 0;
        do {
            struct ibv_send_wr *request = &batch[count];
            memset(request, 0, sizeof *request);
            memcpy(request, next, JAVA_SEND_WR_BYTES);
            next = (const char *)request->next;
            request->next = NULL;
            if (count > 0) {
                batch[count - 1].next = request;
            }
            count++;
        } while (next != NULL && count < SEND_BATCH);
        int result = ibv_post_send(pointer(qp), batch, &bad);
        if (result != 0) {
            throw_io(env, "ibv_post_send", error_of(result));
            return;
        }
    }
}

DISPATCHER(void, postRecv)(JNIEnv *env, jobject self UNUSED, jlong qp, jlong requests) {
    struct ibv_recv_wr *bad = NULL;
    int result = ibv_post_recv(pointer(qp), pointer(requests), &bad);
    if (result != 0) {
        throw_io(env, "ibv_post_recv", error_of(result));
    }
}

/* Returns 0 after an event, which the caller must acknowledge (ackCqEvent), and -1 after the time-out. */
DISPATCHER(jint, getCqEvent)(JNIEnv *env, jobject self UNUSED, jlong channel, jint timeout_ms) {
    struct ibv_comp_channel *events = pointer(channel);
    struct pollfd waiting = {.fd = events->fd, .events = POLLIN};
    struct ibv_cq *queue = NULL;
    void *queue_context = NULL;
    int ready = poll(&waiting, 1, timeout_ms);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
        return -1;
    }
    if (ready < 0 || ibv_get_cq_event(events, &queue, &queue_context) != 0) {
        throw_io(env, "ibv_get_cq_event", errno);
        return -1;
    }
    return 0;
}

DISPATCHER(jint, pollCQ)(JNIEnv *env, jobject self UNUSED, jlong cq, jint entries, jlong completions) {
    int count = ibv_poll_cq(pointer(cq), entries, pointer(completions));
    if (count < 0) {
        throw_io(env, "ibv_poll_cq", EIO);
    }
    return count;
}

DISPATCHER(jint, reqNotifyCQ)(JNIEnv *env, jobject self UNUSED, jlong cq, jint solicited_only) {
    int result = ibv_req_notify_cq(pointer(cq), solicited_only);
    if (result != 0) {
        throw_io(env, "ibv_req_notify_cq", error_of(result));
    }
    return status(result);
}

DISPATCHER(jint, ackCqEvent)(JNIEnv *env UNUSED, jobject self UNUSED, jlong cq, jint events) {
    ibv_ack_cq_events(pointer(cq), (unsigned int)events);
    return 0;
}

DISPATCHER(jint, destroyCompChannel)(JNIEnv *env UNUSED, jobject self UNUSED, jlong channel) {
    return status(ibv_destroy_comp_channel(pointer(channel)));
}

DISPATCHER(jint, deallocPd)(JNIEnv *env UNUSED, jobject self UNUSED, jlong pd) {
    return status(ibv_dealloc_pd(pointer(pd)));
}

DISPATCHER(jint, destroyCQ)(JNIEnv *env UNUSED, jobject self UNUSED, jlong cq) {
    return status(ibv_destroy_cq(pointer(cq)));
}

/* ---- fields of objects -------------------------------------------------------------------------------------------- */

DISPATCHER(jlong, getContext)(JNIEnv *env UNUSED, jobject self UNUSED, jlong id) {
    return object(((struct rdma_cm_id *)pointer(id))->verbs);
}

DISPATCHER(jint, getQpNum)(JNIEnv *env UNUSED, jobject self UNUSED, jlong qp) {
    return (jint)((struct ibv_qp *)pointer(qp))->qp_num;
}

DISPATCHER(jint, getContextFd)(JNIEnv *env UNUSED, jobject self UNUSED, jlong context) {
    return ((struct ibv_context *)pointer(context))->cmd_fd;
}

DISPATCHER(jint, getContextNumCompVectors)(JNIEnv *env UNUSED, jobject self UNUSED, jlong context) {
    return ((struct ibv_context *)pointer(context))->num_comp_vectors;
}

DISPATCHER(jint, getPdHandle)(JNIEnv *env UNUSED, jobject self UNUSED, jlong pd) {
    return (jint)((struct ibv_pd *)pointer(pd))->handle;
}

DISPATCHER(jint, getSockAddrInSize)(JNIEnv *env UNUSED, jobject self UNUSED) { return SOCKADDR_BYTES; }

DISPATCHER(jint, getIbvRecvWRSize)(JNIEnv *env UNUSED, jobject self UNUSED) {
    return (jint)sizeof(struct ibv_recv_wr);
}

DISPATCHER(jint, getIbvSendWRSize)(JNIEnv *env UNUSED, jobject self UNUSED) { return JAVA_SEND_WR_BYTES; }

DISPATCHER(jint, getIbvSgeSize)(JNIEnv *env UNUSED, jobject self UNUSED) { return (jint)sizeof(struct ibv_sge); }

DISPATCHER(jint, getIbvWCSize)(JNIEnv *env UNUSED, jobject self UNUSED) { return (jint)sizeof(struct ibv_wc); }

DISPATCHER(jint, getRemoteAddressOffset)(JNIEnv *env UNUSED, jobject self UNUSED) {
    return (jint)offsetof(struct ibv_send_wr, wr.rdma.remote_addr);
}

DISPATCHER(jint, getRKeyOffset)(JNIEnv *env UNUSED, jobject self UNUSED) {
    return (jint)offsetof(struct ibv_send_wr, wr.rdma.rkey);
}

DISPATCHER(jint, getVersion)(JNIEnv *env UNUSED, jobject self UNUSED) { return VERSION; }

/* ---- ppmr's own ---------------------------------------------------------------------------------------------------- */

/* Returns the number of concurrent reads of the queue pair (ibv_query_qp(3)), or -1. */
JNIEXPORT jint JNICALL
Java_io_ppmr_transport_rdma_Device_maxReadsUnderWay(JNIEnv *env UNUSED, jclass type UNUSED, jlong qp) {
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr initial;
    memset(&attributes, 0, sizeof attributes);
    memset(&initial, 0, sizeof initial);
    if (ibv_query_qp(pointer(qp), &attributes, IBV_QP_MAX_QP_RD_ATOMIC, &initial) != 0) {
        return -1;
    }
    return attributes.max_rd_atomic;
}

/*
 * Returns and acknowledges the next asynchronous event of the device (ibv_get_async_event(3)). Its type is in the lower
 * half, the number of its queue pair or port in the upper half. Returns -1 if there is none, and never blocks. All
 * connections of this process share one context, so several threads may call this at once.
 */
JNIEXPORT jlong JNICALL
Java_io_ppmr_transport_rdma_Device_nextEvent(JNIEnv *env UNUSED, jclass type UNUSED, jlong context) {
    struct ibv_context *device = pointer(context);
    struct pollfd waiting = {.fd = device->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    uint32_t about = 0;
    if (poll(&waiting, 1, 0) <= 0) {
        return -1;
    }
    /* Another thread may read the event first, and this read would then block. */
    int flags = fcntl(device->async_fd, F_GETFL);
    if (flags < 0 || fcntl(device->async_fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        ibv_get_async_event(device, &event) != 0) {
        return -1;
    }
    switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        about = event.element.qp->qp_num;
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
        about = (uint32_t)event.element.port_num;
        break;
    default:
        break; /* of the device, or of a queue without a number */
    }
    jlong answer = (jlong)(((uint64_t)about << 32) | (uint32_t)event.event_type);
    ibv_ack_async_event(&event);
    return answer;
}
