// All reports of a training run, chosen by the `logging` section.
#pragma once
#include <memory>
#include <string>

#include "app/screen/screen.h"
#include "engine/train/config.h"
#include "engine/train/reports/report.h"

namespace ft {

// Makes the reports. Their files go into `folder`, the run's folder. The text report comes last, so that it
// names files that exist.
std::unique_ptr<Reports> make_reports(Screen& screen, const LoggingConfig& config, const std::string& folder);

}  // namespace ft
