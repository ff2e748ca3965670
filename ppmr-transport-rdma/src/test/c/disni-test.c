/*
 * Tests the native half of DiSNI without a device. It is linked with replacements of the two libraries, which record
 * their calls. The tests call it like the Java half, with memory laid out byte by byte. AddressSanitizer detects each
 * access outside of the Java half's memory.
 */
#include <errno.h>
#include <jni.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define NATIVE(result, name) result Java_com_ibm_disni_verbs_impl_NativeDispatcher__1##name
#define REQUIRE(condition)                                                                        \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

NATIVE(jlong, createEventChannel)(JNIEnv *, jobject);
NATIVE(jlong, createId)(JNIEnv *, jobject, jlong, jshort);
NATIVE(jlong, createQP)(JNIEnv *, jobject, jlong, jlong, jlong, jlong, jint, jint, jint, jint);
NATIVE(jint, getCmEvent)(JNIEnv *, jobject, jlong, jlong, jlong, jint);
NATIVE(void, connect)(JNIEnv *, jobject, jlong, jint, jint, jlong, jbyte);
NATIVE(void, accept)(JNIEnv *, jobject, jlong, jint, jint);
NATIVE(jint, disconnect)(JNIEnv *, jobject, jlong);
NATIVE(jint, destroyEventChannel)(JNIEnv *, jobject, jlong);
NATIVE(jint, getSrcAddr)(JNIEnv *, jobject, jlong, jlong);
NATIVE(jint, modifyQP)(JNIEnv *, jobject, jlong, jlong);
NATIVE(jlong, regMr)(JNIEnv *, jobject, jlong, jlong, jint, jint, jlong, jlong, jlong);
NATIVE(void, postSend)(JNIEnv *, jobject, jlong, jlong);
NATIVE(jint, pollCQ)(JNIEnv *, jobject, jlong, jint, jlong);
NATIVE(jint, getCqEvent)(JNIEnv *, jobject, jlong, jint);
NATIVE(jint, getSockAddrInSize)(JNIEnv *, jobject);
NATIVE(jint, getIbvSendWRSize)(JNIEnv *, jobject);
NATIVE(jint, getIbvWCSize)(JNIEnv *, jobject);
NATIVE(jint, getVersion)(JNIEnv *, jobject);
jint Java_io_ppmr_transport_rdma_Device_maxReadsUnderWay(JNIEnv *, jclass, jlong);
jlong Java_io_ppmr_transport_rdma_Device_nextEvent(JNIEnv *, jclass, jlong);

static jlong at(const void *memory) { return (jlong)(intptr_t)memory; }

/* ---- a Java VM with three functions ------------------------------------------------------------------------------- */

static char thrown[256];
static int class_object;

static jclass JNICALL find_class(JNIEnv *env, const char *name) {
    (void)env;
    REQUIRE(strcmp(name, "java/io/IOException") == 0);
    return (jclass)(void *)&class_object;
}

static jint JNICALL throw_new(JNIEnv *env, jclass type, const char *text) {
    (void)env;
    REQUIRE((void *)type == (void *)&class_object);
    snprintf(thrown, sizeof thrown, "%s", text);
    return 0;
}

static struct JNINativeInterface_ functions = {.FindClass = find_class, .ThrowNew = throw_new};
static JNIEnv machine = &functions;
static JNIEnv *const env = &machine;

static void require_thrown(const char *text) {
    if (strcmp(thrown, text) != 0) {
        fprintf(stderr, "thrown: '%s', not '%s'\n", thrown, text);
        exit(1);
    }
    thrown[0] = 0;
}

/* ---- replacements of the libraries -------------------------------------------------------------------------------- */

static int failure; /* errno of the next call that may fail; 0 for none */
static struct rdma_cm_event next_event;
static int acknowledged;
static struct rdma_conn_param last_connection;
static struct ibv_qp_init_attr last_queue_pair;
static struct ibv_qp queue_pair;
static struct ibv_mr region = {.lkey = 0x11111111, .rkey = 0x22222222, .handle = 0x33333333};
static size_t last_length;
static struct ibv_send_wr posted[64];
static int posted_count;
static int posted_calls;

static int fails(void) {
    errno = failure;
    int result = failure == 0 ? 0 : -1;
    failure = 0;
    return result;
}

struct rdma_event_channel *rdma_create_event_channel(void) {
    static struct rdma_event_channel channel;
    int ends[2];
    if (fails() != 0) {
        return NULL;
    }
    REQUIRE(pipe(ends) == 0);
    channel.fd = ends[0];
    REQUIRE(write(ends[1], "e", 1) == 1);
    close(ends[1]);
    return &channel;
}
void rdma_destroy_event_channel(struct rdma_event_channel *channel) { close(channel->fd); }
int rdma_create_id(struct rdma_event_channel *c, struct rdma_cm_id **id, void *context, enum rdma_port_space ps) {
    (void)c;
    REQUIRE(context == NULL && ps == RDMA_PS_TCP);
    static struct rdma_cm_id made;
    *id = fails() == 0 ? &made : NULL;
    return *id == NULL ? -1 : 0;
}
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    (void)pd;
    last_queue_pair = *attributes;
    id->qp = &queue_pair;
    return fails();
}
void rdma_destroy_qp(struct rdma_cm_id *id) { id->qp = NULL; }
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *a) { (void)id, (void)a; return fails(); }
int rdma_listen(struct rdma_cm_id *id, int backlog) { (void)id, (void)backlog; return fails(); }
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *s, struct sockaddr *d, int t) {
    (void)id, (void)s, (void)d, (void)t;
    return fails();
}
int rdma_resolve_route(struct rdma_cm_id *id, int t) { (void)id, (void)t; return fails(); }
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event) {
    (void)channel;
    *event = &next_event;
    return fails();
}
int rdma_ack_cm_event(struct rdma_cm_event *event) {
    REQUIRE(event == &next_event);
    acknowledged++;
    return 0;
}
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p) { (void)id; last_connection = *p; return fails(); }
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p) { (void)id; last_connection = *p; return fails(); }
int rdma_disconnect(struct rdma_cm_id *id) { (void)id; return fails(); }
int rdma_destroy_id(struct rdma_cm_id *id) { (void)id; return fails(); }
void rdma_destroy_ep(struct rdma_cm_id *id) { (void)id; }
struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) { (void)c; return NULL; }
int ibv_dealloc_pd(struct ibv_pd *pd) { (void)pd; return fails(); }
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c) { (void)c; return NULL; }
int ibv_destroy_comp_channel(struct ibv_comp_channel *c) { (void)c; return fails(); }
struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *x, struct ibv_comp_channel *h, int v) {
    (void)c, (void)n, (void)x, (void)h, (void)v;
    return NULL;
}
int ibv_destroy_cq(struct ibv_cq *cq) { (void)cq; return fails(); }
int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **cq, void **x) { (void)c, (void)cq, (void)x; return fails(); }
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n) { (void)cq, (void)n; }
struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *address, size_t length, int access) {
    (void)pd, (void)address, (void)access;
    last_length = length;
    return fails() == 0 ? &region : NULL;
}
int ibv_dereg_mr(struct ibv_mr *mr) { (void)mr; return fails(); }
int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a) { (void)c, (void)a; return fails(); }
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *i) {
    (void)i;
    REQUIRE(qp == &queue_pair && mask == IBV_QP_MAX_QP_RD_ATOMIC);
    a->max_rd_atomic = 128;
    return fails();
}
static struct ibv_async_event next_async;
static int async_acknowledged;
int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event) {
    char byte;
    if (read(c->async_fd, &byte, 1) != 1) {
        return -1; /* waits where the descriptor does */
    }
    *event = next_async;
    return 0;
}
void ibv_ack_async_event(struct ibv_async_event *event) {
    REQUIRE(event->event_type == next_async.event_type);
    async_acknowledged++;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *requests, struct ibv_send_wr **bad) {
    REQUIRE(qp == &queue_pair);
    posted_calls++;
    for (; requests != NULL; requests = requests->next) {
        posted[posted_count++] = *requests;
    }
    *bad = NULL;
    int result = failure;
    failure = 0;
    return result;
}

static int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *completions) {
    (void)cq;
    for (int i = 0; i < entries; i++) {
        memset(&completions[i], 0, sizeof completions[i]);
        completions[i].wr_id = 0x1122334455667788ULL + (unsigned)i;
        completions[i].status = IBV_WC_RETRY_EXC_ERR;
    }
    return fails() == 0 ? entries : -1;
}

static struct ibv_context context = {.ops = {.post_send = post_send, .poll_cq = poll_cq}};

/* ---- tests -------------------------------------------------------------------------------------------------------- */

static void put64(char *to, int offset, uint64_t value) { memcpy(to + offset, &value, sizeof value); }
static void put32(char *to, int offset, uint32_t value) { memcpy(to + offset, &value, sizeof value); }

/* Requests in the layout of NatPostSendCall: 72 bytes each, followed by their elements, in memory of exactly that size. */
static void posts_every_request_of_a_chain(void) {
    enum { REQUESTS = 20, REQUEST_BYTES = 72, SGE_BYTES = 16 };
    char *memory = malloc(REQUESTS * (REQUEST_BYTES + SGE_BYTES));
    REQUIRE(memory != NULL);
    memset(memory, 0, REQUESTS * (REQUEST_BYTES + SGE_BYTES));
    for (int i = 0; i < REQUESTS; i++) {
        char *request = memory + i * REQUEST_BYTES;
        char *element = memory + REQUESTS * REQUEST_BYTES + i * SGE_BYTES;
        put64(request, 0, 1000U + (unsigned)i);
        put64(request, 8, i + 1 < REQUESTS ? (uint64_t)(uintptr_t)(request + REQUEST_BYTES) : 0);
        put64(request, 16, (uint64_t)(uintptr_t)element);
        put32(request, 24, 1);
        put32(request, 28, IBV_WR_RDMA_READ);
        put32(request, 32, IBV_SEND_SIGNALED);
        put64(request, 40, 0x7000000000ULL + (unsigned)i);
        put32(request, 48, 0xABCD0000U + (unsigned)i);
        put64(element, 0, 0x1000U);
        put32(element, 8, 4096);
        put32(element, 12, 77);
    }
    posted_count = 0;
    posted_calls = 0;
    queue_pair.context = &context;
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1postSend(env, NULL, at(&queue_pair), at(memory));
    require_thrown("");
    REQUIRE(posted_count == REQUESTS && posted_calls == 2);
    for (int i = 0; i < REQUESTS; i++) {
        REQUIRE(posted[i].wr_id == 1000U + (unsigned)i);
        REQUIRE(posted[i].opcode == IBV_WR_RDMA_READ && posted[i].send_flags == IBV_SEND_SIGNALED);
        REQUIRE(posted[i].num_sge == 1 && posted[i].sg_list->length == 4096 && posted[i].sg_list->lkey == 77);
        REQUIRE(posted[i].wr.rdma.remote_addr == 0x7000000000ULL + (unsigned)i);
        REQUIRE(posted[i].wr.rdma.rkey == 0xABCD0000U + (unsigned)i);
    }
    failure = ENOMEM;
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1postSend(env, NULL, at(&queue_pair), at(memory));
    require_thrown("ibv_post_send: Cannot allocate memory");
    free(memory);
}

static void polls_completions_into_the_given_bytes(void) {
    struct ibv_cq queue = {.context = &context};
    char *memory = malloc(3 * 48);
    REQUIRE(memory != NULL);
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1pollCQ(env, NULL, at(&queue), 3, at(memory)) == 3);
    uint64_t id;
    uint32_t status;
    memcpy(&id, memory + 2 * 48, sizeof id);
    memcpy(&status, memory + 2 * 48 + 8, sizeof status);
    REQUIRE(id == 0x112233445566778AULL && status == IBV_WC_RETRY_EXC_ERR);
    failure = EIO;
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1pollCQ(env, NULL, at(&queue), 3, at(memory)) < 0);
    require_thrown("ibv_poll_cq: Input/output error");
    free(memory);
}

static void gives_events_and_acknowledges_each(void) {
    struct rdma_cm_id listener;
    struct rdma_cm_id connection;
    jlong channel = Java_com_ibm_disni_verbs_impl_NativeDispatcher__1createEventChannel(env, NULL);
    REQUIRE(channel != 0);
    uint64_t ids[2] = {0, 0};
    next_event = (struct rdma_cm_event){
        .listen_id = &listener, .id = &connection, .event = RDMA_CM_EVENT_CONNECT_REQUEST};
    REQUIRE(
        Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getCmEvent(env, NULL, channel, at(&ids[0]), at(&ids[1]), 0) ==
        RDMA_CM_EVENT_CONNECT_REQUEST);
    REQUIRE(ids[0] == (uint64_t)(uintptr_t)&listener && ids[1] == (uint64_t)(uintptr_t)&connection);
    REQUIRE(acknowledged == 1);
    failure = EAGAIN; /* the library dropped the event that the kernel had */
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getCmEvent(
                env, NULL, channel, at(&ids[0]), at(&ids[1]), 0) == -1);
    REQUIRE(acknowledged == 1);
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1destroyEventChannel(env, NULL, channel);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    struct rdma_event_channel quiet = {.fd = ends[0]};
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getCmEvent(
                env, NULL, at(&quiet), at(&ids[0]), at(&ids[1]), 1) == -1);
    struct ibv_comp_channel idle = {.fd = ends[0]};
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getCqEvent(env, NULL, at(&idle), 1) == -1);
    require_thrown("");
    REQUIRE(write(ends[1], "e", 1) == 1);
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getCqEvent(env, NULL, at(&idle), 1) == 0);
    close(ends[0]);
    close(ends[1]);
    failure = EMFILE;
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1createEventChannel(env, NULL) == 0);
    require_thrown("rdma_create_event_channel: Too many open files");
}

static void connects_with_the_depth_of_the_device(void) {
    struct rdma_cm_id id;
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1connect(env, NULL, at(&id), 3, 7, 0, 0);
    REQUIRE(last_connection.initiator_depth == RDMA_MAX_INIT_DEPTH);
    REQUIRE(last_connection.responder_resources == RDMA_MAX_RESP_RES);
    REQUIRE(last_connection.retry_count == 3 && last_connection.rnr_retry_count == 7);
    REQUIRE(last_connection.private_data == NULL && last_connection.private_data_len == 0);
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1connect(env, NULL, at(&id), 3, 7, at("hello"), 5);
    REQUIRE(last_connection.private_data_len == 5 && memcmp(last_connection.private_data, "hello", 5) == 0);
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1accept(env, NULL, at(&id), 2, 1);
    REQUIRE(last_connection.initiator_depth == RDMA_MAX_INIT_DEPTH && last_connection.retry_count == 2);
    failure = ECONNREFUSED;
    Java_com_ibm_disni_verbs_impl_NativeDispatcher__1accept(env, NULL, at(&id), 2, 1);
    require_thrown("rdma_accept: Connection refused");
    failure = EINVAL;
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1disconnect(env, NULL, at(&id)) == -1);
    require_thrown("");
    queue_pair.context = &context;
    REQUIRE(Java_io_ppmr_transport_rdma_Device_maxReadsUnderWay(env, NULL, at(&queue_pair)) == 128);
}

static void gives_events_of_the_device_and_never_waits(void) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    struct ibv_context device = {.async_fd = ends[0]};
    REQUIRE(Java_io_ppmr_transport_rdma_Device_nextEvent(env, NULL, at(&device)) == -1);
    queue_pair.qp_num = 0x00ABCDEF;
    next_async = (struct ibv_async_event){.element.qp = &queue_pair, .event_type = IBV_EVENT_QP_ACCESS_ERR};
    REQUIRE(write(ends[1], "e", 1) == 1);
    REQUIRE(
        Java_io_ppmr_transport_rdma_Device_nextEvent(env, NULL, at(&device)) ==
        (0x00ABCDEFLL << 32 | IBV_EVENT_QP_ACCESS_ERR));
    next_async = (struct ibv_async_event){.element.port_num = 2, .event_type = IBV_EVENT_PORT_ERR};
    REQUIRE(write(ends[1], "e", 1) == 1);
    REQUIRE(
        Java_io_ppmr_transport_rdma_Device_nextEvent(env, NULL, at(&device)) == (2LL << 32 | IBV_EVENT_PORT_ERR));
    next_async = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
    REQUIRE(write(ends[1], "e", 1) == 1);
    REQUIRE(Java_io_ppmr_transport_rdma_Device_nextEvent(env, NULL, at(&device)) == IBV_EVENT_DEVICE_FATAL);
    REQUIRE(async_acknowledged == 3);
    char byte;
    REQUIRE(read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
    REQUIRE(Java_io_ppmr_transport_rdma_Device_nextEvent(env, NULL, at(&device)) == -1);
    require_thrown("");
    close(ends[0]);
    close(ends[1]);
}

static void registers_memory_and_gives_both_keys(void) {
    char keys[12];
    REQUIRE(
        Java_com_ibm_disni_verbs_impl_NativeDispatcher__1regMr(
            env, NULL, 0, 0, INT32_MAX, IBV_ACCESS_REMOTE_READ, at(keys), at(keys + 4), at(keys + 8)) == at(&region));
    REQUIRE(last_length == INT32_MAX);
    REQUIRE(memcmp(keys, &region.lkey, 4) == 0 && memcmp(keys + 4, &region.rkey, 4) == 0);
    REQUIRE(memcmp(keys + 8, &region.handle, 4) == 0);
    failure = ENOMEM;
    REQUIRE(
        Java_com_ibm_disni_verbs_impl_NativeDispatcher__1regMr(
            env, NULL, 0, 0, 1, 0, at(keys), at(keys + 4), at(keys + 8)) == 0);
    require_thrown("ibv_reg_mr: Cannot allocate memory");
}

static void makes_ids_and_queue_pairs(void) {
    jlong id = Java_com_ibm_disni_verbs_impl_NativeDispatcher__1createId(env, NULL, 0, RDMA_PS_TCP);
    REQUIRE(id != 0);
    REQUIRE(
        Java_com_ibm_disni_verbs_impl_NativeDispatcher__1createQP(env, NULL, id, 0, 0, 0, IBV_QPT_RC, 256, 1, 0) ==
        at(&queue_pair));
    REQUIRE(last_queue_pair.qp_type == IBV_QPT_RC && last_queue_pair.cap.max_send_wr == 256);
    failure = ENODEV;
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1createId(env, NULL, 0, RDMA_PS_TCP) == 0);
    require_thrown("rdma_create_id: No such device");
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1modifyQP(env, NULL, 0, 0) < 0);
    require_thrown("ibv_modify_qp: Operation not supported");
}

static void copies_addresses_of_the_one_family_alone(void) {
    struct rdma_cm_id id;
    memset(&id, 0, sizeof id);
    char out[28];
    id.route.addr.src_sin.sin_family = AF_INET;
    id.route.addr.src_sin.sin_port = htons(4711);
    id.route.addr.src_sin.sin_addr.s_addr = htonl(0x0A4D0001);
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getSrcAddr(env, NULL, at(&id), at(out)) == 0);
    REQUIRE(memcmp(out, &id.route.addr.src_sin, sizeof(struct sockaddr_in)) == 0);
    id.route.addr.src_addr.sa_family = AF_INET6;
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getSrcAddr(env, NULL, at(&id), at(out)) == -1);
}

static void says_what_the_java_half_asks(void) {
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getVersion(env, NULL) == 32);
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getSockAddrInSize(env, NULL) == 28);
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getIbvSendWRSize(env, NULL) == 72);
    REQUIRE(Java_com_ibm_disni_verbs_impl_NativeDispatcher__1getIbvWCSize(env, NULL) == 48);
}

int main(void) {
    posts_every_request_of_a_chain();
    polls_completions_into_the_given_bytes();
    gives_events_and_acknowledges_each();
    connects_with_the_depth_of_the_device();
    gives_events_of_the_device_and_never_waits();
    registers_memory_and_gives_both_keys();
    makes_ids_and_queue_pairs();
    copies_addresses_of_the_one_family_alone();
    says_what_the_java_half_asks();
    return 0;
}
