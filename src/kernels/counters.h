#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Which kernel variants ran, and how often: tests assert with them that both sides of a threshold
// were covered, and /get_server_info shows them.
namespace pome::kernels {

// One per variant, at namespace scope in the file of the variant. Names are "kernel/variant".
class VariantCounter {
 public:
  explicit VariantCounter(const char* name);
  void add() { runs_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend struct VariantRegistry;
  const char* name_;
  std::atomic<uint64_t> runs_{0};
  VariantCounter* next_ = nullptr;
};

struct VariantRuns {
  std::string name;
  uint64_t runs = 0;
};

// Runs since the start; 0 for a name that no variant has. Any thread.
uint64_t variant_runs(std::string_view name);

// Every variant that this program contains, sorted by name.
std::vector<VariantRuns> all_variant_runs();

}  // namespace pome::kernels
