package io.ppmr.slurm;

import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.daemon.jobs.JobSource;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part of the services for Slurm: jobs that their tasks announce, and the command that starts them. */
public final class SlurmPart implements ServicePart {
    /** The native program that srun starts for each rank. */
    static final String TASK = "ppmr-slurm-task";

    private static final Logger LOG = LoggerFactory.getLogger(SlurmPart.class);
    private static final String ANNOUNCE = "announce";
    private static final String ANNOUNCING = "announcing";

    @Section(name = "announcements", doc = "The jobs that users announce, such as jobs of [Slurm](../admin/slurm.md).")
    private record Keys(
            @Key(
                    doc = "the directory in which users announce their jobs. Default: announcements are off",
                    example = "/run/ppmr/announced")
            Optional<Path> directory) {}

    @Override
    public String name() {
        return "slurm";
    }

    @Override
    public List<Class<? extends Record>> sections(Side side) {
        return side == Side.SOURCE ? List.of(Keys.class) : List.of();
    }

    @Override
    public Configured read(ConfigFile file, Side side, Tools tools) {
        return new Announcements(
                side, side == Side.SOURCE ? file.section(Keys.class).values().directory() : Optional.empty(), tools);
    }

    @Override
    public List<Object> commands() {
        return List.of(new SlurmRunCommand());
    }

    /**
     * The announcements in a configuration file.
     *
     * @param directory the directory in which users announce their jobs, or empty if announcements are off
     */
    private record Announcements(Side side, Optional<Path> directory, Tools tools) implements Configured {
        @Override
        public boolean isForUsers() {
            return directory.isPresent();
        }

        @Override
        public boolean takesJobs() {
            return directory.isPresent();
        }

        @Override
        public Running open(Node node) {
            Optional<AnnouncedJobs> jobs =
                    directory.map(folder -> new AnnouncedJobs(folder, tools.byName(), tools.forUsersJobs()));
            return new Taking(side, jobs);
        }
    }

    /**
     * The announcements of a service.
     *
     * @param announced the announced jobs, or empty if announcements are off
     */
    record Taking(Side side, Optional<AnnouncedJobs> announced) implements Running {
        @Override
        public Map<String, ControlRequest<?>> requests() {
            return side == Side.SOURCE
                    ? Map.of(
                            ANNOUNCE,
                            new ControlRequest<>(
                                    ControlRequest.Plain.class,
                                    false,
                                    (request, user) -> true,
                                    (request, with) -> announce(with)))
                    : Map.of();
        }

        @Override
        public Optional<JobSource> jobs() {
            return announced.map(jobs -> jobs);
        }

        /** Creates the folder for a user who is about to announce a job. */
        private void announce(Exchange with) throws IOException {
            try {
                if (announced.isEmpty()) {
                    throw new IOException("this source takes no announced jobs: [announcements] directory is not in its"
                            + " configuration");
                }
                with.send(ANNOUNCING, announced.get().folderOf(with.user()).toString());
            } catch (IOException e) {
                LOG.warn("user {} has no folder for announcements: {}", with.user(), e.getMessage());
                with.send(ControlProtocol.ERROR, "there is no folder for your announcements: " + e.getMessage());
            }
        }
    }
}
