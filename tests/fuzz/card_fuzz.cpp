// libFuzzer: any bytes as the card of a data set, README.md, whose settings name its files.
#include <nlohmann/json.hpp>

#include "data/files/repository.h"
#include "data/files/yaml.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  static const std::string rows = folder.write("train.jsonl", "{}\n");
  const std::string card(ft::fuzz::text_of(data, size));
  folder.write("README.md", card);
  ft::fuzz::read_within(size, [&] { (void)ft::read_yaml_key(card, "configs", "README.md", 1); });
  ft::fuzz::read_within(size, [&] {
    (void)ft::repository_files(folder.path(), "data", ft::DatasetConfig{}, "data.datasets[0]");
  });
  return 0;
}
