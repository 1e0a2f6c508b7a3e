// The settings as texts: for `ft help config` and for docs/config.md, which a test compares.
#pragma once
#include <cstddef>
#include <string>

#include "engine/core/error.h"

namespace ft {

std::string config_help(const std::string& section, std::size_t width);  // section "": all
std::string config_page();                                               // docs/config.md

// `ft help config [section]`: the table of settings.
Exit help_config(const std::string& section);

}  // namespace ft
