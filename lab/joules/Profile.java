import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.security.Signature;
import java.security.spec.ECGenParameterSpec;
import java.util.Scanner;

/**
 * A program for lab/run profile --with: hashes and signatures by a provider of Java's.
 *
 * <p>lab/run profile --with "java lab/joules/Profile.java" --operations sha256,ecdsa-sign
 *
 * <p>For BouncyCastle: java -cp bcprov.jar
 * -Dprovider=org.bouncycastle.jce.provider.BouncyCastleProvider … SPDX-License-Identifier: MIT
 */
public class Profile {
    interface Call {
        Object of(byte[] message, byte[] signature) throws Exception;
    }

    public static void main(String[] words) throws Exception {
        String provider = System.getProperty("provider");
        if (provider != null) {
            Object made = Class.forName(provider).getDeclaredConstructor().newInstance();
            java.security.Security.insertProviderAt((java.security.Provider) made, 1);
        }
        int calls = Integer.parseInt(words[1]);
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
        String curve = words[2].equals("prime256v1") ? "secp256r1" : words[2];
        generator.initialize(new ECGenParameterSpec(curve));
        KeyPair pair = generator.generateKeyPair();
        Call sign = (message, signature) -> {
            Signature signer = Signature.getInstance("SHA256withECDSA");
            signer.initSign(pair.getPrivate());
            signer.update(message);
            return signer.sign();
        };
        Call verify = (message, signature) -> {
            Signature verifier = Signature.getInstance("SHA256withECDSA");
            verifier.initVerify(pair.getPublic());
            verifier.update(message);
            if (!verifier.verify(signature)) {
                throw new IllegalStateException("a valid signature was rejected");
            }
            return verifier;
        };
        Call hash = (message, signature) -> MessageDigest.getInstance("SHA-256").digest(message);
        Call call = words[0].equals("sha256") ? hash : words[0].equals("ecdsa-sign") ? sign : verify;
        byte[][] messages = new byte[Integer.parseInt(words[3])][1024];
        byte[][] signatures = new byte[messages.length][];
        for (int i = 0; i < messages.length; i++) {
            new java.util.Random(i).nextBytes(messages[i]);
            signatures[i] = (byte[]) sign.of(messages[i], null);
        }
        long[] times = new long[calls];
        Scanner lines = new Scanner(System.in);
        System.out.println("ready");
        lines.nextLine();
        long begun = System.nanoTime();
        for (int i = 0; i < calls; i++) {
            long before = System.nanoTime();
            call.of(messages[i % messages.length], signatures[i % messages.length]);
            times[i] = System.nanoTime() - before;
        }
        System.out.println("over " + (System.nanoTime() - begun));
        lines.nextLine();
        for (long time : times) {
            System.out.println(time);
        }
    }
}
