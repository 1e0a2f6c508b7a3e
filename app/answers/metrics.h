// ft metrics: scores answers against references, with the numbers of sacreBLEU and rouge-score.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

struct MetricsArgs {
  std::string hypotheses, references;  // text files, one segment a line
  bool use_stemmer = false;
  bool json = false;
};
Exit metrics_command(const MetricsArgs&);

}  // namespace ft
