#include "kernels/counters.h"

#include <algorithm>

namespace pome::kernels {

struct VariantRegistry {
  // A list threaded through the counters themselves: they register during static initialisation,
  // one after another.
  static VariantCounter*& head() {
    static VariantCounter* first = nullptr;
    return first;
  }
  static void add(VariantCounter* counter) {
    counter->next_ = head();
    head() = counter;
  }
  template <typename Visit>
  static void each(Visit visit) {
    for (const VariantCounter* c = head(); c != nullptr; c = c->next_) {
      visit(std::string_view(c->name_), c->runs_.load(std::memory_order_relaxed));
    }
  }
};

VariantCounter::VariantCounter(const char* name) : name_(name) {
  VariantRegistry::add(this);
}

uint64_t variant_runs(std::string_view name) {
  uint64_t total = 0;
  VariantRegistry::each([&](std::string_view known, uint64_t runs) {
    if (known == name) {
      total += runs;
    }
  });
  return total;
}

std::vector<VariantRuns> all_variant_runs() {
  std::vector<VariantRuns> all;
  VariantRegistry::each([&](std::string_view name, uint64_t runs) {
    all.push_back({std::string(name), runs});
  });
  std::sort(all.begin(), all.end(),
            [](const VariantRuns& a, const VariantRuns& b) { return a.name < b.name; });
  return all;
}

}  // namespace pome::kernels
