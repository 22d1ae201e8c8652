#include "measurement.h"

#include <fmt/format.h>

#include "pome/bench/load/statistics.h"

namespace pome::bench {
namespace {

const char* side_words(Bar::Side side) {
  return side == Bar::Side::at_most ? "at most" : "at least";
}

}  // namespace

double Measurement::median() const {
  return apps::quantile(values, 0.5);
}

bool Measurement::met() const {
  return !bar ||
         (bar->side == Bar::Side::at_most ? median() <= bar->value : median() >= bar->value);
}

std::string to_line(const Measurement& m) {
  std::string line = fmt::format("  {:<58}{:>10.4g} {:<16}", m.name, m.median(), m.unit);
  if (m.bar) {
    line += fmt::format("bar: {} {:g}, {}", side_words(m.bar->side), m.bar->value,
                        m.met() ? "met" : "MISSED");
  }
  return line;
}

json::object to_json(const Measurement& m) {
  json::object out{{"name", m.name}, {"unit", m.unit}, {"median", m.median()}};
  out["values"] = json::array(m.values.begin(), m.values.end());
  if (m.bar) {
    out["bar"] = fmt::format("{} {:g}", side_words(m.bar->side), m.bar->value);
    out["met"] = m.met();
  }
  return out;
}

}  // namespace pome::bench
