// libFuzzer: any bytes as the body of a request to ft serve.
#include "app/serve/api_error.h"
#include "app/serve/ask.h"
#include "tests/fuzz/input.h"

namespace {

void asked(std::size_t size, const std::function<void()>& read) {
  ft::fuzz::read_within(size, [&] {
    try {
      read();
    } catch (const ft::ApiError& e) {
      if (e.status < 400 || e.status > 499) std::abort();
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(ft::fuzz::text_of(data, size));
  for (const bool chat : {false, true}) asked(size, [&] { (void)ft::read_ask(body, chat, {}); });
  for (const bool load : {false, true}) asked(size, [&] { (void)ft::read_adapter_change(body, load); });
  return 0;
}
