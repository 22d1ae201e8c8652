#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/result.h"

namespace pome::sampling {

// What one sequence may say next. It belongs to its sequence from the job on, and goes with it
// through every wait and retraction; one thread at a time.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Sets bit t % 32 of word t / 32 where token t may come next, and clears the others. Tokens past
  // the words may not come. An error ends the sequence: finding out takes more work than one step
  // may cost, or nothing may come.
  virtual Status allow(std::span<uint32_t> words) = 0;
  // `token`, which was allowed, stands.
  virtual Status accept(Token token) = 0;
  // Nothing may follow: the sequence ends here, without an EOS token where none was said.
  virtual bool complete() const = 0;
};

inline size_t mask_words(int32_t vocabulary) {
  return (static_cast<size_t>(vocabulary) + 31) / 32;
}

}  // namespace pome::sampling
