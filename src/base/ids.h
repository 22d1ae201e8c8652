#pragma once

#include <cstdint>

namespace pome {

// Ids are types, so that two swapped arguments do not compile.
enum class RequestId : uint64_t {};   // one client request; unique in a process
enum class SequenceId : uint64_t {};  // one generated continuation; a request with n choices has n
enum class PageId : int32_t {};       // a page of the KV pool; page 0 is the sink for padding
enum class SlotId : int32_t {};       // a row of the per-sequence device state (sampler, recurrent)

// A token id is an index into the vocabulary; -1 stands for "none".
using Token = int32_t;

}  // namespace pome
