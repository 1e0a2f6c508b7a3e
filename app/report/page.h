// report.html: one page that holds everything it shows and opens without a network: no script, no font, no
// picture from elsewhere.
#pragma once
#include <string>
#include <vector>

#include "app/report/run_page.h"

namespace ft {

// The page about one run, or about several beside one another.
std::string report_html(const std::vector<RunPage>& runs);

}  // namespace ft
