#include "engine/memory/memory_ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace pome::engine {
namespace {

constexpr std::string_view kSuffix = ".plan";
constexpr const char* kPlanLock = "planning.lock";

Error trouble(const std::filesystem::path& path, const char* what) {
  return {ErrorCode::unavailable,
          fmt::format("[--memory-ledger] {} {}: {}", what, path.string(), std::strerror(errno)),
          {}};
}

int open_file(const std::filesystem::path& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

// "process planned loaded" in decimal; nothing when it is anything else.
std::optional<LedgerEntry> parse_entry(std::string_view text) {
  std::array<int64_t, 3> values = {};
  for (int64_t& value : values) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty() || (text.front() != ' ' && text.front() != '\n')) {
      return std::nullopt;
    }
    text.remove_prefix(1);
  }
  return LedgerEntry{values[0], values[1], values[2] != 0};
}

std::optional<LedgerEntry> read_entry(int file) {
  std::array<char, 128> text = {};
  const ssize_t bytes = ::pread(file, text.data(), text.size(), 0);
  return bytes <= 0 ? std::nullopt
                    : parse_entry(std::string_view(text.data(), static_cast<size_t>(bytes)));
}

}  // namespace

Result<MemoryLedger> MemoryLedger::open(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder.parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return trouble(folder, "cannot create");
  }
  struct stat about = {};
  if (::lstat(folder.c_str(), &about) != 0) {
    return trouble(folder, "cannot look at");
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != ::geteuid()) {
    return Error{ErrorCode::unavailable,
                 fmt::format("[--memory-ledger] {} is not a folder of this user", folder.string()),
                 {}};
  }
  return MemoryLedger(folder);
}

MemoryLedger::MemoryLedger(MemoryLedger&& other) noexcept
    : folder_(std::move(other.folder_)),
      own_file_(std::exchange(other.own_file_, {})),
      own_lock_(std::exchange(other.own_lock_, -1)),
      plan_lock_(std::exchange(other.plan_lock_, -1)) {}

MemoryLedger& MemoryLedger::operator=(MemoryLedger&& other) noexcept {
  if (this != &other) {
    leave();
    folder_ = std::move(other.folder_);
    own_file_ = std::exchange(other.own_file_, {});
    own_lock_ = std::exchange(other.own_lock_, -1);
    plan_lock_ = std::exchange(other.plan_lock_, -1);
  }
  return *this;
}

MemoryLedger::~MemoryLedger() {
  leave();
}

Status MemoryLedger::begin_plan() {
  const std::filesystem::path path = folder_ / kPlanLock;
  plan_lock_ = open_file(path, O_RDWR | O_CREAT);
  if (plan_lock_ < 0) {
    return trouble(path, "cannot open");
  }
  while (::flock(plan_lock_, LOCK_EX) != 0) {
    if (errno != EINTR) {
      const Error error = trouble(path, "cannot lock");
      end_plan();
      return error;
    }
  }
  return {};
}

void MemoryLedger::end_plan() {
  if (plan_lock_ >= 0) {
    ::close(std::exchange(plan_lock_, -1));
  }
}

std::vector<LedgerEntry> MemoryLedger::others() const {
  std::vector<LedgerEntry> entries;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(folder_, error)) {
    const std::filesystem::path& path = item.path();
    if (path.extension() != kSuffix || path == own_file_) {
      continue;
    }
    const int file = open_file(path, O_RDONLY);
    if (file < 0) {
      continue;
    }
    if (::flock(file, LOCK_SH | LOCK_NB) == 0) {
      ::unlink(path.c_str());  // whoever wrote it is gone
    } else if (const auto entry = read_entry(file)) {
      entries.push_back(*entry);
    }
    ::close(file);
  }
  return entries;
}

Status MemoryLedger::enter(const LedgerEntry& entry) {
  if (own_lock_ < 0) {
    static std::atomic<int> ledgers{0};
    own_file_ = folder_ / fmt::format("{}-{}{}", ::getpid(), ++ledgers, kSuffix);
    own_lock_ = open_file(own_file_, O_RDWR | O_CREAT | O_TRUNC);
    if (own_lock_ < 0 || ::flock(own_lock_, LOCK_EX | LOCK_NB) != 0) {
      const Error error = trouble(own_file_, "cannot lock");
      leave();
      return error;
    }
  }
  // Of one length, so that a reader never sees half of a longer one.
  const std::string text =
      fmt::format("{:020} {:020} {}\n", entry.process, entry.planned_bytes, entry.loaded ? 1 : 0);
  if (::pwrite(own_lock_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return trouble(own_file_, "cannot write");
  }
  return {};
}

void MemoryLedger::leave() {
  end_plan();
  if (own_lock_ >= 0) {
    ::unlink(own_file_.c_str());
    ::close(std::exchange(own_lock_, -1));
  }
}

int64_t claimed_bytes(const std::vector<LedgerEntry>& others,
                      const std::function<int64_t(const LedgerEntry&)>& occupied) {
  int64_t claimed = 0;
  for (const LedgerEntry& entry : others) {
    claimed += std::max<int64_t>(0, entry.planned_bytes - occupied(entry));
  }
  return claimed;
}

}  // namespace pome::engine
