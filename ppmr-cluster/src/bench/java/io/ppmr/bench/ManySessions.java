package io.ppmr.bench;

import io.ppmr.cluster.record.ServiceRecord;
import io.ppmr.cluster.zookeeper.ClusterUser;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.sasl.RealmCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import org.apache.jute.BinaryInputArchive;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.proto.ConnectRequest;
import org.apache.zookeeper.proto.ConnectResponse;
import org.apache.zookeeper.proto.CreateRequest;
import org.apache.zookeeper.proto.GetDataRequest;
import org.apache.zookeeper.proto.GetDataResponse;
import org.apache.zookeeper.proto.GetSASLRequest;
import org.apache.zookeeper.proto.ReplyHeader;
import org.apache.zookeeper.proto.RequestHeader;
import org.apache.zookeeper.proto.SetSASLResponse;
import org.apache.zookeeper.proto.SyncRequest;

/**
 * Many sessions with an ensemble, as many services would have them, on one selector. Each authenticates, creates the
 * record of a service, and sends a ping in each third of its time-out. If asked to, it follows a record of a job: it
 * watches it, and reads it after {@code sync} at first and after each notification. It uses ZooKeeper's own types of
 * its wire. One thread runs it.
 */
final class ManySessions implements AutoCloseable {
    private static final int PING_XID = -2;
    private static final int NOTIFICATION_XID = -1;
    private static final int BUFFER_BYTES = 4096;
    private static final int CONNECTING_AT_ONCE = 200;
    private static final long POLL_MS = 20;
    private static final long PINGS_NS = 250_000_000;

    private final List<InetSocketAddress> servers;
    private final ClusterUser user;
    private final ClusterUser controller;
    private final Duration timeout;
    private final Selector selector = Selector.open();
    private final List<Session> sessions = new ArrayList<>();
    private final AtomicInteger created = new AtomicInteger();
    private final Thread thread = new Thread(this::run, "many-sessions");
    private final String role;
    private volatile Optional<Followed> followed = Optional.empty();
    private volatile int mute;
    private volatile boolean closed;
    private volatile Exception failure;

    /** Receives what the sessions read. Called on the thread of the sessions, which it must not block. */
    interface Follower {
        /** A session was notified of a change. */
        void notified(int session);

        /**
         * A session has read the record.
         *
         * @param zxid the number of the ensemble's last transaction
         */
        void read(int session, byte[] record, long zxid);
    }

    private record Followed(String path, Follower follower) {}

    /**
     * Creates sessions with the servers in turn. They begin with {@link #start}.
     *
     * @param role the role of the services: source or target
     */
    ManySessions(
            List<InetSocketAddress> servers,
            ClusterUser user,
            ClusterUser controller,
            String role,
            Duration timeout,
            int count)
            throws IOException {
        this.role = role;
        this.servers = List.copyOf(servers);
        this.user = user;
        this.controller = controller;
        this.timeout = timeout;
        for (int i = 0; i < count; i++) {
            sessions.add(new Session(i));
        }
    }

    void start() {
        thread.setDaemon(true);
        thread.start();
    }

    /** Returns the number of records that exist. Throws if a session failed. */
    int created() throws IOException {
        if (failure != null) {
            throw new IOException("a session failed: " + failure, failure);
        }
        return created.get();
    }

    /** Has all sessions follow a record from now on. */
    void follow(String path, Follower follower) {
        followed = Optional.of(new Followed(path, follower));
        selector.wakeup();
    }

    /** Has the first sessions fall silent: they stay connected, and send nothing. */
    void mute(int count) {
        mute = count;
    }

    private void run() {
        try {
            int begun = 0;
            long lastPingsNs = 0;
            boolean areFollowing = false;
            while (!closed) {
                while (begun < sessions.size() && begun - created.get() < CONNECTING_AT_ONCE) {
                    sessions.get(begun).connect();
                    begun++;
                }
                selector.select(POLL_MS);
                for (SelectionKey key : selector.selectedKeys()) {
                    ((Session) key.attachment()).ready(key);
                }
                selector.selectedKeys().clear();
                if (followed.isPresent() && !areFollowing) {
                    areFollowing = true;
                    for (Session session : sessions) {
                        session.sync();
                    }
                }
                long nowNs = System.nanoTime();
                // Rarely, since this process shares the processors with the controller.
                if (nowNs - lastPingsNs > PINGS_NS) {
                    lastPingsNs = nowNs;
                    for (int i = mute; i < begun; i++) {
                        sessions.get(i).pingIfDue(nowNs);
                    }
                }
            }
        } catch (IOException | RuntimeException e) {
            failure = e;
        }
    }

    /** One session; the thread of all owns it. */
    private final class Session {
        private final int number;
        private final SaslClient sasl;
        private final ByteBuffer in = ByteBuffer.allocate(BUFFER_BYTES);
        private SocketChannel channel;
        private int xid;
        private boolean connected;
        private boolean isThere;
        private int syncXid;
        private int readXid;
        private long lastSentNs;

        private Session(int number) throws IOException {
            this.number = number;
            this.sasl = Sasl.createSaslClient(
                    new String[] {"DIGEST-MD5"}, user.name(), "zookeeper", "zk-sasl-md5", Map.of(), new Answers());
        }

        private void connect() throws IOException {
            channel = SocketChannel.open(servers.get(number % servers.size()));
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_READ, this);
            send(new ConnectRequest(0, 0, Math.toIntExact(timeout.toMillis()), 0, new byte[16], false));
        }

        private void send(Record... records) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            BinaryOutputArchive out = BinaryOutputArchive.getArchive(bytes);
            for (Record record : records) {
                record.serialize(out, "record");
            }
            ByteBuffer frame = ByteBuffer.allocate(Integer.BYTES + bytes.size());
            frame.putInt(bytes.size()).put(bytes.toByteArray()).flip();
            // A few hundred bytes always fit an idle socket's buffer.
            channel.write(frame);
            if (frame.hasRemaining()) {
                throw new IOException("the server reads nothing");
            }
            lastSentNs = System.nanoTime();
        }

        private void pingIfDue(long nowNs) throws IOException {
            if (isThere && nowNs - lastSentNs > timeout.toNanos() / 3) {
                send(new RequestHeader(PING_XID, OpCode.ping));
            }
        }

        private void ready(SelectionKey key) throws IOException {
            int read = channel.read(in);
            if (read < 0) {
                key.cancel();
                channel.close();
                if (number >= mute) {
                    throw new IOException("the server closed session " + number);
                }
                return;
            }
            in.flip();
            while (in.remaining() >= Integer.BYTES && in.remaining() >= Integer.BYTES + in.getInt(in.position())) {
                byte[] frame = new byte[in.getInt()];
                in.get(frame);
                answer(BinaryInputArchive.getArchive(new DataInputStream(new ByteArrayInputStream(frame))));
            }
            in.compact();
        }

        private void answer(BinaryInputArchive reply) throws IOException {
            if (!connected) {
                new ConnectResponse().deserialize(reply, "record");
                connected = true;
                xid++;
                send(new RequestHeader(xid, OpCode.sasl), new GetSASLRequest(new byte[0]));
                return;
            }
            ReplyHeader header = new ReplyHeader();
            header.deserialize(reply, "record");
            if (header.getErr() != 0) {
                throw new IOException("the server answers with error " + header.getErr());
            }
            if (header.getXid() == PING_XID) {
                return;
            }
            if (isThere) {
                follow(header, reply);
                return;
            }
            if (!sasl.isComplete()) {
                SetSASLResponse challenge = new SetSASLResponse();
                challenge.deserialize(reply, "record");
                byte[] token = sasl.evaluateChallenge(challenge.getToken());
                if (!sasl.isComplete()) {
                    xid++;
                    send(new RequestHeader(xid, OpCode.sasl), new GetSASLRequest(token));
                    return;
                }
                xid++;
                send(new RequestHeader(xid, OpCode.create), record());
                return;
            }
            isThere = true;
            created.incrementAndGet();
        }

        private void sync() throws IOException {
            xid++;
            syncXid = xid;
            send(
                    new RequestHeader(xid, OpCode.sync),
                    new SyncRequest(followed.orElseThrow().path()));
        }

        /** Does as a service's session does: it reads after the answer to {@code sync}, and watches what it reads. */
        private void follow(ReplyHeader header, BinaryInputArchive reply) throws IOException {
            Followed what = followed.orElseThrow();
            if (header.getXid() == NOTIFICATION_XID) {
                what.follower().notified(number);
                sync();
            } else if (header.getXid() == syncXid) {
                xid++;
                readXid = xid;
                send(new RequestHeader(xid, OpCode.getData), new GetDataRequest(what.path(), true));
            } else if (header.getXid() == readXid) {
                GetDataResponse read = new GetDataResponse();
                read.deserialize(reply, "record");
                what.follower().read(number, read.getData(), header.getZxid());
            }
        }

        private CreateRequest record() {
            ServiceRecord record = new ServiceRecord(
                    "00000000-0000-0000-0000-000000000000",
                    "127.0.0.1:7",
                    "127.0.0.1:7",
                    "rack-" + number % 100,
                    "0.3.0",
                    1L << 36,
                    1L << 34,
                    2,
                    number % 97,
                    List.of("criu"),
                    "00000000",
                    0);
            return new CreateRequest(
                    "/ppmr/services/node-" + number + "." + role,
                    record.encode(),
                    List.of(
                            new ACL(Perms.READ | Perms.WRITE, new Id("sasl", user.name())),
                            new ACL(Perms.ALL, new Id("sasl", controller.name()))),
                    1);
        }

        private void close() throws IOException {
            if (channel != null) {
                channel.close();
            }
        }
    }

    /** The user's name and password, for DIGEST-MD5. */
    private final class Answers implements CallbackHandler {
        @Override
        public void handle(Callback[] callbacks) {
            for (Callback one : callbacks) {
                if (one instanceof NameCallback name) {
                    name.setName(user.name());
                } else if (one instanceof PasswordCallback password) {
                    password.setPassword(user.password().toCharArray());
                } else if (one instanceof RealmCallback realm) {
                    realm.setText(realm.getDefaultText());
                }
            }
        }
    }

    @Override
    public void close() throws IOException {
        closed = true;
        selector.wakeup();
        try {
            thread.join(Duration.ofSeconds(5).toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        for (Session session : sessions) {
            session.close();
        }
        selector.close();
    }
}
