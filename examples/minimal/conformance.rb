# The conformance worker: does what docs/reference/conformance.md says.
require_relative "millstream"

def bytes(word) = word == "~" ? nil : word == "%" ? "".b : word.b.gsub(/%(\h\h)/n) { $1.hex.chr }

def emit(state, output, key, value, time = "~", partition = "~", *headers)
  numbers = [time, partition].map { |word| Integer(word) unless word == "~" }
  state.emit(output, bytes(key), bytes(value), *numbers, headers.map { |h| h.split("=", 2) }.map { |name, value| [name, bytes(value)] })
end

def do_line(state, record, command, *words)
  case command
  when "get"
    key = words[1] ? bytes(words[1]) : state.own_key
    state.emit("reads", key, state.get(words[0], key))
  when "count"
    state.set(words[0], count = (state.get(words[0]).to_i + 1).to_s)
    state.emit("out", record.key, count)
  when "set" then state.set(words[0], bytes(words[1]), words[2] ? bytes(words[2]) : state.own_key)
  when "set_size" then state.set(words[0], "x" * words[1].to_i)
  when "delete" then state.set(words[0], nil, words[1] ? bytes(words[1]) : state.own_key)
  when "emit" then emit(state, *words)
  when "emit_size" then state.emit(words[0], record.key, "x" * words[1].to_i)
  when "info" then state.emit("out", nil, record.to_a.values_at(0, 1, 2, 3, 7).join(" "))
  when "fail" then raise bytes(words[0])
  when "fail_size" then raise "x" * words[0].to_i
  when "reject" then raise Millstream::Reject, bytes(words[0])
  when "sleep" then sleep words[0].to_i / 1000.0
  when "crash" then exit!(3)
  else raise "no command #{command}"
  end
end

Millstream.run(
  "script" => ->(state, record) { record.value.split("\n").each { |line| do_line(state, record, *line.split(" ")) } },
  "echo" => ->(state, record) { state.emit("out", record.key, record.value, nil, nil, record.headers) },
  "ints" => lambda do |state, record|
    record.value&.bytesize == 8 or raise Millstream::Decode, "an integer has 8 bytes"
    state.emit("out", record.key, record.value.unpack1("q>").to_s)
  end
)
