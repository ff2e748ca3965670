package io.ppmr.system.guest;

import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.system.pipeline.Pipeline;
import io.ppmr.system.pipeline.PipelinePropertyTest;
import io.ppmr.transport.rdma.RdmaTransport;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Runs cases of the property of the whole data path over RDMA, in each of its modes. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RdmaPipelineInGuest {
    private static final int CASES = 4;

    @ParameterizedTest
    @EnumSource(RdmaMode.class)
    void shouldReadWhatWasWrittenOrFailByNameOverSoftRoce(RdmaMode mode) throws Exception {
        for (long seed = 1; seed <= CASES; seed++) {
            PipelinePropertyTest.run(seed, (source, target, onFailure) -> {
                RdmaPair pair = RdmaPair.join(RdmaTransport.load(mode), source, target, onFailure);
                if (pair.peer().writable().isPresent()) {
                    pair.path().onWritable(pair.peer().writable().get());
                }
                return new Pipeline.Joined(pair.path(), pair.peer()::open);
            });
        }
    }
}
