#include "server/journal/request_record.h"

#include <algorithm>
#include <exception>
#include <span>

#include "base/log.h"
#include "base/utf8.h"
#include "protocol/errors.h"

namespace pome::server {
namespace {

using telemetry::RequestFigures;

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double milliseconds_of(double seconds) {
  return static_cast<double>(static_cast<int64_t>(seconds * 1e6)) / 1e3;
}

// One value as itself, several as a list.
json::value one_or_all(json::array values) {
  return values.size() == 1 ? values[0] : json::value(std::move(values));
}

}  // namespace

RequestRecord::RequestRecord(Journal& journal, const Request& request)
    : journal_(journal),
      id_(++journal.records_),
      aborts_before_(journal.aborts_),
      request_id_(request.id),
      endpoint_(request.path) {
  ++journal_.active_;
  if (journal_.trace_ != nullptr) {
    journal_.trace_->begin("request", id_, request_id_);
    stage_ = "read";
    journal_.trace_->begin(stage_, id_, endpoint_);
  }
}

RequestRecord::~RequestRecord() {
  --journal_.active_;
  const RequestFigures figures = this->figures();
  if (started_) {
    journal_.metrics_.observe_request(figures);
  }
  if (journal_.trace_ != nullptr) {
    journal_.trace_->end(stage_, id_);
    journal_.trace_->end("request", id_,
                         {{"prompt_tokens", figures.prompt_tokens},
                          {"cached_tokens", figures.cached_tokens},
                          {"completion_tokens", figures.completion_tokens}});
  }
  if (journal_.log_.enabled) {
    log_end(figures);
  }
}

void RequestRecord::receive(const std::vector<PromptJob>& prompts, bool stream) {
  for (const PromptJob& prompt : prompts) {
    const size_t index = prompts_.size();
    prompts_.push_back({.rid = prompt.rid, .tokens = static_cast<int64_t>(prompt.tokens.size())});
    for (int32_t k = 0; k < prompt.fields.choices; ++k) {
      choices_.push_back({.prompt = index});
    }
  }
  if (journal_.trace_ != nullptr) {
    journal_.trace_->end(stage_, id_);
    stage_ = "wait for the first token";
    journal_.trace_->begin(stage_, id_, prompts_.front().rid,
                           {{"prompt_tokens", prompts_.front().tokens},
                            {"prompts", static_cast<int64_t>(prompts_.size())},
                            {"choices", static_cast<int64_t>(choices_.size())}});
  }
  if (journal_.log_.enabled) {
    log_received(prompts, stream);
  }
}

void RequestRecord::saw(const Delta& delta) {
  CHECK(static_cast<size_t>(delta.choice) < choices_.size(),
        "a delta of a choice that was asked for");
  Choice& choice = choices_[static_cast<size_t>(delta.choice)];
  Prompt& prompt = prompts_[choice.prompt];
  prompt.cached_tokens = std::max<int64_t>(prompt.cached_tokens, delta.cached_tokens);
  if (!delta.tokens.empty()) {
    note_tokens(choice, delta);
  }
  if (logs_content()) {
    choice.text += delta.reasoning;
    choice.text += delta.text;
    for (const CallPiece& piece : delta.calls) {
      choice.text += piece.name;
      choice.text += piece.arguments;
    }
    if (journal_.log_.level == 2) {
      choice.text.resize(beginning_of(choice.text, kLoggedBytes).size());
    }
  }
  if (delta.finish == Finish::none) {
    return;
  }
  choice.finish = delta.finish;
  if (delta.finish == Finish::error && !error_) {
    error_ = delta.error;
  }
  if (choice.tokens > 1) {
    journal_.metrics_.observe_answer(seconds_between(choice.first_at, choice.last_at) /
                                     static_cast<double>(choice.tokens - 1));
  }
}

void RequestRecord::note_tokens(Choice& choice, const Delta& delta) {
  const auto count = static_cast<int64_t>(delta.tokens.size());
  if (choice.tokens > 0) {
    journal_.metrics_.observe_tokens(seconds_between(choice.last_at, delta.at), count);
  } else {
    choice.first_at = delta.at;
  }
  choice.last_at = delta.at;
  choice.tokens += count;
  if (first_token_) {
    return;
  }
  first_token_ = delta.at;
  if (journal_.trace_ != nullptr) {
    journal_.trace_->end(stage_, id_, {{"cached_tokens", delta.cached_tokens}});
    stage_ = "answer";
    journal_.trace_->begin(stage_, id_, prompts_.front().rid);
  }
}

double RequestRecord::seconds() const {
  return seconds_between(start_, Clock::now());
}

RequestFigures RequestRecord::figures() const {
  RequestFigures figures{.seconds = seconds()};
  if (first_token_) {
    figures.seconds_to_first_token = std::max(0.0, seconds_between(start_, *first_token_));
  }
  for (const Prompt& prompt : prompts_) {
    figures.prompt_tokens += prompt.tokens;
    figures.cached_tokens += prompt.cached_tokens;
  }
  bool unfinished = left_ || choices_.empty();
  for (const Choice& choice : choices_) {
    figures.completion_tokens += choice.tokens;
    unfinished |= choice.finish == Finish::none || choice.finish == Finish::abort;
  }
  if (std::uncaught_exceptions() > exceptions_ ||
      (error_ && error_->code != ErrorCode::cancelled)) {
    figures.end = RequestFigures::End::failed;
  } else if (unfinished) {
    figures.end = RequestFigures::End::aborted;
  }
  return figures;
}

bool RequestRecord::logs_content() const {
  return journal_.log_.enabled && journal_.log_.level >= 2;
}

json::object RequestRecord::head() const {
  json::array rids;
  for (const Prompt& prompt : prompts_) {
    rids.push_back(json::value(prompt.rid));
  }
  json::object fields;
  if (!rids.empty()) {
    fields["rid"] = one_or_all(std::move(rids));
  }
  fields["request_id"] = request_id_;
  fields["endpoint"] = endpoint_;
  return fields;
}

void RequestRecord::log_received(const std::vector<PromptJob>& prompts, bool stream) const {
  json::object fields = head();
  int64_t tokens = 0;
  for (const Prompt& prompt : prompts_) {
    tokens += prompt.tokens;
  }
  const protocol::GenerationFields& first = prompts.front().fields;
  fields["stream"] = stream;
  fields["prompts"] = prompts.size();
  fields["choices"] = choices_.size();
  fields["prompt_tokens"] = tokens;
  fields["max_tokens"] = first.max_tokens ? json::value(*first.max_tokens) : json::value(nullptr);
  fields["priority"] = first.priority;
  if (journal_.log_.level >= 1) {
    fields["sampling"] = sampling_body(first);
  }
  if (logs_content()) {
    json::array texts;
    for (const PromptJob& prompt : prompts) {
      // A token has at least one byte, or none at all where it is a control token.
      const size_t shown = journal_.log_.level == 2 ? std::min(prompt.tokens.size(), kLoggedBytes)
                                                    : prompt.tokens.size();
      const std::string text =
          valid_utf8(journal_.text_.tokenizer.decode(std::span(prompt.tokens).first(shown)));
      texts.push_back(json::value(journal_.log_.level == 2 ? beginning_of(text, kLoggedBytes)
                                                           : std::string_view(text)));
    }
    fields["prompt"] = one_or_all(std::move(texts));
  }
  write("request.received", fields);
}

void RequestRecord::log_end(const RequestFigures& figures) const {
  json::object fields = head();
  const bool threw = std::uncaught_exceptions() > exceptions_;
  fields["status"] = threw      ? 500
                     : error_   ? protocol::http_status(error_->code)
                     : started_ ? 200
                                : protocol::http_status(ErrorCode::cancelled);
  if (error_) {
    fields["error"] = protocol::error_type(error_->code);
    if (!error_->field.empty()) {
      fields["param"] = error_->field;
    }
  }
  json::array reasons;
  for (const Choice& choice : choices_) {
    reasons.push_back(json::value(choice.finish == Finish::error  ? "error"
                                  : choice.finish == Finish::none ? "abort"
                                                                  : finish_name(choice.finish)));
  }
  if (started_) {
    fields["finish_reason"] = one_or_all(std::move(reasons));
    fields["prompt_tokens"] = figures.prompt_tokens;
    fields["cached_tokens"] = figures.cached_tokens;
    fields["completion_tokens"] = figures.completion_tokens;
    fields["ttft_ms"] = figures.seconds_to_first_token
                            ? json::value(milliseconds_of(*figures.seconds_to_first_token))
                            : json::value(nullptr);
  }
  fields["latency_ms"] = milliseconds_of(figures.seconds);
  if (logs_content() && started_) {
    json::array texts;
    for (const Choice& choice : choices_) {
      texts.push_back(json::value(choice.text));
    }
    fields["text"] = one_or_all(std::move(texts));
  }
  write("request.finished", fields);
}

void RequestRecord::write(std::string_view event, const json::object& fields) const {
  const std::string line =
      request_line(journal_.log_.format, event, fields, std::chrono::system_clock::now());
  if (journal_.log_.format == LogFormat::json) {
    log::plain(line);
  } else {
    log::write(log::Level::info, line);
  }
}

}  // namespace pome::server
