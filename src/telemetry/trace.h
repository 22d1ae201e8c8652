#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace pome::telemetry {

// A figure of a span. The name must live as long as the program: a string literal.
struct TraceArg {
  const char* name = nullptr;
  int64_t value = 0;
};

struct TraceLimits {
  size_t events_per_thread = 8192;         // between two writes; what comes past them is dropped
  int64_t bytes_max = int64_t{512} << 20;  // of the file; recording ends there
  std::chrono::milliseconds write_every{100};
};

// Which part of a run a recording holds. Steps are counted as who calls step_begins() counts them.
struct TraceWindow {
  std::optional<int64_t> first_step = {};  // absent: from the next step on, or at once
  int64_t steps = 0;                       // 0: until stop()
  // Called once each, where the window begins and ends: on the thread of the step, or of start()
  // and stop(). They must not call the recorder.
  std::function<void()> on_begin = {};
  std::function<void()> on_end = {};
};

// Records what happened when, into files of Chrome's trace format (a JSON array), which Perfetto
// and chrome://tracing open; a file that was cut by a crash opens too. Between recordings a span
// costs two loads. Each thread writes into a buffer of its own without a lock; one own thread
// writes the file. A full buffer drops events and counts them; nobody ever waits. Any thread; the
// recorder outlives whoever records.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kArgsMax = 6;     // further ones are left out
  static constexpr size_t kTextBytes = 64;  // longer texts are cut

  explicit Trace(TraceLimits limits = {});
  // One that records already.
  static Result<std::unique_ptr<Trace>> open(const std::filesystem::path& path,
                                             TraceLimits limits = {});
  ~Trace();  // as stop()
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Begins a file that must not exist yet, unless `replace`. Refused while a recording is under
  // way.
  enum class Existing { refuse, replace };
  Status start(const std::filesystem::path& path, TraceWindow window = {},
               Existing existing = Existing::refuse);
  // Writes the rest and ends the file. False when no recording was under way: none was started, or
  // its window has ended.
  bool stop();
  // From start() to the end of the window.
  bool under_way() const { return phase_.load(std::memory_order_acquire) != Phase::idle; }
  // Whether spans are kept now.
  bool recording() const { return phase_.load(std::memory_order_acquire) == Phase::recording; }
  // Who runs steps tells their bounds, on one thread. Steps rise; up to two overlap.
  void step_begins(int64_t step);
  void step_ends(int64_t step);

  // The calling thread's track is called so from now on, in each recording.
  void name_thread(std::string_view name);

  // A slice of the calling thread's track.
  void slice(const char* name, Clock::time_point begin, Clock::time_point end,
             std::span<const TraceArg> args);
  // Parts of something that crosses threads, as a request does: begin and end of the same name and
  // id belong together, and those of one id nest.
  void begin(const char* name, uint64_t id, std::string_view text = {},
             std::initializer_list<TraceArg> args = {});
  void end(const char* name, uint64_t id, std::initializer_list<TraceArg> args = {});

  int64_t dropped() const;  // events that found a full buffer or a full file

 private:
  enum class Phase { idle, waiting, recording };  // waiting: for the window's first step
  struct Event;
  struct Track;
  struct Tracks;
  struct File;
  Track& this_threads_track();
  void record(const Event& event);
  void begin_window();
  void end_window();

  const uint64_t serial_;  // tells this recorder's tracks from an earlier one's
  const TraceLimits limits_;
  const std::unique_ptr<Tracks> tracks_;
  std::atomic<Phase> phase_{Phase::idle};
  std::atomic<bool> counts_steps_{false};  // whether step bounds matter now

  std::mutex mutex_;  // guards what follows; taken where recordings begin and end
  std::unique_ptr<File> file_;
  TraceWindow window_;
  std::optional<int64_t> last_step_;
};

// The time of a scope as a slice. Without a recorder it costs one branch.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, const char* name)
      : trace_(trace != nullptr && trace->recording() ? trace : nullptr), name_(name) {
    if (trace_ != nullptr) {
      begin_ = Trace::Clock::now();
    }
  }
  ~TraceSpan() {
    if (trace_ != nullptr) {
      finish();
    }
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  // A figure of the slice, where it is known only at the end of the scope too.
  void arg(const char* name, int64_t value) {
    if (trace_ != nullptr && count_ < args_.size()) {
      args_[count_++] = {name, value};
    }
  }

 private:
  void finish();

  Trace* const trace_;
  const char* const name_;
  Trace::Clock::time_point begin_ = {};
  std::array<TraceArg, Trace::kArgsMax> args_ = {};
  size_t count_ = 0;
};

}  // namespace pome::telemetry
