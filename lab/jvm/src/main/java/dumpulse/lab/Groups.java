package dumpulse.lab;

import java.util.Arrays;
import org.cryptimeleon.math.structures.Element;
import org.cryptimeleon.math.structures.groups.Group;
import org.cryptimeleon.math.structures.groups.GroupElement;
import org.cryptimeleon.math.structures.groups.debug.DebugBilinearGroup;
import org.cryptimeleon.math.structures.groups.elliptic.BilinearGroup;
import org.cryptimeleon.math.structures.groups.elliptic.type3.bn.BarretoNaehrigBilinearGroup;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * Verification of a Scheme: what Cryptimeleon's DebugBilinearGroup counts, in both modes, and its
 * time by JMH, each beside the pitfalls that change it. SPDX-License-Identifier: MIT
 */
@State(Scope.Thread)
public class Groups {
    private static final int SECURITY_BITS = 128;
    // Lazy evaluation: nothing of the signature is computed before the clock runs. Mutability: the
    // same key again, with the tables of earlier powers.
    private static final String NONE = "none", LAZY = "lazySigning", AGAIN = "sameKeyAgain";

    @Param("dumpulse.lab.Ps18")
    public String scheme;

    @Param({"1", "10"})
    public int messages;

    @Param({NONE, LAZY, AGAIN})
    public String pitfall;

    private Scheme made;
    private Element[] key;
    private Element[] message;
    private Element[] signature;

    private void make(BilinearGroup group) throws ReflectiveOperationException {
        made = (Scheme) Class.forName(scheme).getDeclaredConstructor().newInstance();
        key = computed(made.key(group, messages));
        message = new Element[messages];
        Arrays.setAll(message, i -> group.getZn().getUniformlyRandomElement());
        signature = computed(made.sign(message));
    }

    @Setup
    public void make() throws ReflectiveOperationException {
        make(new BarretoNaehrigBilinearGroup(SECURITY_BITS));
    }

    /** Makes key and signature anew before each verification that is timed, but for a pitfall. */
    @Setup(Level.Invocation)
    public void restore() {
        key = pitfall.equals(AGAIN) ? key : restored(key);
        signature = pitfall.equals(LAZY) ? made.sign(message) : restored(signature);
    }

    @Benchmark
    public boolean verify() {
        if (!made.verify(key, message, signature)) {
            throw new IllegalStateException("a valid signature was rejected");
        }
        return true;
    }

    private static Element[] computed(Element[] elements) {
        for (Element element : elements) {
            if (element instanceof GroupElement of) {
                of.computeSync();
            }
        }
        return elements;
    }

    /** As from a network: without tables. */
    private static Element[] restored(Element[] elements) {
        return Arrays.stream(elements)
                .map(element -> element instanceof GroupElement of
                        ? ((Group) of.getStructure()).restoreElement(of.getRepresentation())
                        : element)
                .toArray(Element[]::new);
    }

    private void count() throws ReflectiveOperationException {
        var group = new DebugBilinearGroup(2 * SECURITY_BITS, BilinearGroup.Type.TYPE_3);
        make(group);
        verify(); // so that a key that remembers has something to remember
        restore();
        group.resetCounters();
        verify();
        System.out.printf("%n== pitfall: %s, messages: %d%n", pitfall, messages);
        System.out.println(group.formatCounterData());
    }

    /** Prints the counts of the class of a scheme. */
    public static void main(String[] words) throws ReflectiveOperationException {
        for (int messages : new int[] {1, 10}) {
            for (String pitfall : new String[] {NONE, LAZY, AGAIN}) {
                Groups groups = new Groups();
                groups.scheme = words[0];
                groups.messages = messages;
                groups.pitfall = pitfall;
                groups.count();
            }
        }
    }
}
