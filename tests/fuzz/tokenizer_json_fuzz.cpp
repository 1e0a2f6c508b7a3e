// libFuzzer: any bytes as a tokenizer.json. It turns texts into ids and back, or is refused.
#include "data/tokenizers/tokenizer.h"
#include "tests/fuzz/input.h"

namespace {

constexpr std::string_view kTexts[] = {
    "", "Two plus two?\n", " a  ab <s> \xc3\xa9\xe2\x82\xac\xf0\x9f\x91\x8d 12345", "\xff\xfe not UTF-8"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string file = folder.write("tokenizer.json", ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] {
    const auto tokenizer = ft::make_tokenizer(file);
    for (const std::string_view text : kTexts) {
      const ft::Tokenizer::Ids ids = tokenizer->encode_with_specials(text);
      for (const bool skip : {false, true}) (void)tokenizer->decode(ids, skip);
      for (const std::int32_t id : ids) (void)tokenizer->token(id);
    }
  });
  return 0;
}
