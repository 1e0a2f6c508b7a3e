// libFuzzer: any bytes as a SentencePiece model, read as LLaMA's tokenizer.model and T5's spiece.model. An
// accepted model gives ids for texts.
#include "data/tokenizers/tokenizer.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  for (const char* name : {"tokenizer.model", "spiece.model"}) {
    folder.clear();
    folder.write(name, ft::fuzz::text_of(data, size));
    ft::fuzz::read_within(size, [&] {
      const auto tokenizer = ft::make_tokenizer(folder.path());
      for (const std::string_view text : {"Hello  world \u00e9 \xf0\x9f\x98\x80\n", "", "\xff\x80"}) {
        const ft::Tokenizer::Ids ids = tokenizer->encode_with_specials(text);
        (void)tokenizer->decode(ids, true);
      }
    });
  }
  return 0;
}
