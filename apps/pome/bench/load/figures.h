#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "pome/bench/load/dataset.h"
#include "pome/bench/load/requests.h"
#include "pome/bench/load/statistics.h"

namespace pome::apps {

// What a load on a server amounts to. Times of failed requests count nowhere.
struct LoadFigures {
  double duration_s = 0.0;
  int32_t completed = 0;
  int32_t failed = 0;
  int64_t input_tokens = 0;  // of the data set's rows
  int64_t output_tokens = 0;
  std::optional<int64_t> output_tokens_read_again = {};  // of the texts, through the tokenizer
  Distribution latency_s = {};
  Distribution ttft_s = {};
  Distribution tpot_s = {};  // of answers with more than one token
  Distribution itl_s = {};
  double latency_sum_s = 0.0;
  double output_tokens_per_s_max = 0.0;  // in one second of the load
  int32_t requests_together_max = 0;
  int64_t prompt_tokens_served = 0;  // as the server counts prompts
  int64_t cached_tokens = 0;
  std::optional<double> accept_length = {};  // of drafts, where the server has any

  double per_s(double amount) const { return duration_s > 0 ? amount / duration_s : 0.0; }
};

LoadFigures figures_of(const std::vector<DatasetRow>& rows,
                       const std::vector<RequestOutcome>& outcomes, double duration_s);

struct LoadTitle {
  std::string backend;
  double requests_per_s = 0.0;  // 0: all at once
  int32_t together_max = 0;
  bool cache_report = false;
};

// SGLang's table: 50 columns, labels in the first 40.
std::string load_table(const LoadTitle& title, const LoadFigures& figures);
// SGLang's result fields, without those that repeat the arguments.
json::object load_fields(const LoadFigures& figures);
// One entry a request: lengths, times, texts, errors.
json::object load_details(const std::vector<RequestOutcome>& outcomes);

// Lines of such tables.
std::string table_banner(std::string_view text, char fill);
std::string table_line(std::string_view label, double value);
std::string table_line(std::string_view label, int64_t value);
std::string table_line(std::string_view label, std::string_view value);

}  // namespace pome::apps
