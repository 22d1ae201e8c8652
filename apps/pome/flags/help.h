#pragma once

#include <string>
#include <vector>

#include "pome/flags/command_line.h"
#include "pome/flags/flag.h"

namespace pome::apps {

// What a person needs to choose flags: the honoured ones, by group, wrapped at 100 columns; with
// `all` also those that are meaningless or refused, one line each.
std::string flags_help(bool all);

// A command's own options, one entry each.
std::string extras_help(const std::vector<ExtraOption>& extras);

// docs/cli.md: the commands and the whole table.
std::string cli_markdown();

// `text` in lines of at most `width` columns, each after the first begun with `indent` spaces.
std::string wrapped(const std::string& text, size_t indent, size_t width);

}  // namespace pome::apps
