package io.ppmr.system;

import java.nio.file.Path;
import java.util.Optional;

/**
 * The configuration of a Slurm cluster and of ppmr's services in it.
 *
 * @param folder of the cluster
 * @param bin where the job's programs are
 * @param address0 of n0
 * @param pods further lines of the template of pods, or empty for a cluster without
 */
record SlurmTexts(Path folder, Path bin, String address0, Optional<String> pods) {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));

    /** slurm.conf(5). */
    String slurm(String address1, String address2) {
        return """
                ClusterName=ppmr
                SlurmctldHost=n0(%2$s)
                SlurmUser=root
                SlurmdUser=root
                AuthType=auth/munge
                AuthInfo=socket=%1$s/munge.socket
                ProctrackType=proctrack/linuxproc
                TaskPlugin=task/none
                MpiDefault=none
                ReturnToService=2
                SlurmctldPidFile=%1$s/slurmctld.pid
                SlurmdPidFile=%1$s/slurmd.%%n.pid
                SlurmdSpoolDir=%1$s/spool.%%n
                StateSaveLocation=%1$s/state
                SlurmctldLogFile=%1$s/slurmctld.log
                SlurmdLogFile=%1$s/slurmd.%%n.log
                SlurmdParameters=config_overrides
                SelectType=select/cons_tres
                SelectTypeParameters=CR_Core
                JobCompType=jobcomp/filetxt
                JobCompLoc=%1$s/jobcomp
                KillWait=5
                NodeName=n0 NodeAddr=%2$s CPUs=8 State=UNKNOWN
                NodeName=n1 NodeAddr=%3$s CPUs=8 State=UNKNOWN
                NodeName=n2 NodeAddr=%4$s CPUs=8 State=UNKNOWN
                PartitionName=all Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP
                PartitionName=three Nodes=n0,n1,n2 MaxTime=INFINITE State=UP
                """.formatted(folder, address0, address1, address2);
    }

    /** Returns the configuration of n0's target. */
    String target() {
        return """
                mount = "%1$s/target"
                work_directory = "%1$s/target-work"
                control_socket = "%1$s/target.sock"
                journal = "%1$s/target-journal"
                listen = "%2$s:7411"
                key_file = "%1$s/key"
                warm_up_migrations = 0
                %3$s""".formatted(folder, address0, checkpointer() + pods("trusted_users = [65534]", "pods-n0", 0));
    }

    /** @param name of a node's source: that of its own folders */
    String source(String name) {
        return """
                mount = "%1$s/%5$s"
                work_directory = "%1$s/%5$s-work"
                journal = "%1$s/%5$s-journal"
                control_socket = "%1$s/local/source.sock"
                key_file = "%1$s/key"
                warm_up_migrations = 0
                [announcements]
                directory = "%1$s/local/announced"
                # Nobody listens there: the job names its own spare.
                [target]
                address = "%2$s:1"
                # Asked in the test that makes this file; status 126 is no answer.
                [triggers]
                health = ["bash", "-c", "test -e %1$s/health-on || exit 126; exec %4$s/ppmr-slurm/conf/slurm-health.sh"]
                health_interval = "1s"
                health_failures = 2
                %3$s""".formatted(
                folder, address0, checkpointer() + pods("", "local/pods", name.equals("source") ? 1 : 2), HOME, name);
    }

    /**
     * @param trusted a line of the checkpointer of pods
     * @param directory the directory of the pods' records, in the cluster's folder
     * @param node the number of the node, which grants one address, or 0 for a node that grants all of them
     */
    private String pods(String trusted, String directory, int node) {
        return pods.map(template -> """
                        [checkpointers.criu]
                        type = "criu"
                        program = ["%1$s"]
                        %2$s
                        [pod_runtime]
                        directory = "%3$s"
                        cgroups = "disabled"
                        [pods.mpi]
                        bridge = "br0"
                        checkpointer = "criu"
                        shares = [{user = 65534, first = "10.20.0.1%4$d", last = "10.20.0.1%5$d"}]
                        %6$s""".formatted(
                        String.join("\", \"", System.getenv("PPMR_CRIU").lines().toList()),
                        trusted,
                        folder.resolve(directory),
                        node,
                        node == 0 ? 9 : node,
                        template))
                .orElse("");
    }

    private String checkpointer() {
        return """
                [checkpointers.blcr]
                type = "blcr"
                checkpoint_program = "%1$s/cr_checkpoint"
                restart_program = "%1$s/cr_restart"
                kernel_module = false
                """.formatted(bin);
    }
}
