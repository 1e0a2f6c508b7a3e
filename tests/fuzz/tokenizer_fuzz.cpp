// libFuzzer: any bytes as a tokenizer.json; after a zero byte, as its tokenizer_config.json. Texts become ids and
// texts again, or an error names the file.
#include "data/tokenizers/tokenizer.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string_view all = ft::fuzz::text_of(data, size), file = all.substr(0, all.find('\0'));
  folder.clear();
  folder.write("tokenizer.json", file);
  if (file.size() < size) folder.write("tokenizer_config.json", all.substr(file.size() + 1));
  ft::fuzz::read_within(size, [&] {
    const auto tokenizer = ft::make_tokenizer(folder.path());
    for (const std::string_view text :
         {"Hello, world! <s> 12 345\n\n\tif (x) { a\u0301 \xf0\x9f\x98\x80 }", "  ", "\xff\x80"}) {
      const ft::Tokenizer::Ids ids = tokenizer->encode_with_specials(text);
      (void)tokenizer->decode(ids, true);
      (void)tokenizer->decode(ids, false);
    }
    for (const std::int32_t id : {0, 1, 1'000'000}) {
      (void)tokenizer->token(id);
      (void)tokenizer->decode({&id, 1}, false);
    }
  });
  return 0;
}
