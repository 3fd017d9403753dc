package dev.millstream;

/** Remembers the id of a name in one schema. */
record Binding(Schema schema, int id) {
  static final Binding NONE = new Binding(null, -1);
}
