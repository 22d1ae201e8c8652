#pragma once

#include <cstdint>
#include <memory>

namespace pome::kernels {

// Memory for packed matrices, 64-byte aligned. Matrices share chunks of whole huge pages: a decode
// step streams every weight once, and with small pages a quarter of its time goes into address
// translation. A chunk is given back when the last matrix in it is gone; its untouched end is never
// resident.
class PanelMemory {
 public:
  PanelMemory() = default;

  // Any thread. Throws std::bad_alloc.
  static PanelMemory allocate(int64_t bytes);
  // Returns memory that nothing was kept in. The newest piece of a chunk is used again at once, so
  // that an attempt which failed leaves no hole of resident bytes.
  void give_back();

  uint8_t* bytes() { return bytes_; }
  const uint8_t* bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> chunk_;
  uint8_t* bytes_ = nullptr;
  int64_t rounded_ = 0;
};

}  // namespace pome::kernels
