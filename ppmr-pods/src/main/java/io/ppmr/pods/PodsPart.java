package io.ppmr.pods;

import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The part of the services for pods: makes them, answers their users' requests, and moves them. */
public final class PodsPart implements ServicePart {
    @Override
    public String name() {
        return "pods";
    }

    @Override
    public List<Class<? extends Record>> sections(Side side) {
        return PodConfig.SECTIONS;
    }

    @Override
    public Configured read(ConfigFile file, Side side, Tools tools) {
        return new GrantedPods(PodConfig.read(file), side, tools);
    }

    @Override
    public List<Object> commands() {
        return List.of(new PodCommand());
    }

    /** The pods that a file grants to users. */
    record GrantedPods(PodConfig config, Side side, Tools tools) implements Configured {
        @Override
        public boolean isForUsers() {
            return !config.templates().isEmpty();
        }

        @Override
        public Map<String, List<String>> rootsCommands() {
            return isForUsers()
                    ? Map.of("pod_runtime.program", config.settings().program())
                    : Map.of();
        }

        @Override
        public List<Finding> findings(PeerAuthenticator key) {
            return isForUsers()
                    ? new PodCheck(config.templates().values(), config.settings(), key).findings()
                    : List.of();
        }

        @Override
        public Running open(Node node) {
            Pods pods =
                    new Pods(config.templates(), config.settings(), node.programs(), node.environment(), node.key());
            return new Kept(pods, side, tools);
        }
    }

    /** The pods of a service. */
    private record Kept(Pods pods, Side side, Tools tools) implements Running {
        @Override
        public void prepare() throws IOException {
            pods.prepare();
        }

        @Override
        public Map<String, ControlRequest<?>> requests() {
            return pods.offered() ? new PodRequests(pods).requests() : Map.of();
        }

        @Override
        public Optional<JobSource> jobs() {
            return pods.offered() && side == Side.SOURCE
                    ? Optional.of(new PodJobs(pods, tools.byName()))
                    : Optional.empty();
        }

        @Override
        public Optional<MemberJobs> members() {
            return pods.offered() ? Optional.of(new PodMembers(pods)) : Optional.empty();
        }

        @Override
        public Optional<RankSurroundings> surroundings() {
            return Optional.of(pods.keeper());
        }
    }
}
