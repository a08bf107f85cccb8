package dumpulse.lab;

import org.cryptimeleon.math.structures.Element;
import org.cryptimeleon.math.structures.groups.elliptic.BilinearGroup;

/**
 * A signature scheme on Cryptimeleon's groups, for lab/run groups: yours is a class with these
 * methods and a constructor without arguments. An element is one of a group or a number of Zn. No
 * method has to call compute(). SPDX-License-Identifier: MIT
 */
public interface Scheme {
    /** Makes a key pair for so many messages, keeps the secret key and returns the public key. */
    Element[] key(BilinearGroup group, int messages);

    /** Returns a signature of the messages, which are numbers of Zn. */
    Element[] sign(Element[] messages);

    boolean verify(Element[] key, Element[] messages, Element[] signature);
}
