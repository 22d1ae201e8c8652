#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace pome::bench {

// A checkpoint of a known model's shape with random bfloat16 weights, in a folder of its own that
// goes with this object. For timing without a download.
class RandomCheckpoint {
 public:
  // The names that make() knows.
  static std::vector<std::string> shapes();
  // Writes up to some GiB below the temporary folder. Unknown names and a full disk are errors.
  static Result<std::unique_ptr<RandomCheckpoint>> make(const std::string& shape);

  ~RandomCheckpoint();
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit RandomCheckpoint(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

}  // namespace pome::bench
