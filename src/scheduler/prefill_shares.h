#pragma once

#include <cstdint>
#include <vector>

namespace pome::scheduler {

// How the prefill room of one step is shared out. `left` are the tokens that each prompt still
// needs, the one to be served first at the front. Half of the room goes to that one, so that none
// starves; the rest goes to the shortest, so that a chat message behind long prompts starts at
// once. No share is above `chunk_tokens_max`.
std::vector<int32_t> prefill_shares(const std::vector<int32_t>& left, int32_t room,
                                    int32_t chunk_tokens_max);

}  // namespace pome::scheduler
