package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SecretWordsTest {
    private static List<String> words(String line) {
        return List.of(line.split(" ", -1));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/usr/bin/ipmitool -I lanplus -H {node} -U admin -P hunter2 chassis power off",
                "fence_ipmilan -a {node} -l admin -p hunter2 -o off",
                "ipmipower -h {node} -u admin -p hunter2 --off",
                "off --password hunter2",
                "off --Password=hunter2 --node {node}",
                "off --token=hunter2",
                "env IPMI_PASSWORD=hunter2 off",
                "curl -u admin:hunter2 https://{node}/redfish",
                "curl https://admin:hunter2@bmc/redfish",
            })
    void shouldHideAPasswordAndNameItsOption(String line) {
        String shown = SecretWords.hidden(words(line));
        assertEquals(line.replaceAll("(admin:)?hunter2", "***"), shown.replace("admin:***", "***"));
        assertEquals(Optional.of(true), SecretWords.in(words(line)).map(behind -> line.contains(behind)));
        // The whole command as one word of a shell.
        List<String> script = List.of("sh", "-c", line + "; echo done");
        assertEquals(-1, SecretWords.hidden(script).indexOf("hunter2"), SecretWords.hidden(script));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "/usr/local/sbin/power-off {node}",
                "ipmitool -H {node} -p 623 -f {passwordfile} chassis power off",
                "off --password {passwordfile}",
                "off --password /proc/version",
                "off --password-file /etc/x --no-password",
                "ssh -p 22 -P x https://bmc:443/x",
                "off --password",
                "off --password --force",
            })
    void shouldKeepWordsThatAreNotPasswords(String line) {
        assertEquals(Optional.empty(), SecretWords.in(words(line)));
        assertEquals(line, SecretWords.hidden(words(line)));
    }

    @Test
    void shouldHideEachOfSeveral() {
        assertEquals(
                "A_TOKEN=*** x --secret=*** PASSWD=***",
                SecretWords.hidden(List.of("A_TOKEN=1 x", "--secret=2", "PASSWD=3")));
    }

    @Property
    void shouldReturnTheWordsUnchangedOrHideAPassword(@ForAll List<String> words) {
        boolean found = SecretWords.in(words).isPresent();
        String shown = SecretWords.hidden(words);
        // A password may itself be the text that hides one.
        assertTrue(found ? shown.contains("***") : shown.equals(String.join(" ", words)), shown);
    }
}
