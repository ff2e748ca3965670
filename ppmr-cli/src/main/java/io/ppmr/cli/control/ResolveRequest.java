package io.ppmr.cli.control;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.Outcome;
import io.ppmr.transaction.Resolution;
import java.io.IOException;
import java.util.HashSet;
import java.util.Set;

/** The request by which an operator decides, which both services answer. Immutable, for any thread. */
record ResolveRequest(Resolver resolver) {

    /** For those who may control the service alone, as it may end processes. */
    ControlRequests.Request request() {
        return new ControlRequests.Request(false, this::answer);
    }

    private void answer(JsonNode request, Conversation with) throws IOException, InterruptedException {
        String outcome = request.path(ControlProtocol.OUTCOME).asText();
        if (!outcome.equals(ControlProtocol.COMMIT) && !outcome.equals(ControlProtocol.ROLLBACK)) {
            with.say(ControlProtocol.ERROR, "an outcome is commit or rollback, not '" + outcome + "'");
            return;
        }
        Set<String> off = new HashSet<>();
        request.path(ControlProtocol.TARGETS_OFF).forEach(name -> off.add(name.asText()));
        OperatorWord word = new OperatorWord(
                outcome.equals(ControlProtocol.COMMIT) ? Outcome.COMMITTED : Outcome.ROLLED_BACK,
                off,
                request.path(ControlProtocol.SOURCE_OFF).asBoolean(false),
                request.path(ControlProtocol.FIRST_OFF).asBoolean(false));
        Resolution answer = resolver.resolve(
                request.path(ControlProtocol.ID).asText(),
                word,
                request.path(ControlProtocol.CARRY_OUT).asBoolean(false),
                "user " + with.user());
        with.say(ControlProtocol.RESOLUTION, answer);
    }
}
