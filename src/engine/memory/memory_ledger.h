#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"

namespace pome::engine {

// What one process has planned.
struct LedgerEntry {
  int64_t process = 0;  // its id
  int64_t planned_bytes = 0;
  bool loaded = false;  // its weights and pool are where they will be
};

// The pome processes of one user tell each other what they plan, so that two that start at once do
// not both take what is free. One small file a process in a folder; the kernel's lock on it ends
// with the process however that ends, so an entry without its lock is nobody's and is removed.
class MemoryLedger {
 public:
  // Creates the folder, for this user alone. Refused where it belongs to somebody else or cannot be
  // locked.
  static Result<MemoryLedger> open(const std::filesystem::path& folder);
  ~MemoryLedger();
  MemoryLedger(MemoryLedger&& other) noexcept;
  MemoryLedger& operator=(MemoryLedger&& other) noexcept;

  // Nobody else plans between begin_plan() and end_plan(); waits for who does.
  Status begin_plan();
  void end_plan();
  // The live entries of other processes (and of other ledgers of this one).
  std::vector<LedgerEntry> others() const;
  // Writes this process's entry; it stays until the ledger is destroyed.
  Status enter(const LedgerEntry& entry);

 private:
  explicit MemoryLedger(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void leave();

  std::filesystem::path folder_;
  std::filesystem::path own_file_ = {};
  int own_lock_ = -1;  // descriptors
  int plan_lock_ = -1;
};

// What others planned and have not taken yet: it is free and is theirs. `occupied` says what a
// process has taken.
int64_t claimed_bytes(const std::vector<LedgerEntry>& others,
                      const std::function<int64_t(const LedgerEntry&)>& occupied);

}  // namespace pome::engine
