package dev.millstream;

/** The handler of an input with its codecs. */
record Registered<K, V>(Codec<K> key, Codec<V> value, Handler<K, V> handler) {
  void handle(Context ctx) throws Exception {
    handler.handle(ctx, new InputRecord<>(ctx, this));
  }
}
