#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "hub/transfer/http.h"
#include "hub/transfer/settings.h"

namespace pome::hub {

enum class Stage { resolving, downloading, verifying, unpacking };

struct Progress {
  Stage stage = Stage::resolving;
  std::string file;         // as a person knows it
  int64_t bytes_done = 0;   // of all files of this pull
  int64_t bytes_total = 0;  // 0 while unknown
};

// Called often, on the pulling thread; false stops the pull, and what has arrived is kept for the
// next one.
using OnProgress = std::function<bool(const Progress&)>;

// A file as its source describes it. An empty digest is not checked; bytes < 0: unknown.
struct RemoteFile {
  std::string name;  // for messages
  std::string url;
  std::map<std::string, std::string> headers;
  int64_t bytes = -1;
  std::string sha256;
  std::string git_sha1;
};

// Fetches one file to `target`, which exists afterwards only if its size and digest are right. A
// broken connection is resumed with a Range request, at once and in later calls (`target` +
// ".incomplete"); a server without ranges costs a new start, a wrong digest one too and then an
// error. Two processes may ask for the same file: one waits. `arrived` hears the bytes of this file
// that are there; false stops.
Status download_file(const Settings& settings, const RemoteFile& file,
                     const std::filesystem::path& target,
                     const std::function<bool(Stage stage, int64_t bytes)>& arrived);

// A request to `url` with the settings' proxy, CA and time-outs.
HttpRequest request_for(const Settings& settings, const std::string& url);

// An exclusive lock on a file, held until destruction. acquire() waits for other processes; setting
// `stop` (may be null) ends that with `cancelled`.
class FileLock {
 public:
  static Result<FileLock> acquire(const std::filesystem::path& path, const std::atomic<bool>* stop);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

// How much of `target` lies on disk already, whole or as a download that was interrupted.
int64_t bytes_arrived(const std::filesystem::path& target);

// An error with both numbers when fewer than `bytes` are free where `folder` is or will be.
Status check_free_space(const std::filesystem::path& folder, int64_t bytes);

}  // namespace pome::hub
