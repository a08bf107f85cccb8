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
public class Groups {
    private static final int SECURITY_BITS = 128;

    /** A key and a signature. They are made anew before each verification that is timed. */
    @State(Scope.Thread)
    public static class Signed {
        @Param("dumpulse.lab.Ps18")
        public String scheme;

        @Param({"1", "10"})
        public int messages;

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

        @Setup(Level.Invocation)
        public void restore() {
            key = restored(key);
            signature = restored(signature);
        }

        boolean verify() {
            if (!made.verify(key, message, signature)) {
                throw new IllegalStateException("a valid signature was rejected");
            }
            return true;
        }
    }

    /** The pitfall of lazy evaluation: nothing of the signature is computed before the clock runs. */
    public static class Lazy extends Signed {
        @Override
        @Setup(Level.Invocation)
        public void restore() {
            super.restore();
            super.signature = super.made.sign(super.message);
        }
    }

    /** The pitfall of mutability: the same key again, with the tables of earlier powers. */
    public static class Remembered extends Signed {
        @Override
        @Setup(Level.Invocation)
        public void restore() {
            super.signature = restored(super.signature);
        }
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

    @Benchmark
    public boolean verify(Signed state) {
        return state.verify();
    }

    @Benchmark
    public boolean verifyWithLazySigning(Lazy state) {
        return state.verify();
    }

    @Benchmark
    public boolean verifyWithTheSameKeyAgain(Remembered state) {
        return state.verify();
    }

    private static void count(String title, Signed state, String scheme, int messages)
            throws ReflectiveOperationException {
        DebugBilinearGroup group = new DebugBilinearGroup(2 * SECURITY_BITS, BilinearGroup.Type.TYPE_3);
        state.scheme = scheme;
        state.messages = messages;
        state.make(group);
        state.verify(); // so that a key that remembers has something to remember
        state.restore();
        group.resetCounters();
        state.verify();
        System.out.printf("%n== %s, messages: %d%n%s%n", title, messages, group.formatCounterData());
    }

    /** Prints the counts of the class of a scheme. */
    public static void main(String[] words) throws ReflectiveOperationException {
        for (int messages : new int[] {1, 10}) {
            count("verify", new Signed(), words[0], messages);
            count("verifyWithLazySigning", new Lazy(), words[0], messages);
            count("verifyWithTheSameKeyAgain", new Remembered(), words[0], messages);
        }
    }
}
