// ft tune: finds the settings with which a run is fastest or takes least memory, and writes its configuration
// with them. Plans every combination, tries a few that fit, and predicts the others.
#pragma once
#include <cstdint>

#include "app/config/args.h"
#include "engine/core/error.h"
#include "engine/core/words.h"

namespace ft {

enum class TuneMetric : std::uint8_t { throughput, latency, memory };
constexpr auto words(TuneMetric) {
  using enum TuneMetric;
  return to_words<TuneMetric>({{throughput, "throughput"}, {latency, "latency"}, {memory, "memory"}});
}

struct TuneArgs : ConfigArgs {
  TuneMetric metric = TuneMetric::throughput;
  std::int64_t trials = 0;  // largest number; 0: a tenth of those that fit
  bool all = false;         // try all settings that fit
  bool json = false;
};
Exit tune(const TuneArgs&);

}  // namespace ft
