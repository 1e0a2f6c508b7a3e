#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizers/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft {
namespace {

const pcre2_code* code_of(const std::shared_ptr<const void>& p) {
  return static_cast<const pcre2_code*>(p.get());
}

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct State {
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data;
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context;
};

}  // namespace

Regex::Regex(std::string_view pattern) : Regex(pattern, false, "a pattern of ft") {}

Regex Regex::oniguruma(std::string_view pattern, const std::string& where) {
  return {from_oniguruma(pattern, where), false, where};
}

Regex Regex::literal(std::string_view text) { return {text, true, "a string"}; }

Regex::Regex(std::string_view pattern, bool literal, const std::string& where) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  require(context != nullptr, "no memory for a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  const std::uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : 0);
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                                   &error, &offset, context.get());
  if (code == nullptr)
    throw UserError(Exit::input, str(where, ": the pattern ", printable(pattern),
                                     " cannot be read: ", message_of(error), " at byte ", offset));
  code_ = std::shared_ptr<const void>(code, [](const void* p) {
    pcre2_code_free(const_cast<pcre2_code*>(static_cast<const pcre2_code*>(p)));
  });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // if it fails, matching is slower
}

Regex::Finder::Finder(const Regex& regex) : regex_(regex) {
  auto state =
      std::make_shared<State>(State{{pcre2_match_data_create(1, nullptr), &pcre2_match_data_free},
                                    {pcre2_match_context_create(nullptr), &pcre2_match_context_free}});
  require(state->data && state->context, "no memory for a regular expression");
  pcre2_set_heap_limit(state->context.get(), UINT32_MAX);
  state_ = std::move(state);
}

bool Regex::Finder::find(std::string_view text, std::size_t from, Match& match) {
  auto& state = *static_cast<State*>(state_.get());
  // 64 MiB of spaces in a row are slow, but no error; endless backtracking is stopped, as in Oniguruma.
  constexpr std::size_t kSteps = 10'000'000, kStepsPerByte = 40;
  const std::size_t steps = std::min<std::size_t>(kSteps + kStepsPerByte * text.size(), UINT32_MAX);
  pcre2_set_match_limit(state.context.get(), static_cast<std::uint32_t>(steps));
  const auto run = [&](std::uint32_t options) {
    return pcre2_match(code_of(regex_.code_), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
  };
  int found = run(0);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = run(PCRE2_NO_JIT);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw UserError(Exit::input, str("a tokenizer's pattern failed on a text of ", text.size(),
                                     " bytes: ", message_of(found)));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state.data.get());
  match = {range[0], range[1]};
  return true;
}

std::vector<Regex::Match> all_matches(std::string_view text, const Regex& regex) {
  std::vector<Regex::Match> matches;
  Regex::Finder finder(regex);
  Regex::Match m;
  for (std::size_t from = 0; from <= text.size() && finder.find(text, from, m);) {
    if (m.begin == m.end && !matches.empty() && matches.back().end == m.end) {
      from = m.end + std::max<std::size_t>(utf8_length(text, m.end), 1);
      continue;
    }
    matches.push_back(m);
    from = m.end;
  }
  return matches;
}

}  // namespace ft
