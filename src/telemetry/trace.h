#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
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

// Records what happened when, into a file of Chrome's trace format (a JSON array), which Perfetto
// and chrome://tracing open; a file that was cut by a crash opens too. Each thread writes into a
// buffer of its own without a lock; one own thread writes the file. A full buffer drops events and
// counts them; nobody ever waits. Any thread; the recorder outlives whoever records.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kArgsMax = 6;     // further ones are left out
  static constexpr size_t kTextBytes = 64;  // longer texts are cut

  static Result<std::unique_ptr<Trace>> open(const std::filesystem::path& path,
                                             TraceLimits limits = {});
  ~Trace();  // writes the rest and ends the file
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // The calling thread's track is called so from now on.
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
  struct Event;
  struct Track;
  struct File;
  explicit Trace(std::unique_ptr<File> file);
  Track& this_threads_track();
  void record(const Event& event);

  const uint64_t serial_;  // tells this recorder's tracks from an earlier one's
  std::unique_ptr<File> file_;
};

// The time of a scope as a slice. Without a recorder it costs one branch.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, const char* name) : trace_(trace), name_(name) {
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
