#include "hub/transfer/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "hub/transfer/digest.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

namespace fs = std::filesystem;
constexpr const char* kUnfinished = ".incomplete";
using Arrived = std::function<bool(Stage stage, int64_t bytes)>;

Error full_disk(const fs::path& folder, int64_t needed, int64_t available) {
  return {ErrorCode::unavailable,
          fmt::format("not enough disk space: {} needed, {} free in {}; free some, or set HF_HOME "
                      "or POME_CACHE to "
                      "another disk",
                      format_bytes(needed), format_bytes(available), folder.string()),
          ""};
}

int64_t free_bytes(fs::path folder) {
  std::error_code error;
  while (!folder.empty() && !fs::exists(folder, error) && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  const fs::space_info space = fs::space(folder.empty() ? fs::path(".") : folder, error);
  return error ? INT64_MAX : static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

// "bytes 100-199/1000": where the part starts, and the whole length if it is given.
struct ContentRange {
  int64_t begin = -1;
  int64_t total = -1;
};

ContentRange parse_content_range(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) {
    return range;
  }
  text.remove_prefix(6);
  std::from_chars(text.data(), text.data() + text.size(), range.begin);
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    std::from_chars(text.data() + slash + 1, text.data() + text.size(), range.total);
  }
  return range;
}

// The half of a download that lies on disk.
class PartFile {
 public:
  explicit PartFile(fs::path path) : path_(std::move(path)) {}
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() { close(); }

  // Opens for appending at `offset`, cutting off what lies behind it.
  Status open_at(int64_t offset) {
    close();
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0 || ::ftruncate(descriptor_, offset) != 0 ||
        ::lseek(descriptor_, offset, SEEK_SET) < 0) {
      return failed();
    }
    return {};
  }

  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) {
        return failed();
      }
      bytes = bytes.subspan(static_cast<size_t>(std::max<ssize_t>(written, 0)));
    }
    return {};
  }

  Status finish() {
    if (descriptor_ >= 0 && ::fsync(descriptor_) != 0) {
      return failed();
    }
    close();
    return {};
  }

 private:
  void close() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }

  Status failed() const {
    if (errno == ENOSPC || errno == EDQUOT) {
      return full_disk(path_.parent_path(), size_of(path_) + 1, free_bytes(path_.parent_path()));
    }
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)), ""};
  }

  const fs::path path_;
  int descriptor_ = -1;
};

Status refuse_status(const RemoteFile& file, int status) {
  return Error{status == 404 ? ErrorCode::not_found
                             : (status == 401 || status == 403 ? ErrorCode::unauthorized
                                                               : ErrorCode::unavailable),
               fmt::format("{}: {} answered {}", file.name, url_host(file.url), status), ""};
}

bool may_retry(const Error& error) {
  return error.code == ErrorCode::timeout || error.code == ErrorCode::unavailable;
}

// One exchange from where the part file ends.
class Transfer {
 public:
  Transfer(const Settings& settings, const RemoteFile& file, const fs::path& part,
           const Arrived& arrived)
      : settings_(settings), file_(file), part_path_(part), arrived_(arrived), part_(part) {}

  Status run() {
    offset_ = size_of(part_path_);
    if (file_.bytes >= 0 && offset_ > file_.bytes) {
      offset_ = 0;
    }
    if (file_.bytes > 0 && offset_ == file_.bytes) {
      return {};
    }
    HttpRequest request = request_for(settings_, file_.url);
    request.headers.insert(file_.headers.begin(), file_.headers.end());
    request.headers["Accept-Encoding"] = "identity";
    if (offset_ > 0) {
      request.headers["Range"] = fmt::format("bytes={}-", offset_);
    }
    const HttpSink sink{[this](const HttpResponse& head) { return on_head(head); },
                        [this](std::span<const std::byte> bytes) { return on_body(bytes); }};
    const auto head = http_exchange(request, sink);
    POME_TRY(outcome_);
    if (!head) {
      return head.error();
    }
    POME_TRY(part_.finish());
    if (expected_ >= 0 && offset_ < expected_) {
      return Error{
          ErrorCode::unavailable,
          fmt::format("{}: the connection ended at byte {} of {}", file_.name, offset_, expected_),
          ""};
    }
    return {};
  }

  // Another try would end in the same way.
  bool permanent() const { return permanent_; }

 private:
  bool on_head(const HttpResponse& head) {
    const ContentRange range = parse_content_range(head.header("content-range"));
    expected_ = file_.bytes;
    if (head.status == 206 && range.begin == offset_) {
      expected_ = expected_ >= 0 ? expected_ : range.total;
    } else if (head.status == 200) {
      offset_ = 0;  // no ranges here: from the start
    } else {
      refuse(head.status);
      return false;
    }
    outcome_ = part_.open_at(offset_);
    permanent_ = !outcome_.ok();
    return outcome_.ok();
  }

  void refuse(int status) {
    const bool wrong_range = status == 416 || status == 206;
    if (wrong_range) {
      std::error_code ignored;
      fs::remove(part_path_, ignored);
    }
    permanent_ = !wrong_range && status != 429 && status < 500;
    outcome_ = refuse_status(file_, status);
  }

  bool on_body(std::span<const std::byte> bytes) {
    offset_ += static_cast<int64_t>(bytes.size());
    if (expected_ >= 0 && offset_ > expected_) {
      permanent_ = true;
      outcome_ = Error{ErrorCode::unavailable,
                       fmt::format("{}: the server sends more than the {} bytes it announced",
                                   file_.name, expected_),
                       ""};
      return false;
    }
    outcome_ = part_.append(bytes);
    if (!outcome_.ok()) {
      permanent_ = true;
      return false;
    }
    if (!arrived_(Stage::downloading, offset_)) {
      outcome_ = Error{ErrorCode::cancelled, "stopped", ""};
      return false;
    }
    return true;
  }

  const Settings& settings_;
  const RemoteFile& file_;
  const fs::path& part_path_;
  const Arrived& arrived_;
  PartFile part_;
  int64_t offset_ = 0;
  int64_t expected_ = -1;
  bool permanent_ = false;
  Status outcome_;
};

// False when the transfer is to stop.
bool pause_between_attempts(const Settings& settings, std::chrono::milliseconds pause) {
  const auto end = std::chrono::steady_clock::now() + pause;
  while (!(settings.stop && *settings.stop) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::min(pause, std::chrono::milliseconds(50)));
  }
  return !(settings.stop && *settings.stop);
}

Status transfer_with_retries(const Settings& settings, const RemoteFile& file, const fs::path& part,
                             const Arrived& arrived) {
  auto pause = std::chrono::milliseconds(settings.retry_pause_ms);
  for (int attempt = 1;; ++attempt) {
    const int64_t before = size_of(part);
    Transfer transfer(settings, file, part, arrived);
    const Status status = transfer.run();
    if (status.ok() || transfer.permanent() || !may_retry(status.error())) {
      return status;
    }
    if (size_of(part) > before) {
      attempt = 1;  // it moves; only a standstill uses up attempts
    }
    if (attempt >= settings.attempts_max) {
      return Error{
          status.error().code,
          fmt::format(
              "{}; tried {} times. What has arrived is kept: run the same command again to go on",
              status.error().message, attempt),
          ""};
    }
    if (!pause_between_attempts(settings, pause)) {
      return Error{ErrorCode::cancelled, "stopped", ""};
    }
    pause = std::min(pause * 2, std::chrono::milliseconds(8000));
  }
}

Status verify(const RemoteFile& file, const fs::path& path, const Arrived& arrived) {
  const int64_t bytes = size_of(path);
  if (file.bytes >= 0 && bytes != file.bytes) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{}: expected {} bytes, got {}", file.name, file.bytes, bytes), ""};
  }
  const auto check = [&](Algorithm algorithm, const std::string& prefix,
                         const std::string& expected) -> Status {
    auto digest = digest_file(path, algorithm, prefix,
                              [&](int64_t seen) { return arrived(Stage::verifying, seen); });
    if (!digest) {
      return digest.error();
    }
    if (digest.value() != expected) {
      return Error{ErrorCode::unavailable,
                   fmt::format("{}: the checksum is wrong (expected {}…, got {}…): the file was "
                               "damaged on its way or "
                               "changed at its source",
                               file.name, expected.substr(0, 12), digest.value().substr(0, 12)),
                   ""};
    }
    return {};
  };
  if (!file.sha256.empty()) {
    return check(Algorithm::sha256, "", file.sha256);
  }
  if (!file.git_sha1.empty()) {
    return check(Algorithm::sha1, git_blob_prefix(bytes), file.git_sha1);
  }
  return {};
}

}  // namespace

HttpRequest request_for(const Settings& settings, const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.ca_file = settings.ca_file;
  request.proxy = proxy_for(settings, url);
  request.connect_timeout_s = settings.connect_timeout_s;
  request.read_timeout_s = settings.read_timeout_s;
  request.stop = settings.stop;
  return request;
}

int64_t bytes_arrived(const fs::path& target) {
  return std::max(size_of(target), size_of(target.string() + kUnfinished));
}

Status check_free_space(const fs::path& folder, int64_t bytes) {
  const int64_t available = free_bytes(folder);
  if (available < bytes) {
    return full_disk(folder, bytes, available);
  }
  return {};
}

Status download_file(const Settings& settings, const RemoteFile& file, const fs::path& target,
                     const Arrived& arrived) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  auto lock = FileLock::acquire(target.string() + ".lock", settings.stop);
  if (!lock) {
    return lock.error();
  }
  if (fs::exists(target, error)) {
    return {};
  }
  const fs::path part = target.string() + kUnfinished;
  if (file.bytes > 0) {
    POME_TRY(check_free_space(target.parent_path(), file.bytes - size_of(part)));
  }
  for (int round = 1;; ++round) {
    const bool resumed = size_of(part) > 0;
    POME_TRY(transfer_with_retries(settings, file, part, arrived));
    const Status verdict = verify(file, part, arrived);
    if (verdict.ok()) {
      break;
    }
    if (verdict.error().code == ErrorCode::cancelled) {
      return verdict;
    }
    fs::remove(part, error);
    if (!resumed || round > 1) {
      return verdict;
    }
  }
  fs::rename(part, target, error);
  if (error) {
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot write {}: {}", target.string(), error.message()), ""};
  }
  fs::remove(target.string() + ".lock", error);
  return {};
}

Result<FileLock> FileLock::acquire(const fs::path& path, const std::atomic<bool>* stop) {
  constexpr std::chrono::milliseconds kLook{50};
  while (true) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      return Error{ErrorCode::unavailable,
                   fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)), ""};
    }
    FileLock lock(descriptor);
    while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        return Error{ErrorCode::unavailable,
                     fmt::format("cannot lock {}: {}", path.string(), std::strerror(errno)), ""};
      }
      if (stop && *stop) {
        return Error{ErrorCode::cancelled, "stopped", ""};
      }
      std::this_thread::sleep_for(kLook);
    }
    // Its last holder may have removed the file while this process waited.
    struct stat ours {};
    struct stat current {};
    if (::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &current) == 0 &&
        ours.st_ino == current.st_ino) {
      return lock;
    }
  }
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

}  // namespace pome::hub
