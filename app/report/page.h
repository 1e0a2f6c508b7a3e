// report.html: a self-contained page that opens without a network: no scripts, fonts or pictures from other
// places.
#pragma once
#include <string>
#include <vector>

#include "app/report/run_page.h"

namespace ft {

// Returns the page about one run, or about several side by side. `live`: markup before its sections, for a
// page that is watched while the runs go on. Every section is there and has a name, also when it is empty.
std::string report_html(const std::vector<RunPage>& runs, const std::string& live = "");

}  // namespace ft
