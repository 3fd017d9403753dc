package dev.millstream;

/** A row of a store. */
public record Row<K, V>(K key, V value) {}
