#pragma once

#include <string>

#include "base/result.h"
#include "pome/flags/settings.h"
#include "server/generation/served_text.h"
#include "tensor/checkpoint/checkpoint.h"

namespace pome::apps {

// What --chat-template (a file's content, or "chatml" itself) and --hf-chat-template-name choose;
// the model's own templates are still to be added.
Result<text::ChatTemplateSources> chosen_templates(const Settings& settings);

// Tokenizer and chat template of a checkpoint, with those flags and --tokenizer-path applied. A
// model without any template has none: it completes, and refuses chats.
Result<server::ServedText> read_model_text(const tensor::Checkpoint& checkpoint,
                                           const Settings& settings);

// How the model calls tools and thinks aloud, by --tool-call-parser and --reasoning-parser.
Status choose_forms(const Settings& settings, server::ServedText& text);

}  // namespace pome::apps
