package io.ppmr.system.guest;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.PullContract;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.rdma.RdmaTransport;
import java.util.function.Consumer;

/** The contract that every transport keeps, over RDMA. */
class RdmaPullInGuest extends PullContract {
    private final RdmaTransport transport = RdmaTransport.load(RdmaMode.READ);

    @Override
    protected Ends join(BufferPool source, BufferPool target, PullListener listener, Consumer<String> onExporterFailure)
            throws Exception {
        RdmaPair pair = RdmaPair.join(transport, source, target, onExporterFailure);
        return new Ends(pair.exporter(), pair.puller(listener));
    }

    @Override
    protected int rounds(int most) {
        return Math.max(3, most / 20);
    }

    @Override
    protected String outsideReason() {
        return "the block is outside its region";
    }

    @Override
    protected boolean sourceWorks() {
        return false;
    }
}
