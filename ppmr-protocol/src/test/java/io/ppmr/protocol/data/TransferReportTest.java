package io.ppmr.protocol.data;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.protocol.data.TransferReport.ReadSample;
import java.util.List;
import org.junit.jupiter.api.Test;

class TransferReportTest {
    private static TransferReport report(long originNs) {
        return new TransferReport(
                100,
                90,
                0,
                0,
                originNs,
                List.of(
                        new ReadSample(originNs, 10),
                        new ReadSample(originNs + 5, 40),
                        new ReadSample(originNs + 9, 90)));
    }

    @Test
    void shouldReturnTheBytesReadByATime() {
        TransferReport report = report(1000);
        assertEquals(0, report.readBytesAt(999));
        assertEquals(10, report.readBytesAt(1000));
        assertEquals(10, report.readBytesAt(1004));
        assertEquals(40, report.readBytesAt(1005));
        assertEquals(90, report.readBytesAt(2000));
    }

    @Test
    void shouldCompareTimesAcrossTheClocksOverflow() {
        TransferReport report = report(Long.MAX_VALUE - 2);
        assertEquals(0, report.readBytesAt(Long.MAX_VALUE - 3));
        assertEquals(40, report.readBytesAt(Long.MIN_VALUE + 3));
    }
}
