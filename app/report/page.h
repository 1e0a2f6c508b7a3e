// report.html: a self-contained page that opens without a network: no scripts, fonts or pictures from other
// places.
#pragma once
#include <string>
#include <vector>

#include "app/report/run_page.h"

namespace ft {

// Returns the page about one run, or about several side by side.
std::string report_html(const std::vector<RunPage>& runs);

}  // namespace ft
