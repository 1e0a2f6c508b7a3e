// The settings as texts: for `ft help config` and for docs/config.md, which a test compares.
#pragma once
#include <cstddef>
#include <string>

namespace ft {

// `ft help config [section]`: the table of settings, in lines of at most `width` columns. "": all sections.
std::string config_help(const std::string& section, std::size_t width);
std::string config_page();  // docs/config.md

}  // namespace ft
