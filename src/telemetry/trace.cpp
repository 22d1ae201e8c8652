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
  Track(int number, size_t events) : id(number), capacity(events) {}

  bool push(const Event& event) {
    const size_t at = head.load(std::memory_order_relaxed);
    if (at - tail.load(std::memory_order_acquire) >= capacity) {
      return false;
    }
    ring.resize(capacity);  // at the thread's first event
    ring[at % capacity] = event;
    head.store(at + 1, std::memory_order_release);
    return true;
  }

  // What no file has taken. Only while no file's thread reads.
  void forget() { tail.store(head.load(std::memory_order_acquire), std::memory_order_release); }

  const int id;
  const size_t capacity;
  std::vector<Event> ring;
  std::atomic<size_t> head{0};
  std::atomic<size_t> tail{0};
  std::string name;  // guarded by the mutex of the tracks
  bool name_written = true;
};

// They outlive recordings: a thread has one for good.
struct Trace::Tracks {
  Track& add(size_t events) {
    const std::lock_guard lock(mutex);
    return all.emplace_back(static_cast<int>(all.size()) + 1, events);
  }

  void begin_file() {
    const std::lock_guard lock(mutex);
    for (Track& track : all) {
      track.forget();
      track.name_written = track.name.empty();
    }
  }

  std::mutex mutex;       // guards the list and the names; who records takes it once a thread
  std::deque<Track> all;  // addresses stay put
  std::atomic<int64_t> dropped{0};
};

struct Trace::File {
  File(std::FILE* opened, TraceLimits given, Tracks& recorded)
      : stream(opened), limits(given), tracks(recorded) {
    put("[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"pome\"}}");
    writer = std::thread([this] { write_until_closed(); });
  }

  ~File() {
    close();
    writer.join();
  }

  // The thread writes the rest and ends the file.
  void close() {
    {
      const std::lock_guard lock(mutex);
      closed = true;
    }
    wake.notify_all();
  }

  void write_until_closed() {
    std::unique_lock lock(mutex);
    for (bool last = false; !last;) {
      last = wake.wait_for(lock, limits.write_every, [this] { return closed; });
      drain();
    }
    std::fputs("\n]\n", stream);
    std::fclose(stream);
  }

  void drain() {
    const std::lock_guard lock(tracks.mutex);
    for (Track& track : tracks.all) {
      if (!track.name_written) {
        track.name_written = true;
        put(
            fmt::format(",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},"
                        "\"args\":{{\"name\":\"{}\"}}}}",
                        track.id, track.name));
      }
      const size_t end = track.head.load(std::memory_order_acquire);
      for (size_t at = track.tail.load(std::memory_order_relaxed); at != end; ++at) {
        put(line_of(track.ring[at % track.capacity], track.id));
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
      ++tracks.dropped;
      return;
    }
    const bool fits = bytes + static_cast<int64_t>(line.size()) <= limits.bytes_max;
    if (!fits || std::fwrite(line.data(), 1, line.size(), stream) != line.size()) {
      full = true;
      ++tracks.dropped;
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
  Tracks& tracks;
  std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  bool closed = false;
  bool full = false;
  int64_t bytes = 0;
  std::thread writer;
};

Trace::Trace(TraceLimits limits)
    : serial_(next_serial()), limits_(limits), tracks_(std::make_unique<Tracks>()) {
  CHECK(limits.events_per_thread > 0, "a trace needs room for events");
}

Trace::~Trace() {
  stop();
  file_.reset();
  if (dropped() > 0) {
    log::warning("{} events are missing from the trace", dropped());
  }
}

Result<std::unique_ptr<Trace>> Trace::open(const std::filesystem::path& path, TraceLimits limits) {
  auto trace = std::make_unique<Trace>(limits);
  POME_TRY(trace->start(path, {}, Existing::replace));
  return trace;
}

Status Trace::start(const std::filesystem::path& path, TraceWindow window, Existing existing) {
  const std::lock_guard lock(mutex_);
  if (under_way()) {
    return invalid("[trace] a recording is under way");
  }
  file_.reset();  // one whose window has ended writes its rest
  std::FILE* const stream =
      std::fopen(path.string().c_str(), existing == Existing::refuse ? "wbx" : "wb");
  if (stream == nullptr) {
    return invalid(
        fmt::format("[trace] cannot write '{}': {}", path.string(), std::strerror(errno)));
  }
  tracks_->begin_file();
  file_ = std::make_unique<File>(stream, limits_, *tracks_);
  window_ = std::move(window);
  last_step_.reset();
  const bool counts = window_.first_step || window_.steps > 0;
  counts_steps_ = counts;
  if (counts) {
    phase_.store(Phase::waiting, std::memory_order_release);
  } else {
    begin_window();
  }
  return {};
}

bool Trace::stop() {
  const std::lock_guard lock(mutex_);
  if (!under_way()) {
    return false;
  }
  end_window();
  file_.reset();
  return true;
}

void Trace::begin_window() {
  if (window_.on_begin) {
    window_.on_begin();
  }
  phase_.store(Phase::recording, std::memory_order_release);
}

void Trace::end_window() {
  const bool begun = recording();
  phase_.store(Phase::idle, std::memory_order_release);
  counts_steps_ = false;
  if (begun && window_.on_end) {
    window_.on_end();
  }
}

void Trace::step_begins(int64_t step) {
  if (!counts_steps_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::waiting && step >= window_.first_step.value_or(step)) {
    if (window_.steps > 0) {
      last_step_ = step + window_.steps - 1;
    }
    begin_window();
  }
}

void Trace::step_ends(int64_t step) {
  if (!counts_steps_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::recording && last_step_ && step >= *last_step_) {
    end_window();
    file_->close();
  }
}

void Trace::name_thread(std::string_view name) {
  Track& track = this_threads_track();
  std::string plain;
  append_plain(plain, name);
  const std::lock_guard lock(tracks_->mutex);
  track.name = std::move(plain);
  track.name_written = false;
}

void Trace::slice(const char* name, Clock::time_point begin, Clock::time_point end,
                  std::span<const TraceArg> args) {
  if (!recording()) {
    return;
  }
  Event event{.name = name, .at = begin, .duration = end - begin};
  event.take(args.data(), args.data() + args.size());
  record(event);
}

void Trace::begin(const char* name, uint64_t id, std::string_view text,
                  std::initializer_list<TraceArg> args) {
  if (!recording()) {
    return;
  }
  Event event{.name = name, .phase = Event::Phase::begin, .id = id, .at = Clock::now()};
  event.take(args.begin(), args.end());
  text.copy(event.text.data(), kTextBytes);
  record(event);
}

void Trace::end(const char* name, uint64_t id, std::initializer_list<TraceArg> args) {
  if (!recording()) {
    return;
  }
  Event event{.name = name, .phase = Event::Phase::end, .id = id, .at = Clock::now()};
  event.take(args.begin(), args.end());
  record(event);
}

int64_t Trace::dropped() const {
  return tracks_->dropped;
}

Trace::Track& Trace::this_threads_track() {
  struct Known {
    uint64_t serial = 0;
    Track* track = nullptr;
  };
  thread_local Known known;
  if (known.serial != serial_) {
    known = {serial_, &tracks_->add(limits_.events_per_thread)};
  }
  return *known.track;
}

void Trace::record(const Event& event) {
  if (!this_threads_track().push(event)) {
    ++tracks_->dropped;
  }
}

void TraceSpan::finish() {
  trace_->slice(name_, begin_, Trace::Clock::now(), std::span(args_).first(count_));
}

}  // namespace pome::telemetry
