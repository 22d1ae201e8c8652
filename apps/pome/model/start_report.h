#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "pome/flags/settings.h"
#include "pome/model/open_model.h"

namespace pome::apps {

// What `serve` says once a token can be generated, at most 12 lines: model, format, context, memory
// plan, back end, what is switched off, the URL and a request to paste.
std::vector<std::string> start_report(const Settings& settings, const OpenModel& model,
                                      uint16_t port, std::chrono::duration<double> took);

// The same, on standard output.
void print_start_report(const Settings& settings, const OpenModel& model, uint16_t port,
                        std::chrono::duration<double> took);

}  // namespace pome::apps
