// libFuzzer: any bytes as the reply of a server that generates a run's answers.
#include <stdexcept>

#include "app/rollouts/rollout_server.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int32_t kVocabulary = 100, kPrompt[] = {1, 5}, kEnds[] = {2};
  constexpr std::size_t kMost = 4;  // tokens of an answer
  const std::string body(ft::fuzz::text_of(data, size));
  for (const std::int64_t count : {1, 2})
    ft::fuzz::read_within(size, [&] {
      try {
        const ft::SampledAnswers all =
            ft::read_completions(body, {kPrompt, count, kMost, 0}, kEnds, kVocabulary);
        for (std::size_t i = 0; i < all.tokens.size(); ++i) {
          const std::size_t tokens = all.tokens[i].size();
          if (tokens == 0 || tokens > kMost || all.logps[i].size() != tokens) std::abort();
          for (const std::int32_t id : all.tokens[i])
            if (id < 0 || id >= kVocabulary) std::abort();
        }
        if (all.tokens.size() != static_cast<std::size_t>(count)) std::abort();
      } catch (const std::invalid_argument&) {
      }
    });
  return 0;
}
