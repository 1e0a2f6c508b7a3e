// libFuzzer: any bytes as the body of a request to ft serve.
#include "app/serve/api_error.h"
#include "app/serve/ask.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(ft::fuzz::text_of(data, size));
  for (const bool chat : {false, true})
    ft::fuzz::read_within(size, [&] {
      try {
        (void)ft::read_ask(body, chat, {});
      } catch (const ft::ApiError& e) {
        if (e.status < 400 || e.status > 499) std::abort();
      }
    });
  return 0;
}
