package dev.millstream;

import java.util.List;

/**
 * A record that the program emitted in a {@link TestKit}, decoded by the output's codecs.
 *
 * @param timestamp in milliseconds since 1970; null where it is left to the sidecar's clock
 * @param partition null where it is chosen by the key
 */
public record TestOutput<K, V>(K key, V value, List<Header> headers, Long timestamp, Integer partition) {}
