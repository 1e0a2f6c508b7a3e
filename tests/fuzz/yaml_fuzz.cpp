// libFuzzer: any bytes as a YAML file of another program. They give a tree of bounded size, whose references
// are replaced, or an error.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "app/translate/interpolate.h"
#include "app/translate/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    ft::translate::YamlFile file =
        ft::translate::parse_yaml({reinterpret_cast<const char*>(data), size}, "f.yml");
    ft::translate::interpolate(file.text);
  } catch (const ft::UserError&) {
  }
  return 0;
}
