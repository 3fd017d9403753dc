# Counts words: the smallest program on millstream.rb.
require_relative "millstream"

Millstream.run("words" => lambda do |state, record|
  count = state.get("counts").to_i + 1
  state.set("counts", count.to_s)
  state.emit("word-counts", record.key, count.to_s)
end)
