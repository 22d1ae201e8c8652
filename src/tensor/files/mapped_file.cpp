#include "tensor/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace pome::tensor {
namespace {

Error file_error(const std::filesystem::path& path, int error) {
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::invalid_argument;
  return {code,
          fmt::format("[checkpoint] cannot read {}: {}", path.string(), std::strerror(error)),
          {}};
}

// The whole pages inside `part`.
std::span<std::byte> whole_pages(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + part.size()) / page * page;
  if (last <= first) {
    return {};
  }
  return {reinterpret_cast<std::byte*>(first), last - first};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return file_error(path, errno);
  }
  struct stat status = {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    return file_error(path, error);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    return invalid(fmt::format("[checkpoint] {} is not a plain file", path.string()));
  }
  const auto size = static_cast<size_t>(status.st_size);
  std::span<const std::byte> bytes;
  if (size > 0) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      return file_error(path, error);
    }
    bytes = {static_cast<const std::byte*>(address), size};
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

void MappedFile::drop(std::span<const std::byte> part) const {
  if (const std::span<std::byte> pages = whole_pages(part); !pages.empty()) {
    ::madvise(pages.data(), pages.size(), MADV_DONTNEED);
  }
}

Result<std::optional<std::string>> read_file(const std::filesystem::path& path,
                                             uint64_t bytes_max) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return std::optional<std::string>();
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return file_error(path, errno);
  }
  std::string text;
  char part[65536];
  ssize_t got = 0;
  while (text.size() <= bytes_max && (got = ::read(fd, part, sizeof part)) > 0) {
    text.append(part, static_cast<size_t>(got));
  }
  const int read_error = errno;
  ::close(fd);
  if (got < 0) {
    return file_error(path, read_error);
  }
  if (text.size() > bytes_max) {
    return Error{ErrorCode::too_large,
                 fmt::format("[checkpoint] {} has more than {} bytes", path.string(), bytes_max),
                 {}};
  }
  return std::optional<std::string>(std::move(text));
}

}  // namespace pome::tensor
