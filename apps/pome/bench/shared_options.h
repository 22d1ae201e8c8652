#pragma once

#include <string>
#include <vector>

#include "pome/bench/load/dataset.h"
#include "pome/bench/options.h"
#include "pome/bench/target/target.h"

namespace pome::apps {

// Rows that several benchmarks have, and what was given for them.

std::vector<Flag> dataset_rows(const std::string& default_name);
// Fetches ShareGPT where its file is wanted and no --dataset-path names one.
Result<DatasetOptions> dataset_options(BenchOptions& options);

// What --batch-size, --input-len and --output-len ask for, each combination.
struct BatchShape {
  int32_t batch = 1;
  int32_t input = 1024;  // tokens of each prompt
  int32_t output = 16;   // and of each answer

  bool operator==(const BatchShape&) const = default;
};
std::vector<BatchShape> batch_shapes(BenchOptions& options);

std::vector<Flag> target_rows();
Result<std::unique_ptr<Target>> open_target(BenchOptions& options);

// `steps`: the default of --profile-steps; empty: until the load has ended.
std::vector<Flag> profile_rows(const std::string& steps);
ProfileOrder profile_order(BenchOptions& options);

// Options that ask for what no server of text alone has.
std::vector<Flag> foreign_rows();

// Reads the words, warns about what has no effect, and runs. The exit code: 2 where an option is
// wrong.
int run_with_options(const std::vector<std::string>& words, const std::vector<Flag>& rows,
                     bool launch, Status (*run)(BenchOptions& options));

// Appends one line of JSON.
Status append_line(const std::string& file, const json::object& line);

}  // namespace pome::apps
