package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds unlinked files that CRIU does not write: those above its size limit, and those with another name, which it
 * would have to link again. Memory that only looks like such a file does not count. For one scan and one thread.
 */
final class UnlinkedFiles implements MemberCheck {
    private static final Logger LOG = LoggerFactory.getLogger(UnlinkedFiles.class);
    private static final String UNNAMED = " (deleted)";
    private static final long MIB = 1 << 20;
    /** A file of an NFS server that this client has removed, and that stays until it is closed. */
    private static final Pattern SILLY_RENAMED = Pattern.compile("\\.nfs[0-9a-f]{16,40}");

    private final long mostBytes;
    private final boolean linksAgain;
    private final Findings findings = new Findings();

    /**
     * @param mostBytes size of the largest unlinked file that CRIU writes ({@code --ghost-limit})
     *
     * @param linksAgain whether it may give a file a name ({@code --link-remap})
     */
    UnlinkedFiles(long mostBytes, boolean linksAgain) {
        this.mostBytes = mostBytes;
        this.linksAgain = linksAgain;
    }

    @Override
    public void descriptor(Open open) throws IOException {
        String name = open.name();
        boolean unnamed = name.endsWith(UNNAMED);
        if (open.status().filter(FileStatus::isRegular).isEmpty()
                || isMemory(name)
                || !(unnamed || isSillyRenamed(name))) {
            return;
        }
        FileStatus status = open.status().get();
        if (unnamed && isNamed(open.holder(), name, status)) {
            return;
        }
        if (unnamed && status.links() == 0) {
            if (status.allocatedBytes() > mostBytes) {
                findings.add(open.holder(), open + tooLarge(status.allocatedBytes()), remedy(status.allocatedBytes()));
            }
        } else if (!linksAgain) {
            findings.add(open.holder(), open + linkedElsewhere(), LINK_REMEDY);
        }
    }

    @Override
    public void mapping(Mapped mapped) throws IOException {
        String name = mapped.name();
        if (!name.startsWith("/") || !name.endsWith(UNNAMED) || isMemory(name)) {
            return;
        }
        Optional<FileStatus> status = ProcFiles.status(mapped.path());
        if (status.filter(FileStatus::isRegular).isEmpty()) {
            return;
        }
        if (status.get().links() > 0) {
            // A line of mappings has newlines in another form than the link.
            String exact = ProcFiles.link(mapped.path()).orElse(name);
            if (!linksAgain && !isNamed(mapped.holder(), exact, status.get())) {
                findings.add(mapped.holder(), mapped + linkedElsewhere(), LINK_REMEDY);
            }
            return;
        }
        long bytes = status.get().allocatedBytes();
        if (bytes > mostBytes) {
            findings.add(
                    mapped.holder(),
                    mapped + tooLarge(bytes),
                    "start the job again if its program or a library was replaced; or " + remedy(bytes));
        }
    }

    /**
     * Returns true if the name exists. The kernel appends a word to a removed name, but a real name can end with that
     * word, too.
     */
    private static boolean isNamed(Holder holder, String name, FileStatus status) {
        if (status.links() == 0) {
            return false;
        }
        try {
            return ProcFiles.status("/proc/" + holder.pid() + "/root" + name)
                    .filter(found ->
                            found.inode() == status.inode() && found.device().equals(status.device()))
                    .isPresent();
        } catch (IOException e) {
            LOG.debug("a name of PID {} is left out: {}", holder.pid(), e.toString());
            return false;
        }
    }

    private static final String LINK_REMEDY = "have the job close it; or put --link-remap into dump_arguments and"
            + " restore_arguments of the checkpointer, where both nodes have the file's folder in common";

    private static String linkedElsewhere() {
        return ", whose name was removed while the file has another name, and CRIU finds no path to it";
    }

    private String tooLarge(long bytes) {
        return ", a file of " + shown(bytes) + " whose name was removed, and CRIU writes such files up to "
                + shown(mostBytes);
    }

    private static String remedy(long bytes) {
        return "have the job close it; or put --ghost-limit and a size such as " + (bytes / MIB + 1)
                + "M into dump_arguments of the checkpointer";
    }

    private static String shown(long bytes) {
        return bytes / MIB + " MiB";
    }

    private static boolean isMemory(String name) {
        return name.startsWith("/memfd:")
                || name.startsWith("/SYSV")
                || name.startsWith("/dev/zero")
                || name.startsWith("/anon_hugepage")
                || name.startsWith("/secretmem")
                || name.startsWith("/[aio]");
    }

    private static boolean isSillyRenamed(String name) {
        return SILLY_RENAMED.matcher(name.substring(name.lastIndexOf('/') + 1)).matches();
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
