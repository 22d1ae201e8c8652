#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "hub/transfer/settings.h"
#include "pome/model/open_model.h"
#include "sampling/params.h"

namespace pome::apps {

// What a person may set for one answer; absent values are the model's defaults.
struct AnswerOptions {
  std::optional<int32_t> max_tokens;  // absent: what the context leaves
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<uint64_t> seed;
};

struct Answer {
  std::string text;
  std::string finish;  // "stop", "length", "interrupted"
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  double first_token_s = 0;  // from the question to the first token
  double total_s = 0;
};

// "12 prompt tokens at 340.1/s, 57 answer tokens at 98.7/s".
std::string speed_line(const Answer& answer);

// Somebody who answers, in this process or behind a URL. One question at a time, on the calling
// thread.
class Speaker {
 public:
  using OnText = std::function<void(std::string_view piece)>;

  virtual ~Speaker() = default;

  // Streams the answer to `messages` (OpenAI's shape) into `on_text`. Setting `stop` ends it early,
  // which is no error.
  virtual Result<Answer> answer(const json::array& messages, const AnswerOptions& options,
                                const OnText& on_text, const std::atomic<bool>& stop) = 0;
  virtual std::string name() const = 0;
};

// Waits until the model is loaded.
Result<std::unique_ptr<Speaker>> make_local_speaker(OpenModel model);
// `url`: "http://host:port", with or without "/v1".
std::unique_ptr<Speaker> make_remote_speaker(std::string url, std::string api_key,
                                             hub::Settings hub);

}  // namespace pome::apps
