// libFuzzer: any bytes as the words of another program's command line, one a line, and as its YAML file. They
// become a run.json, or an error names the flag.
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/translate/flag.h"
#include "app/translate/reader.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string text(ft::fuzz::text_of(data, size));
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  ft::fuzz::read_within(size, [&] {
    ft::translate::Draft draft;
    ft::translate::read_command(words, "", draft);
    (void)ft::json_text(draft.config);
  });
  const std::string file = folder.write("config.yml", text);
  ft::fuzz::read_within(size, [&] {
    ft::translate::Draft draft;
    ft::translate::read_file_of(file, "", draft);
    (void)ft::json_text(draft.config);
  });
  return 0;
}
