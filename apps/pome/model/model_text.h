#pragma once

#include <string>

#include "base/result.h"
#include "pome/flags/settings.h"
#include "server/generation/served_text.h"
#include "tensor/checkpoint/checkpoint.h"

namespace pome::apps {

// What --chat-template names: the content of that file, or "chatml" itself.
Result<std::string> read_chosen_template(const std::string& chosen);

// Tokenizer and chat template of a checkpoint, with --tokenizer-path and --chat-template applied. A
// model without any template has none: it completes, and refuses chats.
Result<server::ServedText> read_model_text(const tensor::Checkpoint& checkpoint,
                                           const Settings& settings);

}  // namespace pome::apps
