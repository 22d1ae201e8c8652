#include "telemetry/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"

namespace pome::telemetry {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

double microseconds(Trace::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// A text may be a client's: only plain characters reach the file.
void append_plain(std::string& out, std::string_view text) {
  for (const char c : text) {
    const bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    out += plain ? c : '?';
  }
}

}  // namespace

struct Trace::Event {
  enum class Phase : char { slice = 'X', begin = 'b', end = 'e' };

  const char* name = nullptr;
  Phase phase = Phase::slice;
  uint8_t arg_count = 0;
  uint64_t id = 0;
  Clock::time_point at = {};
  Clock::duration duration = {};
  std::array<TraceArg, kArgsMax> args = {};
  std::array<char, kTextBytes + 1> text = {};

  void take(const TraceArg* begin, const TraceArg* end) {
    for (; begin != end && arg_count < kArgsMax; ++begin) {
      args[arg_count++] = *begin;
    }
  }
};

// One thread writes behind `head`, the file's thread reads behind `tail`.
struct Trace::Track {
  Track(int number, size_t events) : id(number), ring(events) {}

  bool push(const Event& event) {
    const size_t at = head.load(std::memory_order_relaxed);
    if (at - tail.load(std::memory_order_acquire) >= ring.size()) {
      return false;
    }
    ring[at % ring.size()] = event;
    head.store(at + 1, std::memory_order_release);
    return true;
  }

  const int id;
  std::vector<Event> ring;
  std::atomic<size_t> head{0};
  std::atomic<size_t> tail{0};
  std::string name;  // guarded by the file's mutex
  bool name_written = true;
};

struct Trace::File {
  File(std::FILE* opened, TraceLimits given) : stream(opened), limits(given) {
    put("[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"pome\"}}");
    writer = std::thread([this] { write_until_closed(); });
  }

  ~File() {
    {
      const std::lock_guard lock(mutex);
      closed = true;
    }
    wake.notify_all();
    writer.join();
    std::fputs("\n]\n", stream);
    std::fclose(stream);
  }

  Track& add_track() {
    const std::lock_guard lock(mutex);
    return tracks.emplace_back(static_cast<int>(tracks.size()) + 1, limits.events_per_thread);
  }

  void write_until_closed() {
    std::unique_lock lock(mutex);
    for (bool last = false; !last;) {
      last = wake.wait_for(lock, limits.write_every, [this] { return closed; });
      drain();
    }
  }

  void drain() {
    for (Track& track : tracks) {
      if (!track.name_written) {
        track.name_written = true;
        put(
            fmt::format(",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},"
                        "\"args\":{{\"name\":\"{}\"}}}}",
                        track.id, track.name));
      }
      const size_t end = track.head.load(std::memory_order_acquire);
      for (size_t at = track.tail.load(std::memory_order_relaxed); at != end; ++at) {
        put(line_of(track.ring[at % track.ring.size()], track.id));
        track.tail.store(at + 1, std::memory_order_release);
      }
    }
    std::fflush(stream);
  }

  std::string line_of(const Event& event, int thread) const {
    std::string out = fmt::format(
        ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"{}\",\"pid\":1,\"tid\":{},"
        "\"ts\":{:.3f}",
        event.name, event.phase == Event::Phase::slice ? "step" : "request",
        static_cast<char>(event.phase), thread, microseconds(event.at - start));
    if (event.phase == Event::Phase::slice) {
      out += fmt::format(",\"dur\":{:.3f}", microseconds(event.duration));
    } else {
      out += fmt::format(",\"id\":\"{}\"", event.id);
    }
    out += ",\"args\":{";
    const char* comma = "";
    if (event.text[0] != '\0') {
      out += "\"of\":\"";
      append_plain(out, event.text.data());
      out += '"';
      comma = ",";
    }
    for (size_t i = 0; i < event.arg_count; ++i) {
      out += fmt::format("{}\"{}\":{}", comma, event.args[i].name, event.args[i].value);
      comma = ",";
    }
    out += "}}";
    return out;
  }

  void put(std::string_view line) {
    if (full) {
      ++dropped;
      return;
    }
    const bool fits = bytes + static_cast<int64_t>(line.size()) <= limits.bytes_max;
    if (!fits || std::fwrite(line.data(), 1, line.size(), stream) != line.size()) {
      full = true;
      ++dropped;
      log::warning("the trace ends here: {}",
                   fits ? "its file cannot be written"
                        : fmt::format("its file has reached {} bytes", limits.bytes_max));
      return;
    }
    bytes += static_cast<int64_t>(line.size());
  }

  const Clock::time_point start = Clock::now();
  std::FILE* const stream;
  const TraceLimits limits;
  std::atomic<int64_t> dropped{0};
  std::mutex mutex;  // guards what follows; who records takes it once a thread
  std::condition_variable wake;
  std::deque<Track> tracks;  // addresses stay put
  bool closed = false;
  bool full = false;
  int64_t bytes = 0;
  std::thread writer;
};

Trace::Trace(std::unique_ptr<File> file) : serial_(next_serial()), file_(std::move(file)) {}

Trace::~Trace() {
  if (dropped() > 0) {
    log::warning("{} events are missing from the trace", dropped());
  }
}

Result<std::unique_ptr<Trace>> Trace::open(const std::filesystem::path& path, TraceLimits limits) {
  CHECK(limits.events_per_thread > 0, "a trace needs room for events");
  std::FILE* const stream = std::fopen(path.string().c_str(), "wb");
  if (stream == nullptr) {
    return invalid(
        fmt::format("[trace] cannot write '{}': {}", path.string(), std::strerror(errno)));
  }
  return std::unique_ptr<Trace>(new Trace(std::make_unique<File>(stream, limits)));
}

void Trace::name_thread(std::string_view name) {
  Track& track = this_threads_track();
  std::string plain;
  append_plain(plain, name);
  const std::lock_guard lock(file_->mutex);
  track.name = std::move(plain);
  track.name_written = false;
}

void Trace::slice(const char* name, Clock::time_point begin, Clock::time_point end,
                  std::span<const TraceArg> args) {
  Event event{.name = name, .at = begin, .duration = end - begin};
  event.take(args.data(), args.data() + args.size());
  record(event);
}

void Trace::begin(const char* name, uint64_t id, std::string_view text,
                  std::initializer_list<TraceArg> args) {
  Event event{.name = name, .phase = Event::Phase::begin, .id = id, .at = Clock::now()};
  event.take(args.begin(), args.end());
  text.copy(event.text.data(), kTextBytes);
  record(event);
}

void Trace::end(const char* name, uint64_t id, std::initializer_list<TraceArg> args) {
  Event event{.name = name, .phase = Event::Phase::end, .id = id, .at = Clock::now()};
  event.take(args.begin(), args.end());
  record(event);
}

int64_t Trace::dropped() const {
  return file_->dropped;
}

Trace::Track& Trace::this_threads_track() {
  struct Known {
    uint64_t serial = 0;
    Track* track = nullptr;
  };
  thread_local Known known;
  if (known.serial != serial_) {
    known = {serial_, &file_->add_track()};
  }
  return *known.track;
}

void Trace::record(const Event& event) {
  if (!this_threads_track().push(event)) {
    ++file_->dropped;
  }
}

void TraceSpan::finish() {
  trace_->slice(name_, begin_, Trace::Clock::now(), std::span(args_).first(count_));
}

}  // namespace pome::telemetry
