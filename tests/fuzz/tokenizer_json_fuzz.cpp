// libFuzzer: any bytes as a tokenizer.json; after a zero byte a tokenizer_config.json; after another one a
// merges.txt, and the first part is then a vocab.json. They turn texts into ids and back, or are refused.
#include <cstdlib>

#include "data/tokenizers/tokenizer.h"
#include "tests/fuzz/input.h"

namespace {

constexpr std::string_view kTexts[] = {
    "", "Two plus two?\n", " a  ab <s> \xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d 12345", "\xff\xfe not UTF-8"};

// Takes the bytes up to the next zero byte.
std::string_view take_part(std::string_view& input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view part = input.substr(0, end);
  input.remove_prefix(std::min(end + 1, input.size()));
  return part;
}

void use(const ft::Tokenizer& tokenizer) {
  for (const std::string_view text : kTexts) {
    const ft::Tokenizer::Ids ids = tokenizer.encode_with_specials(text);
    for (const bool skip : {false, true}) (void)tokenizer.decode(ids, skip);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.size()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  std::string_view input = ft::fuzz::text_of(data, size);
  const std::string_view tokens = take_part(input), settings = take_part(input);
  folder.clear();
  if (!settings.empty()) folder.write("tokenizer_config.json", settings);
  if (!input.empty()) folder.write("merges.txt", input);
  folder.write(input.empty() ? "tokenizer.json" : "vocab.json", tokens);
  ft::fuzz::read_within(size, [&] { use(*ft::make_tokenizer(folder.path())); });
  return 0;
}
