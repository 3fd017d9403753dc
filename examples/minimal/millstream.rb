# A Millstream worker for Ruby, written from docs/reference/protocol.md alone.
require "msgpack"
require "socket"

module Millstream
  HELLO, WELCOME, OPEN, CLOSE, BATCH, RESULT, CANCEL, GET, VALUES, _SCAN, ROWS, EXTEND, PING, PONG, ERROR, GOODBYE = *1..12, *20..23
  Record = Struct.new(:input, :task, :offset, :timestamp, :key, :value, :headers, :attempt)
  Decode, Output, Reject = Array.new(3) { Class.new(StandardError) } # failures of a record that no retry cures
  Void, BadFrame = Array.new(2) { Class.new(Exception) } # of the batch, of the session: not for a handler to rescue
  FORMAT = MessagePack::Factory.new.tap { |format| format.register_type(1, Class.new, unpacker: ->(_) { :not_sent }) }

  # Serves the handlers, {input => ->(session, record) { ... }}, until it is told to stop; a new session after each end.
  def self.run(handlers, path = ENV.fetch("MILLSTREAM_SOCKET", "/run/millstream/worker.sock"))
    stop = false
    trap("TERM") { stop = true }
    until stop
      begin
        Session.new(socket = UNIXSocket.new(path), handlers).serve
      rescue StandardError, BadFrame => error # a frame that is not what it should be, unless the connection is gone
        warn "connecting to the sidecar again: #{error.message}"
        socket.write(Session.frame([ERROR, "BadFrame", error.message])) unless [SystemCallError, IOError].any? { |kind| error.is_a?(kind) }
      end
      socket&.close
      sleep 0.1 unless stop
    end
  end

  # One connection. To the handler of a record it is state and outputs.
  class Session
    def self.frame(fields) = FORMAT.dump(fields).then { |bytes| [bytes.bytesize].pack("N") + bytes }

    def initialize(socket, handlers)
      @socket, @handlers, @cap, @rid = socket, handlers, 16 << 20, 0
      write HELLO, { protocol: [1, 1], sdk: "minimal", language: "ruby", version: "1", capabilities: [], inputs: handlers.keys, parallel: 1 }
      kind, @welcome, text = read
      kind == ERROR and %w[VersionMismatch NotAllowed Refused].include?(@welcome) ? abort(text) : raise(IOError, text)
      kind == WELCOME && @welcome["protocol"] == 1 or raise BadFrame, "expected WELCOME of version 1"
      @limits, @cap = @welcome["limits"], @welcome["limits"]["frame"]
    end

    def serve = (handle(*read) until @leaving)
    def write(*fields) = @socket.write(Session.frame(fields))

    def read
      length = @socket.read(4)&.unpack1("N") or raise IOError, "the connection ended"
      length.between?(1, @cap) or raise BadFrame, "a frame of #{length} bytes"
      @socket.read(length).then { |bytes| bytes&.bytesize == length ? FORMAT.load(bytes) : raise(IOError, "the connection ended") }
    end

    def handle(kind, *fields)
      case kind
      when BATCH then @seq ? raise(BadFrame, "BATCH while one is at work") : [run(*fields), @seq = nil]
      when PING then write(PONG, fields[0])
      when CANCEL then raise Void if fields[0] == @seq
      when GOODBYE then @leaving = true
      when ERROR then raise IOError, "the sidecar ended the session: #{fields[1]} (#{fields[0]})"
      else [OPEN, CLOSE, VALUES, ROWS, PONG].include?(kind) or raise BadFrame, "unexpected kind #{kind}"
      end
    end

    def run(seq, task, flags, keys, items, state, *)
      @seq, @writes, @outputs, @bytes, failure, done, extended = seq, [], [], 0, nil, 0, Time.now
      @known = state.transform_values { |values| keys.map(&:b).zip(values).reject { |pair| pair[1] == :not_sent }.to_h }
      while done < items.size && !failure && @bytes < @cap / 2 # what is not done is sent again
        _, input, offset, timestamp, key, value, headers, attempt = items[done]
        @record = Record.new(@welcome["inputs"].fetch(input)["name"], task, offset, timestamp, key && keys.fetch(key).b, value&.b, headers || [], attempt)
        write(EXTEND, seq, done) && extended = Time.now if flags[0] == 1 || Time.now - extended > @limits["deadline_ms"] / 4000.0
        failure = failure_of(@handlers[@record.input]) or done += 1
      end
      write RESULT, seq, done, failure, @writes.group_by(&:first).transform_values { |ops| ops.map { |op| op.drop(1) } }, @outputs
    rescue Void
      write RESULT, seq, 0, nil, {}, []
    end

    # Handles the record at hand; what it staged is dropped if it fails.
    def failure_of(handler)
      before = [@writes.size, @outputs.size, @bytes]
      handler.call(self, @record)
      raise Output, "one record may write and emit #{@cap / 2} bytes" if @bytes - before[2] > @cap / 2
    rescue StandardError => error
      @writes, @outputs = @writes.first(before[0]), @outputs.first(before[1])
      kind = { Decode => "Decode", Output => "Output" }.fetch(error.class, "Handler")
      text = error.full_message(highlight: false).byteslice(0, 16_000).force_encoding("UTF-8").scrub
      { class: kind, error: error.class.name, message: text, retriable: kind == "Handler" && !error.is_a?(Reject) }
    end

    def get(store, key = own_key)
      known, answer = (@known[id = id_of("stores", store)] ||= {}), nil
      return known[key]&.b if known.key?(key)
      write GET, @seq, @rid += 1, id, [key.b]
      handle(*answer) until (answer = read)[2] == @rid && [VALUES, ROWS].include?(answer[0])
      answer[0] == VALUES && (answer[4] || answer[3].size == 1) or raise BadFrame, "an answer to something else"
      answer[4] ? raise(IOError, answer[4]) : known[key] = answer[3][0]
    end

    def set(store, value, key = own_key)
      within(store, @welcome["stores"][id = id_of("stores", store)]["max_value_bytes"], *([key, value] if value))
      @writes << [id, key.b, (@known[id] ||= {})[key.b] = value&.b]
    end

    def emit(output, key, value, timestamp = nil, partition = nil, headers = [])
      within(output, @welcome["outputs"][id = id_of("outputs", output)]["max_bytes"], key, value, *headers.flatten)
      time = timestamp || @record.timestamp
      time = timestamp && raise(Output, "timestamp #{time} is outside the limits") unless time.between?(@limits["min_timestamp"], @limits["max_timestamp"])
      @outputs << [id, key&.b, value&.b, time, headers, partition]
    end

    def within(name, limit, *parts)
      @bytes += (size = parts.sum { |part| part.to_s.bytesize }) + 48
      size <= limit or raise Output, "#{name} takes #{limit} bytes, not #{size}"
    end

    def own_key = @record.key || raise(Reject, "the record has no key, so its state has no default key")

    def id_of(list, name) = @welcome[list].index { |thing| thing["name"] == name } ||
      raise(Reject, "#{name} is none of the #{list} of the manifest: #{@welcome[list].map { |thing| thing["name"] }.join(", ")}")
  end
end
