package dumpulse.lab;

import org.cryptimeleon.math.structures.Element;
import org.cryptimeleon.math.structures.groups.GroupElement;
import org.cryptimeleon.math.structures.groups.elliptic.BilinearGroup;
import org.cryptimeleon.math.structures.rings.zn.Zn.ZnElement;

/**
 * Signatures of Pointcheval and Sanders, Reassessing security of randomizable signatures, CT-RSA
 * 2018, section 4.2. The secret key is x, y_1 … y_(r+1), the public key g~, X~ = g~^x, Y~_j =
 * g~^(y_j). A signature is m', h, h^(x + y_1 m_1 + … + y_(r+1) m'), with m' and h random.
 * SPDX-License-Identifier: MIT
 */
public class Ps18 implements Scheme {
    private BilinearGroup group;
    private ZnElement x;
    private ZnElement[] y;

    @Override
    public Element[] key(BilinearGroup in, int messages) {
        group = in;
        x = group.getZn().getUniformlyRandomElement();
        y = new ZnElement[messages + 1];
        GroupElement g = group.getG2().getUniformlyRandomNonNeutral();
        Element[] key = new Element[messages + 3];
        key[0] = g;
        key[1] = g.pow(x);
        for (int i = 0; i <= messages; i++) {
            y[i] = group.getZn().getUniformlyRandomElement();
            key[i + 2] = g.pow(y[i]);
        }
        return key;
    }

    @Override
    public Element[] sign(Element[] messages) {
        ZnElement last = group.getZn().getUniformlyRandomElement();
        ZnElement power = x.add(y[messages.length].mul(last));
        for (int i = 0; i < messages.length; i++) {
            power = power.add(y[i].mul(messages[i]));
        }
        GroupElement h = group.getG1().getUniformlyRandomNonNeutral();
        return new Element[] {last, h, h.pow(power)};
    }

    @Override
    public boolean verify(Element[] key, Element[] messages, Element[] signature) {
        GroupElement first = (GroupElement) signature[1];
        if (first.isNeutralElement()) {
            return false;
        }
        GroupElement product = (GroupElement) key[1];
        for (int i = 0; i <= messages.length; i++) {
            Element power = i < messages.length ? messages[i] : signature[0];
            product = product.op(((GroupElement) key[i + 2]).pow((ZnElement) power));
        }
        GroupElement left = group.getBilinearMap().apply(first, product);
        GroupElement second = (GroupElement) signature[2];
        return left.equals(group.getBilinearMap().apply(second, (GroupElement) key[0]));
    }
}
