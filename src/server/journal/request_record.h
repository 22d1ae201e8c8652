#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/generation/delta.h"
#include "server/generation/generation.h"
#include "server/generation/served_text.h"
#include "server/http/request.h"
#include "server/journal/request_log.h"
#include "telemetry/server_metrics.h"
#include "telemetry/trace.h"

namespace pome::server {

// What the records of all requests share. Network thread only.
class Journal {
 public:
  Journal(telemetry::ServerMetrics& metrics, telemetry::Trace* trace, RequestLogOptions log,
          const ServedText& text)
      : metrics_(metrics), trace_(trace), log_(log), text_(text) {}

  int active() const { return active_; }  // requests that have begun and not ended
  // Requests that are still being read when everything is aborted end too.
  void abort_what_is_read() { ++aborts_; }

 private:
  friend class RequestRecord;
  telemetry::ServerMetrics& metrics_;
  telemetry::Trace* const trace_;
  const RequestLogOptions log_;
  const ServedText& text_;
  int active_ = 0;
  uint64_t records_ = 0;
  uint64_t aborts_ = 0;
};

// One request from its arrival to its end, which the destructor notes. Network thread only.
class RequestRecord {
 public:
  RequestRecord(Journal& journal, const Request& request);
  ~RequestRecord();
  RequestRecord(const RequestRecord&) = delete;
  RequestRecord& operator=(const RequestRecord&) = delete;

  // The request is understood: this is what it asks for.
  void receive(const std::vector<PromptJob>& prompts, bool stream);
  // The engine has taken it.
  void start() { started_ = true; }
  void saw(const Delta& delta);
  // This is all of the answer.
  void refuse(const Error& error) { error_ = error; }
  // The client did not take the whole answer.
  void leave() { left_ = true; }

  int choice_count() const { return static_cast<int>(choices_.size()); }

  bool was_aborted() const { return aborts_before_ != journal_.aborts_; }
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    size_t prompt = 0;
    Finish finish = Finish::none;
    int64_t tokens = 0;
    Clock::time_point first_at = {};
    Clock::time_point last_at = {};
    std::string text = {};  // what the log will show of it
  };
  struct Prompt {
    std::string rid;
    int64_t tokens = 0;
    int64_t cached_tokens = 0;
  };

  void note_tokens(Choice& choice, const Delta& delta);
  void log_received(const std::vector<PromptJob>& prompts, bool stream) const;
  void log_end(const telemetry::RequestFigures& figures) const;
  telemetry::RequestFigures figures() const;
  json::object head() const;
  bool logs_content() const;
  void write(std::string_view event, const json::object& fields) const;

  Journal& journal_;
  const uint64_t id_;
  const uint64_t aborts_before_;
  const std::string request_id_;
  const std::string endpoint_;
  const Clock::time_point start_ = Clock::now();
  const int exceptions_ = std::uncaught_exceptions();
  const char* stage_ = nullptr;  // the open part of the trace
  bool started_ = false;
  bool left_ = false;
  std::optional<Error> error_;
  std::optional<Clock::time_point> first_token_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
};

}  // namespace pome::server
