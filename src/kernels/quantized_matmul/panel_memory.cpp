#include "kernels/quantized_matmul/panel_memory.h"

#include <sys/mman.h>

#include <mutex>
#include <new>

namespace pome::kernels {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kChunk = int64_t{16} << 20;
constexpr int64_t kAlignment = 64;

int64_t round_up(int64_t bytes, int64_t to) {
  return (bytes + to - 1) / to * to;
}

struct Mapping {
  void* start = nullptr;
  int64_t bytes = 0;

  explicit Mapping(int64_t size) : bytes(size) {
    start = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
      throw std::bad_alloc();
    }
#ifdef MADV_HUGEPAGE
    // A wish: without huge pages everything works, a little slower.
    madvise(start, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  }
  ~Mapping() {
    munmap(start, static_cast<size_t>(bytes));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // The first huge page in it.
  uint8_t* first() const {
    const auto address = reinterpret_cast<uintptr_t>(start);
    return reinterpret_cast<uint8_t*>((address + kHugePage - 1) / kHugePage * kHugePage);
  }
};

// The chunk that small matrices are placed in; it lives on in the matrices that it holds.
struct OpenChunk {
  std::mutex mutex;
  std::weak_ptr<Mapping> mapping;
  uint8_t* next = nullptr;
  int64_t left = 0;
};

OpenChunk& open_chunk() {
  static OpenChunk chunk;
  return chunk;
}

}  // namespace

PanelMemory PanelMemory::allocate(int64_t bytes) {
  const int64_t rounded = round_up(bytes, kAlignment);
  PanelMemory memory;
  memory.rounded_ = rounded;
  if (rounded > kChunk / 2) {
    auto own = std::make_shared<Mapping>(round_up(rounded, kHugePage) + kHugePage);
    memory.bytes_ = own->first();
    memory.chunk_ = std::move(own);
    return memory;
  }
  OpenChunk& chunk = open_chunk();
  std::lock_guard lock(chunk.mutex);
  std::shared_ptr<Mapping> mapping = chunk.mapping.lock();
  if (!mapping || chunk.left < rounded) {
    mapping = std::make_shared<Mapping>(kChunk + kHugePage);
    chunk.mapping = mapping;
    chunk.next = mapping->first();
    chunk.left = kChunk;
  }
  memory.bytes_ = chunk.next;
  memory.chunk_ = std::move(mapping);
  chunk.next += rounded;
  chunk.left -= rounded;
  return memory;
}

void PanelMemory::give_back() {
  OpenChunk& chunk = open_chunk();
  std::lock_guard lock(chunk.mutex);
  if (chunk_ && chunk.mapping.lock() == chunk_ && bytes_ + rounded_ == chunk.next) {
    chunk.next -= rounded_;
    chunk.left += rounded_;
  }
  *this = PanelMemory();
}

}  // namespace pome::kernels
