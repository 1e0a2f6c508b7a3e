// The JSON Schema of a run's configuration, for `ft help config --schema` and for editors.
#pragma once
#include <string>

namespace ft {

std::string config_schema();

}  // namespace ft
