#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pome/flags/command_line.h"
#include "pome/talk/speaker.h"

namespace pome::apps {

// What `run` and `chat` take beside the launch flags: --max-tokens, --temperature, --top-p, --seed.
std::vector<ExtraOption> answer_options_list();

// Out of range or no number: an error that names the option.
Result<AnswerOptions> answer_options(const CommandLine& line);

// Refuses what is not UTF-8, with the byte; `what` names it ("the prompt").
Status check_text(std::string_view text, std::string_view what);

// `run` and `chat` use the demo model where the command line, a file or POME_MODEL_PATH name none.
GivenFlags with_default_model(GivenFlags flags);

}  // namespace pome::apps
