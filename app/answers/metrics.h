// ft metrics: how near answers are to what was expected, as sacreBLEU and rouge-score say it.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

struct MetricsArgs {
  std::string hypotheses, references;  // files of lines
  bool use_stemmer = false;
  bool json = false;
};
Exit metrics_command(const MetricsArgs&);

}  // namespace ft
