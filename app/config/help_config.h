// The settings as texts, for `ft help config` and for docs/config.md. A test compares them with that page.
#pragma once
#include <cstddef>
#include <string>

namespace ft {

// Returns the text of `ft help config [section]`, in lines of at most `width` columns. `section` "": all
// sections.
std::string config_help(const std::string& section, std::size_t width);
std::string config_page();  // docs/config.md

}  // namespace ft
