#include "kvpool/page_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/check.h"
#include "tensor/dense.h"

namespace pome::kvpool {
namespace {

// Arrays start at cache lines; MLX's CPU buffers keep their size in the 8 bytes before the data.
constexpr int64_t kAlignment = 64;
constexpr int64_t kHeadBytes = sizeof(size_t);

}  // namespace

struct PageMemory::Mapping {
  std::byte* start = nullptr;
  int64_t bytes = 0;

  explicit Mapping(int64_t size) : bytes(size) {
    void* address = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      throw std::runtime_error(
          fmt::format("[KvPool] cannot reserve {} MiB for the KV cache: {}; ask for a smaller "
                      "context or fewer cached tokens",
                      size >> 20, std::strerror(errno)));
    }
    start = static_cast<std::byte*>(address);
  }
  ~Mapping() { munmap(start, static_cast<size_t>(bytes)); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

PageMemory::PageMemory(int64_t bytes) {
  CHECK(bytes > 0, "a pool without memory");
  if (commits_as_used()) {
    mapping_ = std::make_shared<Mapping>(bytes);
  }
}

mx::array PageMemory::cut(const mx::Shape& shape, mx::Dtype dtype) {
  if (!mapping_) {
    mx::array zeros = mx::zeros(shape, dtype);
    zeros.eval();  // at construction only: the pool's first handles must be memory, not a graph
    return zeros;
  }
  int64_t bytes = static_cast<int64_t>(dtype.size());
  for (mx::ShapeElem extent : shape) {
    bytes *= extent;
  }
  CHECK(used_ + room(bytes) <= mapping_->bytes, "more arrays than the pool reserved");
  std::byte* data = mapping_->start + used_ + kAlignment;
  used_ += room(bytes);
  const auto size = static_cast<size_t>(bytes);
  std::memcpy(data - kHeadBytes, &size, sizeof size);
  auto release = [mapping = mapping_](mx::allocator::Buffer) {};
  return mx::array(mx::allocator::Data(mx::allocator::Buffer(data - kHeadBytes), release), shape,
                   dtype);
}

bool PageMemory::commits_as_used() {
  return tensor::can_alias_files();
}

int64_t PageMemory::room(int64_t array_bytes) {
  return kAlignment + (array_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace pome::kvpool
