// ft report: one page about one run, or about several beside one another.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct ReportArgs {
  std::vector<std::string> runs;  // folders
  std::string output = "report.html";
  bool overwrite = false;
};
Exit report(const ReportArgs& args);

}  // namespace ft
