// libFuzzer: any bytes as a YAML file of another program. They give a tree of bounded size, whose references
// are replaced, or an error.
#include <nlohmann/json.hpp>

#include "app/translate/interpolate.h"
#include "app/translate/yaml.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::fuzz::read_within(size, [&] {
    ft::translate::YamlFile file = ft::translate::parse_yaml(ft::fuzz::text_of(data, size), "f.yml");
    ft::translate::interpolate(file.text);
  });
  return 0;
}
