#pragma once

#include "base/result.h"
#include "server/generation/served_text.h"

namespace pome::server {

// What stands before the echo engine: token ids 0 to 255 are the bytes of UTF-8, 256 ends the text,
// and the chat template is the messages' contents, one after another, unless flags choose another.
Result<ServedText> make_echo_text(text::ChatTemplateSources templates = {});

}  // namespace pome::server
