package io.ppmr.fuse;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

/**
 * Runs a {@link MountDriver} in a separate JVM, because the JVM that serves a mount must hold no file of it. Calls use
 * loopback connections, one for each concurrent call, so that a blocked call does not block others. Close ends the
 * process.
 */
final class ClientProcess implements AutoCloseable {
    private record Request(String method, List<Class<?>> types, List<Object> arguments) implements Serializable {}

    private record Reply(Object value, Throwable failure) implements Serializable {}

    private static final class Connection {
        final ObjectOutputStream out;
        final ObjectInputStream in;

        Connection(Socket socket) throws IOException {
            socket.setTcpNoDelay(true);
            out = new ObjectOutputStream(new BufferedOutputStream(socket.getOutputStream()));
            out.flush();
            in = new ObjectInputStream(socket.getInputStream());
        }
    }

    private final Process process;
    private final ServerSocket server;
    private final ConcurrentLinkedQueue<Connection> idle = new ConcurrentLinkedQueue<>();
    private final List<Socket> sockets = new ArrayList<>();

    ClientProcess(Path root) throws IOException {
        server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
        server.setSoTimeout((int) TimeUnit.SECONDS.toMillis(30L * Integer.getInteger("ppmr.patience", 1)));
        process = JavaProcess.start(ClientProcess.class, root.toString(), Integer.toString(server.getLocalPort()));
    }

    FilesystemDriver driver() {
        return (FilesystemDriver) Proxy.newProxyInstance(
                FilesystemDriver.class.getClassLoader(), new Class<?>[] {FilesystemDriver.class}, this::invoke);
    }

    private Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        Connection connection = idle.poll();
        if (connection == null) {
            connection = connect();
        }
        connection.out.writeObject(new Request(
                method.getName(),
                List.of(method.getParameterTypes()),
                arguments == null ? List.of() : List.of(arguments)));
        connection.out.reset();
        connection.out.flush();
        Reply reply = (Reply) connection.in.readObject();
        idle.add(connection);
        if (reply.failure != null) {
            throw reply.failure;
        }
        return reply.value;
    }

    /** The client always keeps one more connection waiting than are in use. */
    private Connection connect() throws IOException {
        Socket socket = server.accept();
        synchronized (sockets) {
            sockets.add(socket);
        }
        return new Connection(socket);
    }

    @Override
    public void close() throws IOException {
        process.destroyForcibly();
        server.close();
        synchronized (sockets) {
            for (Socket socket : sockets) {
                socket.close();
            }
        }
    }

    /** Runs in the child: root directory, port. */
    public static void main(String[] arguments) throws IOException {
        MountDriver driver = new MountDriver(Path.of(new File(arguments[0]).getAbsolutePath()));
        connectAndServe(driver, Integer.parseInt(arguments[1]));
    }

    private static void connectAndServe(MountDriver driver, int port) throws IOException {
        // Runs until its parent kills it or the parent's sockets close.
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        Connection connection = new Connection(socket);
        boolean first = true;
        while (true) {
            Request request;
            try {
                request = (Request) connection.in.readObject();
            } catch (IOException | ClassNotFoundException e) {
                Runtime.getRuntime().halt(0);
                return;
            }
            if (first) {
                first = false;
                Thread next = new Thread(() -> serveNext(driver, port), "client connection");
                next.setDaemon(false);
                next.start();
            }
            connection.out.writeObject(answer(driver, request));
            connection.out.reset();
            connection.out.flush();
        }
    }

    private static void serveNext(MountDriver driver, int port) {
        try {
            connectAndServe(driver, port);
        } catch (IOException e) {
            System.err.println("client process: " + e);
            Runtime.getRuntime().halt(1);
        }
    }

    private static Reply answer(MountDriver driver, Request request) {
        try {
            Method method = FilesystemDriver.class.getMethod(request.method, request.types.toArray(new Class<?>[0]));
            return new Reply(method.invoke(driver, request.arguments.toArray()), null);
        } catch (InvocationTargetException e) {
            return new Reply(null, e.getCause());
        } catch (ReflectiveOperationException e) {
            return new Reply(null, e);
        }
    }
}
